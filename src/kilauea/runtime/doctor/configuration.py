"""The check of the scheduler's configuration: the ConfigMaps that schedulers mount, and Volcano's ConfigMap."""

from __future__ import annotations

from collections.abc import Iterator

from kilauea.api.kinds import CONFIG_MAPS
from kilauea.api.ports import Key, Obj
from kilauea.controllers.configuration import FILE, PLACE
from kilauea.engine.explain.conf_check import ERROR as CONF_ERROR
from kilauea.engine.explain.conf_check import WARNING as CONF_WARNING
from kilauea.engine.explain.conf_check import check_conf
from kilauea.runtime.doctor.facts import Facts
from kilauea.runtime.doctor.findings import ERROR, WARNING, Check, Finding, check_of, unread
from kilauea.runtime.doctor.installation import SCHEDULER, components
from kilauea.runtime.inputs.conf_file import ConfFile, conf_file
from kilauea.simulator.extensions import Extensions

SEVERITY = {CONF_ERROR: ERROR, CONF_WARNING: WARNING}
"""Severities of findings about a configuration; notes are left out."""


def maps_to_read(facts: Facts) -> dict[Key, tuple[str, str]]:
    """Return the ConfigMaps with configurations: for each the entry, and the Deployment that needs it, maybe none."""
    found: dict[Key, tuple[str, str]] = {}
    for each in components(facts):
        for path in each.values("scheduler-conf") if each.part == SCHEDULER else ():
            folder, _, name = path.rpartition("/")
            if folder in each.maps:
                found[Key(each.key.namespace, each.maps[folder])] = (name, str(each))
    found.setdefault(PLACE, (FILE, ""))
    return found


def check_configuration(facts: Facts, extensions: Extensions) -> Check:
    """Check the configurations of schedulers.

    Args:
        facts: the cluster.
        extensions: plugins and actions of the user.
    """
    if CONFIG_MAPS in facts.refused:
        finding = unread("ConfigMaps", facts.refused[CONFIG_MAPS], "grant your user get on configmaps")
        return check_of("configuration", "", [finding])
    found, names = [], []
    for key, (entry, needed) in sorted(maps_to_read(facts).items()):
        found += list(_findings(key, entry, needed, facts.maps.get(key), extensions))
        names += [str(key)] if facts.maps.get(key) is not None else []
    good = f"ConfigMap {', '.join(names)} is valid" if names else "the built-in configuration: no ConfigMap replaces it"
    return check_of("configuration", good, found)


def _findings(key: Key, entry: str, needed: str, found: Obj | None, extensions: Extensions) -> Iterator[Finding]:
    where, field = f"ConfigMap {key}", f"data[{entry}]"
    if found is None:
        if needed:
            message = f"the ConfigMap that {needed} mounts does not exist"
            fix = f"create it: `kubectl -n {key.namespace} create configmap {key.name} --from-file={entry}`"
            yield Finding(ERROR, where, "", "", message, fix)
        return
    text = (found.get("data") or {}).get(entry)
    if text is None:
        entries = ", ".join(sorted(found.get("data") or {})) or "none"
        message = f"it has no entry {entry}, so the scheduler uses its built-in configuration"
        fix = f"name the entry {entry}: `kubectl -n {key.namespace} edit configmap {key.name}`"
        yield Finding(WARNING, where, "data", entries, message, fix)
        return
    edit = f"`kubectl -n {key.namespace} edit configmap {key.name}`"
    yield from _issues(conf_file(entry, str(text).encode()), where, field, edit, extensions)


def _issues(file: ConfFile, where: str, field: str, edit: str, extensions: Extensions) -> Iterator[Finding]:
    if file.fault is not None:
        message = f"it is not YAML: {file.fault.message}"
        fix = f"correct line {file.fault.line}: {edit}"
        yield Finding(ERROR, where, field, f"line {file.fault.line}", message, fix)
        return
    for issue in check_conf(file.document, extensions.plugins, extensions.actions):
        severity = SEVERITY.get(issue.severity)
        if severity is None:
            continue
        line = file.place(issue.path)[0]
        at = f"{field}: {issue.where}" if issue.where else field
        fix = f'use "{issue.hint}"' if issue.hint else "correct it"
        more = f": {edit}" if not line else f" in line {line}: {edit}"
        yield Finding(severity, where, at, f"line {line}" if line else "", issue.message, fix + more)
