"""The host and the users of a container, as `hostname`, `id` and `sysctl` print them in a simulated container.

Users and groups are those of the security contexts, by default root; the image might define others. Kernel parameters
are those that the pod sets, as those of its node are unknown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from kilauea.api.ports import Obj
from kilauea.nodes.environment import full_hostname_of, hostname_of
from kilauea.nodes.running_users import security_context

PROGRAMS = frozenset({"hostname", "id", "sysctl"})
_ASKS = re.compile(rf"\b(?:{'|'.join(sorted(PROGRAMS))})\b")


class Identity(NamedTuple):
    """The host, the users and the kernel parameters of a container.

    Attributes:
        hostname: the short name of its host; empty if unknown.
        full_hostname: with the domain.
        user, group: user and group of its first process.
        groups: further ones.
        parameters: kernel parameters with their values; parts of a name are separated by dots.
    """

    hostname: str = ""
    full_hostname: str = ""
    user: int = 0
    group: int = 0
    groups: tuple[int, ...] = ()
    parameters: tuple[tuple[str, str], ...] = ()

    def printed(self, program: str, words: Sequence[str]) -> list[str] | None:
        """The lines that one of `PROGRAMS` prints; None if unknown."""
        if program == "hostname":
            return self._hostname(words)
        if program == "id":
            return self._id(words)
        found = dict(self.parameters)
        names = [word.replace("/", ".") for word in words if word != "-n"]
        if not names or not found.keys() >= set(names):
            return None
        return [found[name] if "-n" in words else f"{name} = {found[name]}" for name in names]

    def _hostname(self, words: Sequence[str]) -> list[str] | None:
        names = {"": self.hostname, "-s": self.hostname, "-f": self.full_hostname, "--fqdn": self.full_hostname}
        found = names.get(" ".join(words))
        return [found] if found else None

    def _id(self, words: Sequence[str]) -> list[str] | None:
        groups = list(dict.fromkeys((self.group, *self.groups)))
        told = ",".join(map(_named, groups))
        texts = {
            "": f"uid={_named(self.user)} gid={_named(self.group)} groups={told}",
            "-u": str(self.user),
            "-g": str(self.group),
            "-G": " ".join(map(str, groups)),
        }
        found = texts.get(" ".join(words))
        return None if found is None else [found]


UNASKED = Identity()
"""The identity for containers whose command does not use it."""


def _named(number: int) -> str:
    return str(number) if number else "0(root)"


def identity_of(pod: Obj, container: Obj) -> Identity:
    """The identity of a container, if its command seems to use it."""
    words = (*(container.get("command") or ()), *(container.get("args") or ()))
    if not any(_ASKS.search(word) for word in words):
        return UNASKED
    spec, context = pod["spec"], security_context(pod, container)
    groups = [*(context.get("supplementalGroups") or ()), context.get("fsGroup")]
    sysctls = context.get("sysctls") or ()
    return Identity(
        hostname_of(pod, spec.get("nodeName") or ""),
        full_hostname_of(pod, spec.get("nodeName") or ""),
        context.get("runAsUser") or 0,
        context.get("runAsGroup") or 0,
        tuple(group for group in groups if group is not None),
        tuple((each["name"].replace("/", "."), str(each.get("value") or "")) for each in sysctls),
    )
