"""Checks of running parts: components are ready, their leaders are alive, and no two installations do the same work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from kilauea.api.kinds import DEPLOYMENTS, EVENTS, LEASES, PODS
from kilauea.api.ports import Key, Obj
from kilauea.api.times import SECOND, parse_time
from kilauea.api.unserved import NO_SCHEDULER
from kilauea.runtime.doctor.facts import Facts
from kilauea.runtime.doctor.findings import ERROR, WARNING, Check, Finding, check_of, unread
from kilauea.runtime.doctor.installation import (
    KILAUEA,
    KUBE_BATCH,
    LEASE_NAMES,
    PARTS,
    SCHEDULER,
    WEBHOOKS,
    Component,
    components,
)

LEASE_SECONDS = 15
DEFAULT = "default-scheduler"
"""kube-scheduler, which is not checked."""
TOGETHER_SECONDS = 5
"""Seconds of apparent overlap of two binding processes that may be due to their clocks."""
UNNAMED = "one that does not name its process"
NONE_FOUND = "no Deployment of a scheduler, controllers or webhooks: they run elsewhere, or do not run"


def check_components(facts: Facts) -> Check:
    """Check that the Deployments of components have ready pods."""
    if DEPLOYMENTS in facts.refused:
        return check_of("components", "", [unread_deployments(facts)])
    found = components(facts)
    words = ", ".join(f"{each.product} {each.part} ({each.key})" for each in found) or NONE_FOUND
    return check_of("components", words, _unready(found))


def unread_deployments(facts: Facts) -> Finding:
    """Return the finding that Deployments cannot be read, so components in the cluster are unknown."""
    return unread("deployments", facts.refused[DEPLOYMENTS], "grant your user list on deployments.apps")


def _unready(found: Sequence[Component]) -> Iterator[Finding]:
    for each in found:
        if each.ready:
            continue
        message = f"no pod of the {each.part} is ready"
        key = each.key
        fix = f"find the reason with `kubectl -n {key.namespace} describe pods` and "
        fix += f"`kubectl -n {key.namespace} logs deployment/{key.name}`"
        yield Finding(ERROR, str(each), "status.readyReplicas", "0", message, fix)


def check_leaders(facts: Facts) -> Check:
    """Check that each lease has a holder that renews it."""
    if LEASES in facts.refused:
        grant = "grant your user list on leases.coordination.k8s.io"
        return check_of("leaders", "", [unread("leases", facts.refused[LEASES], grant)])
    there = _leases(facts)
    wanted = {lease: each for each in components(facts) if (lease := each.lease) is not None}
    keys = sorted({*wanted, *(key for key in there if key.name in LEASE_NAMES.values())})
    holders = ", ".join(f"{_holder(there[key])} ({key})" for key in keys if key in there and _holder(there[key]))
    findings = [finding for key in keys for finding in _lease(key, there.get(key), wanted.get(key), facts.now)]
    return check_of("leaders", holders or "no leases", findings)


def _leases(facts: Facts) -> dict[Key, Obj]:
    return {Key(each["metadata"]["namespace"], each["metadata"]["name"]): each for each in facts.all(LEASES)}


def _holder(lease: Obj) -> str:
    return str((lease.get("spec") or {}).get("holderIdentity") or "")


def _lease(key: Key, lease: Obj | None, component: Component | None, now: int) -> Iterator[Finding]:
    """Yield the problems of a lease; without a component that uses it, an abandoned one is only a warning."""
    severity = ERROR if component is not None else WARNING
    where = f"Lease {key}"
    start = f"check the log of {component}" if component is not None else "start the component that holds it"
    if lease is None:
        yield Finding(severity, where, "", "", "no process holds the lease", start)
        return
    spec = lease.get("spec") or {}
    if not _holder(lease):
        message = "there is no leader: the last holder has released the lease"
        yield Finding(severity, where, "spec.holderIdentity", "", message, start)
        return
    age = _age(spec, now)
    if age > (spec.get("leaseDurationSeconds") or LEASE_SECONDS):
        message = (
            f"the leader {_holder(lease)} has not renewed its lease for {age:.0f} s: it has stopped or is disconnected"
        )
        yield Finding(severity, where, "spec.renewTime", str(spec.get("renewTime")), message, start)


def _age(spec: Obj, now: int) -> float:
    """Return the seconds since a lease was renewed."""
    try:
        return (now - parse_time(spec["renewTime"])) / SECOND
    except (KeyError, TypeError, ValueError):
        return float("inf")


def alive(facts: Facts) -> list[Key]:
    """Return the leases of schedulers that a process holds now."""
    found = []
    for key, lease in sorted(_leases(facts).items()):
        spec = lease.get("spec") or {}
        fresh = _age(spec, facts.now) <= (spec.get("leaseDurationSeconds") or LEASE_SECONDS)
        if key.name == LEASE_NAMES[SCHEDULER] and _holder(lease) and fresh:
            found.append(key)
    return found


def check_installations(facts: Facts) -> Check:
    """Check that each part is installed once, or that its installations share the work.

    Schedulers outside the cluster have no Deployment, and possibly no lease: they are identified by the events of their
    binds.
    """
    if DEPLOYMENTS in facts.refused:
        return check_of("installations", "", [unread_deployments(facts), *_two_binders(facts)])
    found = components(facts)
    pairs = [
        finding
        for part in PARTS
        for one, other in combinations([each for each in found if each.part == part], 2)
        for finding in _rivals(one, other)
    ]
    others = [*pairs, *_two_leases(facts, found)]
    return check_of(
        "installations", "each part is installed once", [*others, *(_two_binders(facts) if not others else ())]
    )


def _rivals(one: Component, other: Component) -> Iterator[Finding]:
    """Yield the conflict of two Deployments of one part."""
    if one.lease is not None and one.lease == other.lease and one.product == other.product:
        return  # they take turns
    stop = (
        f"kubectl -n {_second(one, other).key.namespace} scale deployment {_second(one, other).key.name} --replicas=0"
    )
    if one.part == SCHEDULER:
        names = sorted({*_names(one)} & {*_names(other)})
        if not names:
            return
        message = f"{one} ({one.product}) and {other} ({other.product}) both schedule pods of {', '.join(names)}"
        fix = f"stop one of them (`{stop}`), or give one another --scheduler-name"
        yield Finding(ERROR, str(_second(one, other)), "--scheduler-name", ",".join(names), message, fix)
    elif one.part == WEBHOOKS:
        message = f"{one} ({one.product}) and {other} ({other.product}) both register webhooks under the same names"
        yield Finding(ERROR, str(_second(one, other)), "", "", message, f"stop one of them: `{stop}`")
    else:
        message = f"{one} ({one.product}) and {other} ({other.product}) both run controllers for all jobs"
        yield Finding(ERROR, str(_second(one, other)), "", "", message, f"stop one of them: `{stop}`")


def _second(one: Component, other: Component) -> Component:
    """Return the one to stop: not Kilauea's if only one is."""
    return one if other.product == KILAUEA and one.product != KILAUEA else other


def _names(scheduler: Component) -> tuple[str, ...]:
    default = KUBE_BATCH if scheduler.product == KUBE_BATCH else "volcano"
    return scheduler.values("scheduler-name", [default])


def _two_leases(facts: Facts, found: Sequence[Component]) -> Iterator[Finding]:
    """Yield two live leases of schedulers that no Deployments explain."""
    known = {each.lease for each in found}
    held = alive(facts)
    if len(held) > 1 and not all(key in known for key in held):
        names = ", ".join(map(str, held))
        message = f"schedulers hold {len(held)} leases of the same name: {names}; they may bind the same pods"
        fix = "stop all but one, or give them different --scheduler-name and the same --leader-elect-resource-namespace"
        yield Finding(WARNING, f"Lease {held[1]}", "spec.holderIdentity", "", message, fix)


def _two_binders(facts: Facts) -> Iterator[Finding]:
    """Yield processes that bound pods under one name at the same time, according to their events.

    Replicas take turns, so the first bind of one follows the last of the other; if one starts long before the other has
    ended, both are active. Volcano's scheduler does not name its process: two of them look like one.
    """
    if EVENTS in facts.refused:
        yield unread("events", facts.refused[EVENTS], "grant your user list on events")
        return
    times: dict[tuple[str, str], list[int]] = {}
    for event in facts.all(EVENTS):
        name = str(event.get("reportingComponent") or (event.get("source") or {}).get("component") or "")
        at = event.get("lastTimestamp") or event.get("eventTime")
        if name and name != DEFAULT and at:
            times.setdefault((name, str(event.get("reportingInstance") or "")), []).append(parse_time(at))
    for (name, one), (other_name, other) in combinations(sorted(times), 2):
        mine, theirs = times[name, one], times[other_name, other]
        together = min(max(mine), max(theirs)) - max(min(mine), min(theirs))
        if name == other_name and together > TOGETHER_SECONDS * SECOND:
            both = f"{one or UNNAMED} and {other}"
            message = f"two schedulers bind pods of {name}: {both}, for {together // SECOND} s side by side"
            fix = "stop one of them, or give them different --scheduler-name; each is named by its host and a random id"
            yield Finding(WARNING, f"scheduler {name}", "reportingInstance of events", both, message, fix)


def scheduler_names(facts: Facts) -> set[str]:
    """Return the names of schedulers that run: those of Deployments.

    Without any, for example if a scheduler runs outside the cluster: that of a lease, and the names of schedulers that
    bound pods or set conditions.
    """
    names = {name for each in components(facts) if each.part == SCHEDULER for name in _names(each)}
    if names:
        return names
    served = {str(pod["spec"].get("schedulerName", "")) for pod in facts.all(PODS) if is_served(pod)}
    return served | ({"volcano"} if alive(facts) else set())


def is_served(pod: Obj) -> bool:
    """Return True if a scheduler has bound a pod or set its condition."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return bool(pod["spec"].get("nodeName")) or any(
        each["type"] == "PodScheduled" and each.get("reason") != NO_SCHEDULER for each in conditions
    )
