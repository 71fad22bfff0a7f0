"""The working directory and the variables of a command whose pods are local processes, as with `srun`."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kilauea.api.kinds import NODES
from kilauea.api.ports import ApiError
from kilauea.cli.jobs.commands import literal
from kilauea.cli.vcctl.cluster import decoded
from kilauea.cli.vcctl.command import CommandError
from kilauea.cli.vcctl.tables import part
from kilauea.nodes.annotations import NODE_RUNTIME, PROCESS

if TYPE_CHECKING:
    from kilauea.api.ports import Api

BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_OF_THE_SHELL = frozenset({"_", "OLDPWD", "PWD", "SHLVL"})


async def is_this_machine(api: Api, server: str) -> bool:
    """True if a node runs pods as processes on this machine; only a server on this machine has such nodes."""
    if not is_loopback(server):
        return False
    try:
        boot = BOOT.read_text().strip()
        nodes = await api.list(NODES)
    except (OSError, ApiError):
        return False
    return any(_is_here(decoded(item), boot) for item in nodes.items)


def is_loopback(server: str) -> bool:
    """True for the address of a server on this machine."""
    host = urlsplit(server).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_here(node: Mapping[str, Any], boot: str) -> bool:
    runtime = (node["metadata"].get("annotations") or {}).get(NODE_RUNTIME)
    return runtime == PROCESS and part(node, "status", "nodeInfo", "bootID") == boot


def exported(spec: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Variables selected by `--export`: ALL, NONE, or names, each with a value or that of this process.

    Raises:
        CommandError: a name is invalid, or has no value.
    """
    found: dict[str, str] = {}
    for entry in filter(None, spec.split(",")):
        name, equals, value = entry.partition("=")
        if entry in ("ALL", "NONE"):
            found |= _all(environment) if entry == "ALL" else {}
        elif not _NAME.fullmatch(name):
            raise CommandError(f'--export: "{name}" is not the name of a variable: use ALL, NONE or NAME[=VALUE],...')
        elif not equals and name not in environment:
            raise CommandError(f"--export: {name} is not set: set it, or use {name}=VALUE")
        else:
            found[name] = value if equals else environment[name]
    return found


def _all(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if _NAME.fullmatch(name) and name not in _OF_THE_SHELL}


def put_in_place(job: dict[str, Any], folder: str, export: str, *, here: bool, files: Sequence[str] = ()) -> None:
    """Set the working folder and the variables of a job's containers.

    On this machine, they share the user's home folder if they work in it, otherwise their working folder, and the
    folders of their output files. Other written files are lost at the end.

    Args:
        job: the job; changed.
        folder: the folder given by the user; if empty, the current one on this machine, otherwise that of the image.
        export: value of `--export`; if empty, ALL on this machine, otherwise NONE.
        here: True if pods are processes on this machine.
        files: files that the job writes, relative to its working folder; names may have Slurm's patterns.

    Raises:
        CommandError: `export` is invalid, or the folder does not exist on this machine.
    """
    given = exported(export or ("ALL" if here else "NONE"), os.environ)
    working = os.path.abspath(folder or os.getcwd())
    if here and not os.path.isdir(working):
        raise CommandError(f"--chdir: {working} is not a folder of this machine")
    shared = _shared(working, files) if here else []
    volumes = [
        {"name": f"folder-{number}", "hostPath": {"path": path, "type": "Directory"}}
        for number, path in enumerate(shared)
    ]
    mounts = [{"name": f"folder-{number}", "mountPath": path} for number, path in enumerate(shared)]
    for task in job["spec"]["tasks"]:
        pod = task["template"]["spec"]
        if here:
            # There may be simulated nodes in addition to this machine, which would run nothing.
            pod["nodeSelector"] = {**(pod.get("nodeSelector") or {}), NODE_RUNTIME: PROCESS}
        if volumes:
            pod["volumes"] = [*(pod.get("volumes") or ()), *volumes]
        for container in pod["containers"]:
            own = container.get("env") or []
            names = {variable["name"] for variable in own}
            more = [{"name": name, "value": value} for name, value in sorted(given.items()) if name not in names]
            if more or own:
                container["env"] = [*more, *own]
            if here:
                known = names | given.keys()
                container["command"] = [literal(word, known) for word in container.get("command") or ()]
                container["env"] = [_literal(variable, known) for variable in container.get("env") or ()]
                container["volumeMounts"] = [*(container.get("volumeMounts") or ()), *mounts]
            if folder or here:
                container["workingDir"] = working


def _shared(working: str, files: Sequence[str]) -> list[str]:
    """The folders that a job shares with this machine, none within another; the root folder cannot be shared."""
    home = os.path.abspath(os.path.expanduser("~"))
    found = {working}
    for file in files:
        path = os.path.dirname(os.path.join(working, file.partition("%")[0]))
        if os.path.isdir(path) and not path.startswith("/dev"):
            found.add(os.path.abspath(path))
    found = {home if _is_within(path, home) else path for path in found} - {"/"}
    return sorted(path for path in found if not any(_is_within(path, other) for other in found - {path}))


def _is_within(path: str, folder: str) -> bool:
    return folder != "/" and os.path.commonpath((path, folder)) == folder


def _literal(variable: dict[str, Any], names: set[str]) -> dict[str, Any]:
    if "value" not in variable:
        return variable
    return {**variable, "value": literal(variable["value"], names)}
