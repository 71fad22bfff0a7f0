"""Horizontal pod autoscalers: replicas of a workload by the usage of its simulated pods.

The number is that of Kubernetes: the usage of the ready pods relative to the target, rounded up, and no change within a
tenth of the target. Policies and windows count from the last change in the status; besides that, the controller keeps
only the usage that it has just read. Metrics other than those of resources are not available, which is reported in the
conditions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kilauea.api.kinds import (
    AUTOSCALERS,
    DEPLOYMENTS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
)
from kilauea.api.ports import Interest, Key, Obj, Operation, Outcome, Patch, Record, Resource, Steps, View, no_keys
from kilauea.api.quantity import amount
from kilauea.api.times import SECOND, format_time, parse_time
from kilauea.api.usage import container_usage, total_usage, usage_texts
from kilauea.controllers.objects import (
    NOTHING,
    condition_of,
    is_going,
    labels_of,
    matcher,
    own_key,
    spec_of,
    status_of,
    status_patch,
)
from kilauea.controllers.pods import READ_PER_STEP, is_finished, is_ready

PERIOD = 15.0
"""Seconds between two reconciliations."""
FRESH = 10 * SECOND
"""Microseconds for which the usage of a namespace that was read for one autoscaler serves the others: without that, a
thousand of them would read all pods a thousand times. A metrics server measures every 15 seconds."""
READ_SOON = 0.5
"""Seconds after which an autoscaler returns while the usage of its namespace is being read for another one."""
TOLERANCE = 0.1
DOWN_WINDOW = 300
"""Seconds after a change during which replicas are not reduced, unless the autoscaler sets another time."""
_UP = ({"type": "Pods", "value": 4, "periodSeconds": 15}, {"type": "Percent", "value": 100, "periodSeconds": 15})
_DOWN = ({"type": "Percent", "value": 100, "periodSeconds": 15},)
SCALED = (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, REPLICATION_CONTROLLERS)
"""The kinds that can be scaled."""

Condition = tuple[str, str, str, str]
"""Type, status, reason and message."""


METERED = ("cpu", "memory")
"""Resources whose usage is known."""


class Wish(NamedTuple):
    """The replicas that a metric requests, with the metric for the status; or a reason and a message."""

    replicas: int | None
    metric: dict[str, Any] | None = None
    reason: str = ""
    message: str = ""


def _is_asked_for_more(old: Obj | None, new: Obj | None) -> bool:
    """Return True unless only the status of an autoscaler changed, which the controller writes itself."""
    return old is None or new is None or old.get("spec") != new.get("spec")


class AutoscalerController:
    """Scales workloads."""

    name = "horizontalpodautoscaler-controller"
    interests = (
        Interest(AUTOSCALERS, own_key, matters=_is_asked_for_more),
        *(Interest(resource, no_keys) for resource in (*SCALED, PODS)),
    )

    def __init__(self) -> None:
        self._usage: dict[str, NamespaceUsage] = {}
        """By namespace; the oldest is first."""
        self._reading: set[str] = set()
        """Namespaces whose pods are being read."""

    def reconcile(self, key: Key, view: View, now: int) -> Steps:
        """Scale the workload of an autoscaler, and write its status."""
        scaler = view.get(AUTOSCALERS, key)
        if scaler is None or is_going(scaler):
            return NOTHING
        reference = spec_of(scaler)["scaleTargetRef"]
        resource = next((each for each in SCALED if each.kind == reference["kind"]), None)
        target = view.get(resource, Key(key.namespace, reference["name"])) if resource is not None else None
        if resource is None or target is None:
            named = f'{reference["kind"]} "{reference["name"]}" not found'
            message = f"the HPA controller was unable to get the target's current scale: {named}"
            broken = [("AbleToScale", "False", "FailedGetScale", message)]
            return Outcome(_write(scaler, {}, broken, now), PERIOD)
        usage = self._usage.get(key.namespace)
        if usage is None or not usage.is_fresh(now):
            if key.namespace in self._reading:
                return Outcome(again=READ_SOON)
            usage = yield from self._read(key.namespace, view, now)
        return Outcome(_scale(scaler, resource, target, usage.selected(target), now), PERIOD)

    def _read(self, namespace: str, view: View, now: int) -> Generator[Sequence[Operation], None, NamespaceUsage]:
        """Read the usage of a namespace, and forget those that are out of date."""
        self._reading.add(namespace)
        try:
            usage = yield from _usage_of(view, namespace, now)
        finally:
            self._reading.discard(namespace)
        self._usage.pop(namespace, None)
        while self._usage and not (oldest := next(iter(self._usage.values()))).is_fresh(now):
            del self._usage[oldest.namespace]
        self._usage[namespace] = usage
        return usage


def _scale(scaler: Obj, resource: Resource, target: Obj, pods: PodUsage, now: int) -> list[Operation]:
    spec, current = spec_of(scaler), int(spec_of(target).get("replicas", 1))
    counts = {"currentReplicas": current, "observedGeneration": scaler["metadata"].get("generation")}
    able = ("AbleToScale", "True", "ReadyForNewScale", "recommended size matches current size")
    if not current:
        off = "scaling is disabled since the replica count of the target is zero"
        return _write(
            scaler, {**counts, "desiredReplicas": 0}, [able, ("ScalingActive", "False", "ScalingDisabled", off)], now
        )
    least, most = spec.get("minReplicas", 1), spec["maxReplicas"]
    if not least <= current <= most:  # metrics do not matter then, even if they cannot be read
        side = "above Spec.MaxReplicas" if current > most else "below Spec.MinReplicas"
        wanted = most if current > most else least
        state = {**counts, "desiredReplicas": wanted}
        return _rescale(scaler, resource, target, state, f"Current number of replicas {side}", _others(scaler), now)
    namespace = scaler["metadata"]["namespace"]
    wishes = [_wish(metric, pods, current, namespace) for metric in spec.get("metrics") or ()]
    known = [wish.replicas for wish in wishes if wish.replicas is not None]
    failed = next((wish for wish in wishes if wish.replicas is None), None)
    if failed is not None and (not known or max(known) < current):  # unknown metrics must not reduce replicas
        return _failed(scaler, {**counts, "desiredReplicas": current}, failed, now)
    if not known:
        return _write(scaler, {**counts, "desiredReplicas": current}, [able], now)
    wanted, limit = _bounded(scaler, max(known), current, now)
    active = ("ScalingActive", "True", "ValidMetricFound", "the HPA was able to compute the replica count")
    state = {**counts, "desiredReplicas": wanted, "currentMetrics": [w.metric for w in wishes if w.metric is not None]}
    if wanted == current:
        return _write(scaler, state, [able, active, limit], now)
    reason = "All metrics below target" if wanted < current else "resource utilization above target"
    return _rescale(scaler, resource, target, state, reason, [active, limit], now)


def _failed(scaler: Obj, state: Obj, failed: Wish, now: int) -> list[Operation]:
    """Report that a metric cannot be read, with an event when this begins."""
    message = "the HPA controller was able to get the target's current scale"
    active = (
        "ScalingActive",
        "False",
        failed.reason,
        f"the HPA was unable to compute the replica count: {failed.message}",
    )
    before = condition_of(scaler, "ScalingActive")
    is_told = before is not None and before.get("reason") == failed.reason
    told = [] if is_told else [Record(scaler, "Warning", failed.reason, failed.message)]
    return [*told, *_write(scaler, state, [("AbleToScale", "True", "SucceededGetScale", message), active], now)]


def _rescale(
    scaler: Obj, resource: Resource, target: Obj, state: Obj, reason: str, conditions: Sequence[Condition], now: int
) -> list[Operation]:
    """Scale a workload to the replicas in the status, and report the reason."""
    wanted = state["desiredReplicas"]
    message = f"the HPA controller was able to update the target scale to {wanted}"
    able = ("AbleToScale", "True", "SucceededRescale", message)
    change = Patch(resource, _key(target), {"spec": {"replicas": wanted}}, subresource="scale")
    told = Record(scaler, "Normal", "SuccessfulRescale", f"New size: {wanted}; reason: {reason}")
    return [change, told, *_write(scaler, {**state, "lastScaleTime": format_time(now)}, [able, *conditions], now)]


def _others(scaler: Obj) -> list[Condition]:
    """The conditions of an autoscaler other than AbleToScale."""
    found = status_of(scaler).get("conditions") or ()
    return [
        (each["type"], each["status"], each.get("reason", ""), each.get("message", ""))
        for each in found
        if each["type"] != "AbleToScale"
    ]


def _key(obj: Obj) -> Key:
    return Key(obj["metadata"]["namespace"], obj["metadata"]["name"])


@dataclass(slots=True)
class PodUsage:
    """The usage of some pods.

    Attributes:
        pods: running pods that are not being deleted.
        ready: number of these that are ready; the sums include only these.
        used: amounts by resource.
        requested: amounts by resource.
        unrequested: resources that a container of a ready pod does not request.
    """

    pods: int = 0
    ready: int = 0
    used: Counter[str] = field(default_factory=Counter)
    requested: Counter[str] = field(default_factory=Counter)
    unrequested: set[str] = field(default_factory=set)

    def add(self, pod: Obj) -> None:
        """Add a pod."""
        self.pods += 1
        if is_ready(pod):
            self.ready += 1
            usage = total_usage(container_usage(pod))
            for name in METERED:
                self.used[name] += usage[name]
                requested = _requested(pod, name)
                self.requested[name] += requested
                if not requested:
                    self.unrequested.add(name)

    def add_all(self, other: PodUsage) -> None:
        """Add other pods."""
        self.pods += other.pods
        self.ready += other.ready
        self.used.update(other.used)
        self.requested.update(other.requested)
        self.unrequested |= other.unrequested


class NamespaceUsage:
    """The usage of the pods of a namespace, by their labels, which the pods of a workload mostly share.

    Args:
        namespace: the namespace.
        read: the time at which it is read.
    """

    def __init__(self, namespace: str, read: int) -> None:
        self.namespace = namespace
        self._read = read
        self._by_labels: dict[frozenset[tuple[str, str]], tuple[Mapping[str, str], PodUsage]] = {}

    def is_fresh(self, now: int) -> bool:
        """Return True if it has been read a short time ago."""
        return 0 <= now - self._read < FRESH

    def add(self, pod: Obj) -> None:
        """Add a pod that has not ended."""
        labels = labels_of(pod)
        group = frozenset(labels.items())
        if group not in self._by_labels:
            self._by_labels[group] = labels, PodUsage()
        self._by_labels[group][1].add(pod)

    def selected(self, target: Obj) -> PodUsage:
        """Return the usage of the pods that a workload selects."""
        selector = spec_of(target).get("selector") or {}
        if not selector.keys() & {"matchLabels", "matchExpressions"}:
            selector = {"matchLabels": selector}
        selects = matcher(selector)
        found = PodUsage()
        for labels, usage in self._by_labels.values():
            if selects(labels):
                found.add_all(usage)
        return found


def _usage_of(view: View, namespace: str, now: int) -> Generator[Sequence[Operation], None, NamespaceUsage]:
    """Read the pods of a namespace, in steps as in `kilauea.api.ports.Steps`."""
    usage = NamespaceUsage(namespace, now)
    for number, pod in enumerate(view.list(PODS, namespace), 1):
        if not is_going(pod) and not is_finished(pod):
            usage.add(pod)
        if number % READ_PER_STEP == 0:
            yield ()
    return usage


# --- metrics


def _without_source(metric: Mapping[str, Any], namespace: str) -> str:
    """The reason why no source here serves a metric, as in a cluster without adapters; empty if one does."""
    custom = "unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered"
    match metric["type"]:
        case "Pods":
            return f"unable to get metric {metric['pods']['metric']['name']}: {custom}"
        case "Object":
            about, name = metric["object"]["describedObject"], metric["object"]["metric"]["name"]
            return f"unable to get metric {name}: {about['kind']} on {namespace} {about['name']}/{custom}"
        case "External":
            name = metric["external"]["metric"]["name"]
            message = f"the server could not find the requested resource (get {name}.external.metrics.k8s.io)"
            where = f"{namespace}/{name}"
            return (
                f"unable to get external metric {where}: unable to fetch metrics from external metrics API: {message}"
            )
    return f"no source of metrics of the type {metric['type']}"


def _wish(metric: Mapping[str, Any], pods: PodUsage, current: int, namespace: str) -> Wish:
    """The replicas that a metric requests."""
    source = metric.get("resource")
    if metric["type"] != "Resource" or source is None or source["name"] not in METERED:
        return Wish(None, None, f"FailedGet{metric['type']}Metric", _without_source(metric, namespace))
    name, target = source["name"], source["target"]
    if not pods.ready:
        return Wish(None, None, "FailedGetResourceMetric", f"no ready pods to read {name} of")
    used, requested = pods.used[name], 0 if name in pods.unrequested else pods.requested[name]
    shown: dict[str, Any] = {"averageValue": usage_texts({"cpu": 0, "memory": 0, name: used // pods.ready})[name]}
    if target.get("averageUtilization") is None:
        ratio = used / pods.ready / max(1, amount(name, target.get("averageValue", "1")))
    elif not requested:
        return Wish(None, None, "FailedGetResourceMetric", f"missing request for {name} in a container of a pod")
    else:
        share = 100 * used // requested
        shown["averageUtilization"] = share
        ratio = share / target["averageUtilization"]
    found = {"type": "Resource", "resource": {"name": name, "current": shown}}
    return Wish(_replicas(ratio, pods.ready, pods.pods, current), found)


def _replicas(ratio: float, ready: int, all_pods: int, current: int) -> int:
    """Replicas for a ratio of usage to target; pods that are not ready count as idle when scaling up."""
    if abs(ratio - 1) <= TOLERANCE:
        return current
    if ratio > 1 and all_pods > ready:
        ratio = ratio * ready / all_pods
        return current if ratio <= 1 + TOLERANCE else -int(-(ratio * all_pods) // 1)
    return -int(-(ratio * ready) // 1)


def _requested(pod: Obj, name: str) -> int:
    """The requests of all containers of a pod; 0 if one has none."""
    amounts = [
        amount(name, ((each.get("resources") or {}).get("requests") or {}).get(name, "0"))
        for each in spec_of(pod).get("containers") or ()
    ]
    return sum(amounts) if all(amounts) else 0


# --- bounds


def _bounded(scaler: Obj, wanted: int, current: int, now: int) -> tuple[int, Condition]:
    """The replicas within the policies and bounds, and the condition that reports if they were limited."""
    spec, behavior = spec_of(scaler), spec_of(scaler).get("behavior") or {}
    last = status_of(scaler).get("lastScaleTime")
    since = (now - parse_time(last)) / SECOND if last else float("inf")
    least, most = spec.get("minReplicas", 1), spec["maxReplicas"]
    allowed = min(max(wanted, least), most)
    if allowed > current >= least:
        allowed = min(allowed, _step(behavior.get("scaleUp") or {}, _UP, current, since, 0, 1))
    elif allowed < current <= most:
        allowed = max(allowed, _step(behavior.get("scaleDown") or {}, _DOWN, current, since, DOWN_WINDOW, -1))
    if allowed == wanted:
        words = "the desired count is within the acceptable range"
        return allowed, ("ScalingLimited", "False", "DesiredWithinRange", words)
    few = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")
    many = ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
    pace = "ScaleUpLimit" if wanted > current else "ScaleDownStabilized"
    paced = (pace, "the policies of the behavior limit the change")
    reason, words = few if wanted < least else many if wanted > most else paced
    return allowed, ("ScalingLimited", "True", reason, words)


def _step(
    rules: Mapping[str, Any], usual: Sequence[Mapping[str, Any]], current: int, since: float, window: int, sign: int
) -> int:
    """The replicas that policies allow at a time after the last change; upward with sign 1, downward with -1."""
    if rules.get("selectPolicy") == "Disabled":
        return current
    waits = rules.get("stabilizationWindowSeconds")
    if since < (window if waits is None else waits):
        return current
    changes = []
    for policy in rules.get("policies") or usual:
        percent = policy["type"] == "Percent"
        size = -(-current * policy["value"] // 100) if percent else policy["value"]
        changes.append(size if since >= policy["periodSeconds"] else 0)
    change = min(changes) if rules.get("selectPolicy") == "Min" else max(changes)
    return int(current + sign * change)


# --- status


def _write(scaler: Obj, state: Mapping[str, Any], conditions: Sequence[Condition], now: int) -> list[Operation]:
    """Write the status, with conditions that keep the time of their last transition."""
    written = []
    for kind, value, reason, message in conditions:
        before = condition_of(scaler, kind)
        same = before is not None and before.get("status") == value
        stamp = before["lastTransitionTime"] if same and before is not None else format_time(now)
        given = {"type": kind, "status": value, "reason": reason, "message": message, "lastTransitionTime": stamp}
        written.append(given)
    wanted = {name: value for name, value in state.items() if value is not None}
    return [*status_patch(AUTOSCALERS, scaler, {**wanted, "conditions": written})]
