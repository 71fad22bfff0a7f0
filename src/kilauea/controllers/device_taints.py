"""The controller that evicts pods from devices with a taint of effect `NoExecute`.

Drivers put taints on devices in slices, administrators with DeviceTaintRules. A pod with such a device stays only if
its claim tolerates the taint. If the toleration has `tolerationSeconds`, it stays for this time after the taint was
added. The status of a rule shows the number of pods to evict; with the effect `None`, the number that it would evict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kilauea.api.kinds import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, TAINT_RULES
from kilauea.api.ports import Interest, Key, Obj, Operation, Outcome, Patch, Record, View, key_of
from kilauea.api.times import SECOND, format_time
from kilauea.controllers.nodes.eviction import eviction, matching_tolerations, time_left
from kilauea.controllers.objects import NOTHING, condition_of, is_going, name_of, spec_of, status_of, uid_of
from kilauea.controllers.pods import is_finished
from kilauea.controllers.resource_claims import claims_of

EXECUTE, NO_EFFECT = "NoExecute", "None"
CONDITION = "EvictionInProgress"
LOOK_AGAIN = 1.0
"""Seconds after which a rule checks again if its pods are gone."""
POOL, RULE = "pool/", "rule/"
"""Prefixes of the names of keys without a namespace; the keys of pods have one."""
_TAINTED, _POOL, _ANY = "tainted devices", "pool of devices", "any tainted device"
_DISRUPTED = "DeletionByDeviceTaintManager", "Device Taint manager: deleting due to NoExecute taint"
_OTHER_EFFECT = "Eviction only happens for the NoExecute effect."
_ONCE = "This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."


class Device(NamedTuple):
    """The name of a device."""

    driver: str
    pool: str
    name: str


def _pool_of(slice_: Obj) -> str:
    """An index: driver and pool of a slice."""
    spec = spec_of(slice_)
    return f"{spec.get('driver') or ''}/{(spec.get('pool') or {}).get('name') or ''}"


def _devices(slice_: Obj) -> Iterable[Obj]:
    devices: Sequence[Obj] = spec_of(slice_).get("devices") or ()
    return devices


def _driving(taints: Iterable[Obj] | None) -> list[Obj]:
    return [each for each in taints or () if each.get("effect") == EXECUTE]


def _tainted_pool(slice_: Obj) -> str:
    """An index: the pool of a slice that has devices with evicting taints."""
    return _pool_of(slice_) if any(_driving(device.get("taints")) for device in _devices(slice_)) else ""


def _any(slice_: Obj) -> str:
    """An index: all slices with such devices."""
    return _ANY if _tainted_pool(slice_) else ""


def _keys_of_slice(slice_: Obj) -> Iterable[Key]:
    pool = _tainted_pool(slice_)
    return (Key("", POOL + pool),) if pool else ()


def _keys_of_claim(claim: Obj) -> Iterable[Key]:
    """Yield the keys of the pods that use a claim."""
    namespace = claim["metadata"]["namespace"]
    return [Key(namespace, name) for name, _ in _users(claim)]


def _users(claim: Obj) -> Iterator[tuple[str, str]]:
    """Name and UID of the pods that use a claim."""
    for each in status_of(claim).get("reservedFor") or ():
        if each.get("resource") == PODS.plural and not each.get("apiGroup"):
            yield each["name"], each["uid"]


def _keys_of_pod(pod: Obj) -> Iterable[Key]:
    return (key_of(pod),) if spec_of(pod).get("nodeName") and claims_of(pod) and not is_going(pod) else ()


def _is_untainted(key: Key, view: View) -> bool:
    """Return True while no rules and no slices with such devices exist; the keys of these lead to their pods."""
    return not view.indexed(RESOURCE_SLICES, _ANY, _ANY) and not view.list(TAINT_RULES)


class DeviceTaintEvictionController:
    """Evicts pods from tainted devices."""

    name = "device-taint-eviction-controller"
    interests = (
        Interest(RESOURCE_SLICES, _keys_of_slice, indexes={_TAINTED: _tainted_pool, _POOL: _pool_of, _ANY: _any}),
        Interest(TAINT_RULES, lambda rule: (Key("", RULE + name_of(rule)),)),
        Interest(RESOURCE_CLAIMS, _keys_of_claim, unless=_is_untainted),
        Interest(PODS, _keys_of_pod, unless=_is_untainted),
    )

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Reconcile a pod, the pods of a pool with tainted devices, or a rule and its pods."""
        if key.namespace:
            pod = view.get(PODS, key)
            return NOTHING if pod is None else _Taints(view, now).evict([pod])
        what, _, name = key.name.partition("/")
        if f"{what}/" == RULE:
            rule = view.get(TAINT_RULES, Key("", name))
            return NOTHING if rule is None or is_going(rule) else _judge(rule, view, now)
        driver, _, pool = name.partition("/")
        pods = _pods_with(view, lambda device: (device.driver, device.pool) == (driver, pool))
        return _Taints(view, now).evict(pods)


# --- devices of claims


def _granted(claim: Obj) -> Iterator[tuple[Device, Sequence[Obj]]]:
    """The devices of a claim, each with the taints that it tolerates."""
    allocation = status_of(claim).get("allocation") or {}
    for each in (allocation.get("devices") or {}).get("results") or ():
        yield Device(each["driver"], each["pool"], each["device"]), each.get("tolerations") or ()


def _pods_with(view: View, wanted: Callable[[Device], bool]) -> list[Obj]:
    """The pods that use some devices, in order of their keys."""
    found: dict[Key, Obj] = {}
    for claim in view.list(RESOURCE_CLAIMS):
        if not any(wanted(device) for device, _ in _granted(claim)):
            continue
        for name, uid in _users(claim):
            key = Key(claim["metadata"]["namespace"], name)
            pod = view.get(PODS, key)
            if pod is not None and uid_of(pod) == uid:
                found[key] = pod
    return [found[key] for key in sorted(found)]


def _selects(rule: Obj, device: Device) -> bool:
    """Return True if a rule selects a device; a rule without a selector selects none."""
    selector = spec_of(rule).get("deviceSelector")
    if selector is None:
        return False
    names = zip(("driver", "pool", "device"), device, strict=True)
    return all(selector.get(field) in (None, name) for field, name in names)


@dataclass(frozen=True)
class _Taints:
    """The taints of devices that drive pods away.

    Attributes:
        view: the objects.
        now: microseconds since 1970.
        extra: a rule to treat as if its effect were `NoExecute`; None for no rule.
    """

    view: View
    now: int
    extra: Obj | None = None

    def of(self, device: Device) -> list[Obj]:
        """The taints of a device, from its slice and from rules."""
        found: list[Obj] = []
        pool = f"{device.driver}/{device.pool}"
        if self.view.indexed(RESOURCE_SLICES, _TAINTED, pool):
            for slice_ in _newest(self.view.indexed(RESOURCE_SLICES, _POOL, pool)):
                found += [t for d in _devices(slice_) if d["name"] == device.name for t in _driving(d.get("taints"))]
        for rule in self.view.list(TAINT_RULES):
            taint = spec_of(rule)["taint"]
            if rule is self.extra:
                taint = {**taint, "effect": EXECUTE}
            if taint["effect"] == EXECUTE and _selects(rule, device):
                found.append(taint)
        return found

    def stay_left(self, pod: Obj) -> float | None:
        """Seconds for which a pod may keep its devices; None for no limit."""
        if is_going(pod) or is_finished(pod) or not spec_of(pod).get("nodeName"):
            return None
        left: float | None = None
        for name in claims_of(pod):
            claim = self.view.get(RESOURCE_CLAIMS, Key(pod["metadata"]["namespace"], name))
            if claim is None or uid_of(pod) not in {uid for _, uid in _users(claim)}:
                continue
            for device, tolerations in _granted(claim):
                for taint in self.of(device):
                    patience = _patience(tolerations, taint)
                    if patience is not None:
                        until = time_left(taint, patience, self.now)
                        left = until if left is None else min(left, until)
        return left

    def evict(self, pods: Iterable[Obj]) -> Outcome:
        """Delete the pods whose time is over, and return the time of the next check of the others."""
        operations: list[Operation] = []
        waits = []
        for pod in pods:
            left = self.stay_left(pod)
            if left == 0:
                event = Record(pod, "Normal", "DeviceTaintManagerEviction", "Marking for deletion")
                operations += eviction(pod, self.now, _DISRUPTED, event)
            elif left is not None:
                waits.append(left)
        return Outcome(operations, min(waits, default=None))


def _newest(slices: Sequence[Obj]) -> list[Obj]:
    """The slices of the newest generation of a pool."""
    generations = [int((spec_of(each).get("pool") or {}).get("generation") or 0) for each in slices]
    newest = max(generations, default=0)
    return [each for each, generation in zip(slices, generations, strict=True) if generation == newest]


def _patience(tolerations: Sequence[Obj], taint: Obj) -> float | None:
    """Seconds for which a taint is tolerated, by the longest toleration; None for no limit, 0 if not at all."""
    matching = matching_tolerations(tolerations, taint)
    if any(each.get("tolerationSeconds") is None for each in matching):
        return None
    return max((max(0.0, float(each["tolerationSeconds"])) for each in matching), default=0.0)


# --- rules


def _judge(rule: Obj, view: View, now: int) -> Outcome:
    """Evict the pods of a rule, and report the progress in its status."""
    effect = spec_of(rule)["taint"]["effect"]
    if effect == EXECUTE:
        pods = _pods_with(view, lambda device: _selects(rule, device))
        taints = _Taints(view, now)
        gone = taints.evict(pods)
        waiting = [pod for pod in pods if taints.stay_left(pod) is not None]
        operations = [*_said(rule, *_progress(rule, waiting), now), *gone.operations]
        waits = [each for each in (gone.again, LOOK_AGAIN if waiting else None) if each is not None]
        return Outcome(operations, min(waits, default=None))
    if effect == NO_EFFECT:
        return Outcome(() if _is_said(rule, "NoEffect") else _said(rule, "NoEffect", _forecast(rule, view, now), now))
    return Outcome(_said(rule, "OtherEffect", _OTHER_EFFECT, now))


def _progress(rule: Obj, waiting: Sequence[Obj]) -> tuple[str, str]:
    """Reason and message of the condition of a rule that evicts."""
    if waiting:
        return (
            "PodsPendingEviction",
            f"{_count(len(waiting), 'pod')} {_need(waiting)} to be evicted in {_spaces(waiting)}.",
        )
    if _is_said(rule, "PodsPendingEviction") or _is_said(rule, "Completed"):
        return "Completed", "All pods that had to be evicted have been evicted."
    return "NotStarted", ""


def _need(pods: Sequence[Obj]) -> str:
    return "needs" if len(pods) == 1 else "need"


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _spaces(pods: Iterable[Obj]) -> str:
    number = len({pod["metadata"]["namespace"] for pod in pods})
    return "1 namespace" if number == 1 else f"{number} different namespaces"


def _forecast(rule: Obj, view: View, now: int) -> str:
    """The effect that a rule with the effect `None` would have."""
    pools: dict[str, list[Obj]] = {}
    for slice_ in view.list(RESOURCE_SLICES):
        pools.setdefault(_pool_of(slice_), []).append(slice_)
    published = 0
    for slices in pools.values():
        for slice_ in _newest(slices):
            spec = spec_of(slice_)
            names = (Device(spec["driver"], spec["pool"]["name"], device["name"]) for device in _devices(slice_))
            published += sum(_selects(rule, name) for name in names)
    claims = view.list(RESOURCE_CLAIMS)
    allocated = sum(_selects(rule, device) for claim in claims for device, _ in _granted(claim))
    taints = _Taints(view, now, rule)
    pods = [p for p in _pods_with(view, lambda device: _selects(rule, device)) if taints.stay_left(p) is not None]
    return (
        f"{_count(published, 'published device')} selected. {_count(allocated, 'allocated device')} selected. "
        f"{_count(len(pods), 'pod')} would be evicted in {_spaces(pods)} if the effect was NoExecute. {_ONCE}"
    )


def _is_said(rule: Obj, reason: str) -> bool:
    """Return True if a rule has this condition with this reason, for its current generation."""
    said = condition_of(rule, CONDITION)
    return (
        said is not None
        and said.get("reason") == reason
        and said.get("observedGeneration") == rule["metadata"].get("generation")
    )


def _said(rule: Obj, reason: str, message: str, now: int) -> list[Operation]:
    """Write the condition of a rule, if it differs."""
    before = condition_of(rule, CONDITION)
    status = "True" if reason == "PodsPendingEviction" else "False"
    since = before["lastTransitionTime"] if before is not None and before["status"] == status else None
    condition: dict[str, Any] = {
        "type": CONDITION,
        "status": status,
        "observedGeneration": rule["metadata"].get("generation", 0),
        "lastTransitionTime": since or format_time(now - now % SECOND),
        "reason": reason,
        "message": message,
    }
    if before == condition:
        return []
    patch = {"metadata": {"uid": uid_of(rule)}, "status": {"conditions": [condition]}}
    return [Patch(TAINT_RULES, key_of(rule), patch, "strategic", "status")]
