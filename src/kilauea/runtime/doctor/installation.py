"""The components that run in a cluster, found by the commands and images of its Deployments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kilauea.api.kinds import DEPLOYMENTS
from kilauea.api.ports import Key, Obj
from kilauea.runtime.doctor.facts import Facts

SCHEDULER, CONTROLLERS, WEBHOOKS = PARTS = ("scheduler", "controllers", "webhooks")
PROGRAMS = {"vc-scheduler": SCHEDULER, "vc-controller-manager": CONTROLLERS, "vc-webhook-manager": WEBHOOKS}
"""Volcano's programs and images, with the part that each is."""
KILAUEA, VOLCANO, KUBE_BATCH = "kilauea", "volcano", "kube-batch"
LEASE_NAMES = {SCHEDULER: "volcano", CONTROLLERS: "vc-controller-manager"}
"""Default names of leases."""


@dataclass(frozen=True)
class Component:
    """A Deployment that runs a part of Kilauea, of Volcano, or kube-batch.

    Attributes:
        part: one of `PARTS`.
        product: `KILAUEA`, `VOLCANO` or `KUBE_BATCH`.
        key: of the Deployment.
        account: its service account, as a user name.
        args: words of the command.
        replicas, ready: wanted and ready pods.
        maps: ConfigMaps that are mounted, by folder.
    """

    part: str
    product: str
    key: Key
    account: str
    args: tuple[str, ...]
    replicas: int
    ready: int
    maps: Mapping[str, str]

    def __str__(self) -> str:
        """The Deployment, as findings name it."""
        return f"Deployment {self.key}"

    def values(self, flag: str, default: Sequence[str] = ()) -> tuple[str, ...]:
        """Return the values of a flag, in the order of the command."""
        found = []
        for at, word in enumerate(self.args):
            name, equals, value = word.partition("=")
            if name.replace("_", "-") == f"--{flag}":
                found.append(value if equals else "".join(self.args[at + 1 : at + 2]))
        return tuple(found) or tuple(default)

    @property
    def lease(self) -> Key | None:
        """The lease of its leader; None if it works without one."""
        if self.part not in LEASE_NAMES or self.values("leader-elect", ["true"])[-1].lower() in ("false", "f", "0"):
            return None
        namespace = self.values("lock-object-namespace") or self.values(
            "leader-elect-resource-namespace", ["volcano-system"]
        )
        name = self.values("leader-elect-resource-name", [LEASE_NAMES[self.part]])
        return Key(namespace[-1], name[-1])


def components(facts: Facts) -> list[Component]:
    """Return the components in the order of their names; those that are scaled to zero are not there."""
    found = [each for deployment in facts.all(DEPLOYMENTS) for each in _components(deployment)]
    return sorted((each for each in found if each.replicas), key=lambda each: each.key)


def _components(deployment: Obj) -> Iterator[Component]:
    metadata, spec = deployment["metadata"], deployment["spec"]
    pod = spec["template"]["spec"]
    namespace = metadata["namespace"]
    for container in pod.get("containers") or ():
        words = tuple(map(str, [*(container.get("command") or ()), *(container.get("args") or ())]))
        found = _part(words, str(container.get("image", "")))
        if found is not None:
            account = f"system:serviceaccount:{namespace}:{pod.get('serviceAccountName') or 'default'}"
            ready = (deployment.get("status") or {}).get("readyReplicas") or 0
            replicas = 1 if spec.get("replicas") is None else spec["replicas"]
            key = Key(namespace, metadata["name"])
            yield Component(*found, key, account, words, replicas, ready, _mounted(pod, container))


def _part(words: Sequence[str], image: str) -> tuple[str, str] | None:
    """Return part and product that a container runs; None if it is another program."""
    program = words[0].rpartition("/")[2] if words else ""
    name = image.rpartition("/")[2].partition("@")[0].partition(":")[0]
    if program == KILAUEA and len(words) > 1 and words[1] in PARTS:
        return words[1], KILAUEA
    if name == KILAUEA and words and words[0] in PARTS:
        return words[0], KILAUEA
    if KUBE_BATCH in (program, name):
        return SCHEDULER, KUBE_BATCH
    for each in (program, name):
        if each in PROGRAMS:
            return PROGRAMS[each], KILAUEA if KILAUEA in image else VOLCANO
    return None


def _mounted(pod: Mapping[str, Any], container: Mapping[str, Any]) -> dict[str, str]:
    """Return the names of mounted ConfigMaps, by folder."""
    maps = {
        volume["name"]: volume["configMap"]["name"] for volume in pod.get("volumes") or () if volume.get("configMap")
    }
    mounts = container.get("volumeMounts") or ()
    return {each["mountPath"].rstrip("/"): maps[each["name"]] for each in mounts if each["name"] in maps}
