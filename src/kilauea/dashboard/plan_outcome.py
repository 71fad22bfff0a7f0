"""The outcome of a plan with pasted objects, from the output of `kilauea plan -o json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kilauea.api.yamltext import TextError, YamlDocument, read_documents

MOST_BINDS = 50
"""Maximum number of shown pods with their nodes."""
MOST_MESSAGES = 20
"""Maximum number of shown warnings."""
COMMAND = "kilauea plan -f job.yaml"


class Submitted(NamedTuple):
    """The outcome of one pod group of the pasted objects.

    Attributes:
        name: namespace and name.
        starts: True if all its pods start.
        verdict: the outcome in a word or two.
        words: the outcome with numbers.
        code, reason: the reason why the rest waits; empty if nothing does.
    """

    name: str
    starts: bool
    verdict: str
    words: str
    code: str
    reason: str


def pasted_names(manifest: bytes) -> set[str] | None:
    """Namespaces and names of the pasted objects; None if they are invalid."""
    documents = list(read_documents(manifest))
    if any(isinstance(each, TextError) for each in documents):
        return None
    names = set()
    for found in documents:
        document = found.value if isinstance(found, YamlDocument) else None
        items = document.get("items") if isinstance(document, dict) else None
        for each in items if isinstance(items, list) else [document]:
            metadata = each.get("metadata") if isinstance(each, dict) else None
            if isinstance(metadata, dict):
                names.add(f"{metadata.get('namespace') or 'default'}/{metadata.get('name')}")
    return names


def outcome(
    plan: Mapping[str, Any] | None, messages: str, fault: str = "", pasted: set[str] | None = None
) -> dict[str, Any]:
    """The model of a plan.

    Args:
        plan: the plan; None if there is none.
        pasted: names of the pasted objects; None to show every group that waits to be created.
        messages: other output of the command, one warning or error per line.
        fault: the reason why the command did not complete; empty if it did.
    """
    warnings, errors = _sorted(messages)
    if fault:
        errors.insert(0, fault)
    if plan is None and not errors:
        errors.append("the plan failed")
    found = plan or {}
    groups_of_pasted = [each for each in found.get("submitted", ()) if _is_of(each["podGroup"], pasted)]
    names = {each["podGroup"] for each in groups_of_pasted}
    evictions = [each for each in found.get("evictions", ()) if each["by"] in names]
    groups = _pods_of(found, names)
    binds = [(pod, node) for pod, node in sorted(found.get("binds", {}).items()) if pod in groups]
    refused = found.get("notCreated", {})
    submitted = [_submitted(each, refused) for each in groups_of_pasted]
    return {
        "errors": errors,
        "warnings": warnings[:MOST_MESSAGES],
        "planned": plan is not None,
        "submitted": submitted,
        "evictions": evictions,
        "binds": binds[:MOST_BINDS],
        "bind_count": len(binds),
        "command": COMMAND,
    }


def _is_of(group: str, pasted: set[str] | None) -> bool:
    """True if a pod group belongs to a pasted object: its name equals or begins with that of the object."""
    return pasted is None or any(group == name or group.startswith(f"{name}-") for name in pasted)


def _pods_of(plan: Mapping[str, Any], names: set[str]) -> set[str]:
    """Pods of the submitted groups that start."""
    groups = plan.get("podGroups", {})
    return {pod for name in names for pod in groups.get(name, {}).get("tasks", {})}


def _submitted(each: Mapping[str, Any], refused: Mapping[str, Mapping[str, Any]]) -> Submitted:
    starting, waiting, nodes = each["starting"], each["waiting"], len(each["nodes"])
    message = f"{_count(starting, 'pod')} would start on {_count(nodes, 'node')}" if starting else "no pod would start"
    if waiting:
        message += f", {_count(waiting, 'pod')} would wait"
    if each["evicts"]:
        message += f", and {_count(len(each['evicts']), 'pod')} would be evicted for it"
    code, reason = each["code"], each["reason"]
    if each["podGroup"] in refused and not reason:
        missing = refused[each["podGroup"]]
        code, reason = "PodsNotCreated", missing["reason"]
        message = f"{_count(missing['pods'], 'pod')} would not be created"
    starts = bool(starting) and not waiting
    verdict = "would start now" if starts else "would start partially" if starting else "would wait"
    if code == "Nominated" and not starting:
        verdict = "would start once resources are freed for it"
    return Submitted(each["podGroup"], starts, verdict, f"{message}; queue {each['queue']}.", code, reason)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _sorted(messages: str) -> tuple[list[str], list[str]]:
    """Warnings and errors; a line without either word continues the previous one."""
    warnings: list[str] = []
    errors: list[str] = []
    last: list[str] | None = None
    for line in messages.splitlines():
        if line.startswith("warning: "):
            warnings.append(line.removeprefix("warning: "))
            last = warnings
        elif line.startswith("Error: "):
            errors.append(line.removeprefix("Error: "))
            last = errors
        elif line.strip() and last is not None:
            last[-1] += f"\n{line}"
    return warnings, errors


def shown_messages(messages: str) -> Sequence[str]:
    """All messages of a command, errors first."""
    warnings, errors = _sorted(messages)
    return [*errors, *warnings]
