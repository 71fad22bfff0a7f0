"""Effects of a pod's failure on its job, by the job's rules (`podFailurePolicy`); the first matching one decides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kilauea.api.ports import Obj, key_of
from kilauea.controllers.objects import spec_of, status_of


class FailureEffect(NamedTuple):
    """The effect of a failure.

    Attributes:
        action: Count, Ignore, FailIndex or FailJob.
        message: the rule that applies; empty without one.
    """

    action: str
    message: str = ""


COUNTED = FailureEffect("Count")


def failure_effect(job: Obj, pod: Obj) -> FailureEffect:
    """Return the effect that the failure of this pod has on a job."""
    rules = (spec_of(job).get("podFailurePolicy") or {}).get("rules") or ()
    for number, rule in enumerate(rules):
        action = rule["action"]
        found = _fitting_exit(rule.get("onExitCodes"), pod) or _fitting_condition(rule.get("onPodConditions"), pod)
        if found:
            return FailureEffect(action, f"{found} matching {action} rule at index {number}")
    return COUNTED


def _fitting_exit(wanted: Any, pod: Obj) -> str:
    """The container whose exit code a rule matches; empty if there is none. Success never matches."""
    if not wanted:
        return ""
    values, among = set(wanted["values"]), wanted["operator"] == "In"
    for name, code in _exits(pod):
        named = wanted.get("containerName") in (None, name)
        if named and code != 0 and (code in values) == among:
            return f"Container {name} for pod {key_of(pod)} failed with exit code {code}"
    return ""


def _exits(pod: Obj) -> Iterator[tuple[str, int]]:
    for kind in ("containerStatuses", "initContainerStatuses"):
        for each in status_of(pod).get(kind) or ():
            ended = (each.get("state") or {}).get("terminated")
            if ended is not None:
                yield each["name"], ended["exitCode"]


def _fitting_condition(wanted: Any, pod: Obj) -> str:
    """The condition of the pod that a rule matches; empty if there is none."""
    has = {(each["type"], each["status"]) for each in status_of(pod).get("conditions") or ()}
    for each in wanted or ():
        if (each["type"], each.get("status", "True")) in has:
            return f"Pod {key_of(pod)} has condition {each['type']}"
    return ""
