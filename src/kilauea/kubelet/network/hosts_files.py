"""`HostsFiles`: the hosts files of pods on disk, which are mounted at /etc/hosts in containers.

The pods of a namespace share one file, so that a gang of a thousand pods costs one file with a thousand lines: a pod
that starts adds a line, and a change of services writes one file. A pod has a separate file if it has hostAliases, if
it uses the network of the node, or if another pod of its namespace has the same host name, whose line it must not see.

Containers mount the file itself, not its name, so files are written in place.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from kilauea.api.ports import Obj
from kilauea.kubelet.network.hosts import (
    DOMAIN,
    HEADER,
    HOST_NETWORK_HEADER,
    LOCALHOST,
    PodNames,
    alias_lines,
    pod_line,
    pod_names,
)

Known = frozenset[str]
"""The longest names of pods with separate lines."""
ServiceText = Callable[[str, Known], str]
"""Returns the lines of all services for pods of a namespace, except those of known pods."""


@dataclass(frozen=True, slots=True)
class _Member:
    """A pod with a hosts file. Its names are None if it uses those of the machine."""

    names: PodNames | None
    aliases: str
    path: Path


@dataclass(slots=True)
class _Namespace:
    """The pods of a namespace.

    Attributes:
        members: all, by uid.
        alone: those with a separate file, by uid.
        hostnames: host names in the shared file, each with the uid of its pod.
    """

    members: dict[str, _Member] = field(default_factory=dict)
    alone: dict[str, _Member] = field(default_factory=dict)
    hostnames: dict[str, str] = field(default_factory=dict)

    def known(self) -> Known:
        """The longest names of its pods."""
        return frozenset(
            f"{each.names.hostname}.{each.names.subdomain}.{each.names.namespace}.svc.{DOMAIN}"
            for each in self.members.values()
            if each.names is not None and each.names.subdomain
        )


class HostsFiles:
    """Hosts files in a folder."""

    def __init__(self, folder: Path, services: ServiceText, machine: str = "") -> None:
        """Initialize the files in a folder.

        Args:
            folder: folder of all files.
            services: returns the lines of services.
            machine: entries of the machine that pods inherit.
        """
        self._own_folder, self._shared_folder = folder / "pods", folder / "namespaces"
        self._services = services
        self._machine = machine
        self._namespaces: dict[str, _Namespace] = {}
        self._of: dict[str, str] = {}
        """The namespace of each pod with a file, by its uid."""
        self._written: dict[Path, str] = {}
        self._stale: set[str] = set()
        """Namespaces with outdated files."""

    @property
    def stale(self) -> bool:
        """True if files must be written by `refresh`."""
        return bool(self._stale)

    def restore(self, pods: Iterable[tuple[Obj, str]]) -> None:
        """Write the files of all running pods, and remove others.

        Args:
            pods: each with its address.

        Raises:
            OSError: a file cannot be written.
        """
        for pod, address in pods:
            self._enter(pod, address)
        self.touch()
        self.refresh()
        kept = {each.path for namespace in self._namespaces.values() for each in namespace.members.values()}
        for path in [*self._shared_folder.glob("*"), *self._own_folder.glob("*")]:
            if path not in kept:
                path.unlink()

    def add(self, pod: Obj, address: str) -> Path:
        """Add a pod to the hosts files; returns the path of its file.

        Args:
            pod: the pod.
            address: its address.

        Raises:
            OSError: the file cannot be written.
        """
        uid = pod["metadata"]["uid"]
        if uid not in self._of:
            self._enter(pod, address)
            self._announce(self._of[uid], uid)
        return self._member(uid).path

    def discard(self, uid: str) -> None:
        """Remove a pod, with its separate file if any; the next `refresh` removes its names from those of others."""
        if uid not in self._of:
            return
        name = self._of.pop(uid)
        namespace = self._namespaces[name]
        member = namespace.members.pop(uid)
        if member.names is not None and namespace.hostnames.get(member.names.hostname) == uid:
            del namespace.hostnames[member.names.hostname]
        self._stale.add(name)
        if namespace.alone.pop(uid, None):
            self._remove(member.path)

    def touch(self) -> None:
        """Mark all files as outdated, as services have changed."""
        self._stale |= self._namespaces.keys()

    def refresh(self) -> None:
        """Write all outdated files.

        Raises:
            OSError: a file cannot be written; it stays stale.
        """
        for name in sorted(self._stale):
            namespace = self._namespaces[name]
            if namespace.members:
                self._write_all(name, namespace)
            else:
                del self._namespaces[name]
                self._remove(self._shared(name))
            self._stale.discard(name)

    def _member(self, uid: str) -> _Member:
        return self._namespaces[self._of[uid]].members[uid]

    def _own(self, uid: str) -> Path:
        return self._own_folder / uid

    def _shared(self, namespace: str) -> Path:
        return self._shared_folder / namespace

    def _enter(self, pod: Obj, address: str) -> None:
        """Decide which file a pod uses: after a restart the same as before, since its containers have it mounted."""
        metadata = pod["metadata"]
        uid, name = metadata["uid"], metadata["namespace"]
        namespace = self._namespaces.setdefault(name, _Namespace())
        names = None if (pod.get("spec") or {}).get("hostNetwork") else pod_names(pod, address)
        aliases, own = alias_lines(pod), self._own(uid)
        alone = bool(aliases) or own.exists()
        alone = alone or names is None or bool(names.override) or names.hostname in namespace.hostnames
        if names is not None and not alone:
            namespace.hostnames[names.hostname] = uid
        member = namespace.members[uid] = _Member(names, aliases, own if alone else self._shared(name))
        if alone:
            namespace.alone[uid] = member
        self._of[uid] = name

    def _announce(self, name: str, uid: str) -> None:
        """Write the file of a new pod, and add its line to the shared file; other files follow later.

        The file may still have the name with the address of an earlier pod, which has ended. It must be replaced: a
        program that listens on its own name would otherwise listen on the wrong address.
        """
        namespace, member, shared = self._namespaces[name], self._member(uid), self._shared(name)
        line = pod_line(member.names, own=uid not in namespace.alone) if member.names is not None else ""
        if uid in namespace.alone:
            self._write(member.path, self._text(name, namespace, uid))
        if shared in self._written and not _has_name(self._written[shared], line):
            self._append(shared, line)
        elif shared in self._written or uid not in namespace.alone:
            self._write(shared, self._text(name, namespace))
        if namespace.alone:
            self._stale.add(name)

    def _write_all(self, name: str, namespace: _Namespace) -> None:
        if len(namespace.alone) < len(namespace.members):
            self._write(self._shared(name), self._text(name, namespace))
        for uid, each in namespace.alone.items():
            self._write(each.path, self._text(name, namespace, uid))

    def _text(self, name: str, namespace: _Namespace, alone: str = "") -> str:
        """The text of the shared file, or of the separate file of a pod."""
        member = namespace.members[alone] if alone else None
        parts = [HOST_NETWORK_HEADER if member is not None and member.names is None else HEADER, LOCALHOST]
        if member is not None:
            parts += [pod_line(member.names, own=True) if member.names is not None else "", member.aliases]
        parts += [self._services(name, namespace.known()), self._machine]
        for uid, each in namespace.members.items():
            if each.names is not None and uid != alone:
                parts.append(pod_line(each.names, own=not alone and uid not in namespace.alone))
        return "".join(parts)

    def _write(self, path: Path, text: str) -> None:
        """Write a file in place, if it differs: first the text, then truncate it, so that it is never empty."""
        if self._written.get(path) == text:
            return
        _create(path)
        with path.open("r+b") as file:
            size = file.write(text.encode())
            file.truncate(size)
        self._written[path] = text

    def _append(self, path: Path, text: str) -> None:
        with path.open("ab") as file:
            file.write(text.encode())
        self._written[path] += text

    def _remove(self, path: Path) -> None:
        self._written.pop(path, None)
        path.unlink(missing_ok=True)


def _has_name(text: str, line: str) -> bool:
    """Return True if a line of a text has the same first name as a given line, which may be empty."""
    _, tab, names = line.partition("\t")
    first = names.split(" ", 1)[0]
    return bool(tab) and f"{tab}{first}{'' if first == names else ' '}" in text


def _create(path: Path) -> None:
    """Create an empty world-readable file, unless it exists."""
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
