"""Checks of changes to a pod: most of its specification is immutable, and some fields change only in one direction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import unified_diff
from typing import Any

import msgspec

from kilauea.api.names import qualified_name_problems, subdomain_problems
from kilauea.api.restarts import is_restarted, may_restart_all
from kilauea.apiserver.fields import check_name, check_range, forbidden_field, invalid_value, required
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.addresses import address_problems
from kilauea.apiserver.strategies.base import Object, spec_of
from kilauea.apiserver.strategies.placement import REQUIRED

_LONGEST = 2**31 - 1
_FREE = ("activeDeadlineSeconds", "tolerations", "schedulingGates")
_IMMUTABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_NO_NEW_GATES = "only deletion is allowed, but found new scheduling gate '{}'"
_ONLY_MORE = "only additions are allowed (no mutations or deletions)"
MOST_COMPARED = 300
"""Lines of the specifications of two pods that are compared to tell their differences."""
_CONTEXT = 3
"""Equal lines that are told around a difference."""
_KUBELET_CONDITIONS = frozenset(
    ("PodScheduled", "Ready", "Initialized", "ContainersReady", "PodReadyToStartContainers", "DisruptionTarget")
)


def check_pod_change(spec: Object, before: Object) -> list[Cause]:
    """Return the errors in the change of a specification, whose new version is valid by itself."""
    causes: list[Cause] = []
    for part in ("containers", "initContainers"):
        now, then = spec.get(part) or [], before.get(part) or []
        if len(now) != len(then):
            return [*causes, forbidden_field(f"spec.{part}", "pod updates may not add or remove containers")]
        causes += [
            required(f"spec.{part}[{number}].image")
            for number, container in enumerate(now)
            if not (container.get("image") or "").strip()
        ]
    deadline, old = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    wrong = [*_check_deadline("spec.activeDeadlineSeconds", deadline, old)]
    if wrong and deadline is not None:
        return causes + wrong
    causes += wrong
    causes += _check_tolerations(spec.get("tolerations") or [], before.get("tolerations") or [])
    causes += _check_gates(spec.get("schedulingGates") or [], before.get("schedulingGates") or [])
    if before.get("schedulingGates"):
        causes += _check_placement(spec, before)
    fixed, kept = _fixed_part(spec, before), _fixed_part(before, before)
    if fixed != kept:
        causes.append(forbidden_field("spec", f"{_IMMUTABLE}\n{_differences(kept, fixed)}"))
    return causes


def _check_deadline(path: str, deadline: int | None, old: int | None) -> Iterator[Cause]:
    """Check that a deadline is only set or shortened."""
    if deadline is None:
        if old is not None:
            yield invalid_value(path, None, "must not update from a positive integer to nil value")
        return
    wrong = check_range(path, deadline, 0, _LONGEST)
    yield from wrong
    if not wrong and old is not None and old < deadline:
        yield invalid_value(path, deadline, "must be less than or equal to previous value")


def _check_tolerations(now: list[Any], before: list[Any]) -> list[Cause]:
    """Check that tolerations are only added; existing ones may change their seconds."""

    def key(toleration: Object) -> tuple[Any, ...]:
        return tuple(toleration.get(part) or "" for part in ("key", "operator", "value", "effect"))

    if {key(each) for each in before} - {key(each) for each in now}:
        return [
            forbidden_field("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
        ]
    return []


def _check_gates(now: list[Any], before: list[Any]) -> list[Cause]:
    """Check that scheduling gates are only removed."""
    known = {each.get("name") for each in before}
    return [
        forbidden_field(f"spec.schedulingGates[{number}].name", _NO_NEW_GATES.format(each.get("name")))
        for number, each in enumerate(now)
        if each.get("name") not in known
    ]


def _check_placement(spec: Object, before: Object) -> Iterator[Cause]:
    """Check that the node selection of a gated pod only becomes narrower."""
    labels, old = spec.get("nodeSelector") or {}, before.get("nodeSelector") or {}
    if not old.items() <= labels.items():
        message = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        yield invalid_value("spec.nodeSelector", labels or None, message)
    path = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
    terms, old_terms = _terms(spec), _terms(before)
    if not old_terms:
        return
    if len(terms) != len(old_terms):
        message = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        yield invalid_value(path, [_told_term(each) for each in terms] or None, message)
        return
    for number, (term, then) in enumerate(zip(terms, old_terms, strict=True)):
        if not _only_adds(term, then):
            yield invalid_value(f"{path}[{number}]", _told_term(term), _ONLY_MORE)


def _terms(spec: Object) -> list[Object]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    return (affinity.get(REQUIRED) or {}).get("nodeSelectorTerms") or []


def _only_adds(term: Object, before: Object) -> bool:
    """Return True if a term keeps all old requirements in the same order; an empty one matches nothing."""
    parts = [(term.get(part) or [], before.get(part) or []) for part in ("matchExpressions", "matchFields")]
    if not any(old for _, old in parts):
        return not any(new for new, _ in parts)
    return all(new[: len(old)] == old for new, old in parts)


def _told_term(term: Object) -> Object:
    """Return a term as the real server shows it, with the field names of Go."""
    return {
        told: [
            {"Key": each.get("key", ""), "Operator": each.get("operator", ""), "Values": each.get("values")}
            for each in term[part]
        ]
        if term.get(part)
        else None
        for part, told in (("matchExpressions", "MatchExpressions"), ("matchFields", "MatchFields"))
    }


def _fixed_part(spec: Object, before: Object) -> bytes:
    """Return the immutable part as bytes to compare; the node selection of a gated pod can change."""
    fixed = {key: value for key, value in spec.items() if key not in _FREE}
    for part in ("containers", "initContainers"):
        fixed[part] = [{**each, "image": ""} for each in spec.get(part) or []]
    if (before.get("terminationGracePeriodSeconds") or 0) < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        fixed["terminationGracePeriodSeconds"] = before["terminationGracePeriodSeconds"]
    if before.get("schedulingGates"):
        fixed.pop("nodeSelector", None)
        rest = {key: value for key, value in (fixed.pop("affinity", None) or {}).items() if key != "nodeAffinity"}
        if rest:
            fixed["affinity"] = rest
    return msgspec.json.encode(fixed, order="deterministic")


def _differences(before: bytes, after: bytes) -> str:
    """Return the lines that differ between two JSON texts, in the format of `diff -u`.

    Of long texts, only the first differences are told: the time for all grows with the square of the length.
    """
    old, new = (msgspec.json.format(each, indent=1).decode().splitlines() for each in (before, after))
    more = []
    if max(len(old), len(new)) > MOST_COMPARED:
        same = next((at for at, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), len(old))
        part = slice(max(0, same - _CONTEXT), same + MOST_COMPARED)
        more = ["..."] if max(len(old), len(new)) > part.stop else []
        old, new = old[part], new[part]
    return "\n".join([*[*unified_diff(old, new, lineterm="", n=_CONTEXT)][2:], *more]) + "\n"


def check_pod_status(obj: Object, old: Object) -> list[Cause]:
    """Return the errors in a change of the status."""
    state, before = obj.get("status") or {}, old.get("status") or {}
    causes: list[Cause] = []
    for number, condition in enumerate(state.get("conditions") or ()):
        kind = condition.get("type", "")
        if kind not in _KUBELET_CONDITIONS:
            causes += check_name(f"status.conditions[{number}].Type", kind, qualified_name_problems(kind))
    node = state.get("nominatedNodeName") or ""
    if node and node != before.get("nominatedNodeName"):
        causes += check_name("status.nominatedNodeName", node, subdomain_problems(node))
    spec = spec_of(old)
    if not may_restart_all(spec):
        for field, group in (("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")):
            containers = {each["name"]: each for each in spec.get(group) or ()}
            policy = spec.get("restartPolicy", "Always")
            causes += _check_ends(
                f"status.{field}", state.get(field) or (), before.get(field) or (), containers, policy
            )
    for field in ("podIPs", "hostIPs"):
        if state.get(field) != before.get(field):
            for number, address in enumerate(state.get(field) or ()):
                ip = address.get("ip", "")
                causes += check_name(f"status.{field}[{number}]", ip, address_problems(ip))
    return causes


def _check_ends(path: str, now: Any, before: Any, containers: Mapping[str, Object], policy: str) -> Iterator[Cause]:
    """Check that containers that may not restart stay terminated."""
    after = {each.get("name"): each.get("state") or {} for each in now}
    for number, old in enumerate(before):
        end, name = (old.get("state") or {}).get("terminated"), old.get("name")
        if end is None or name not in after or after[name].get("terminated") is not None:
            continue
        container = containers.get(name)
        if container is None or not is_restarted(
            container, container.get("restartPolicy") or policy, end.get("exitCode", 0)
        ):
            yield forbidden_field(f"{path}[{number}].state", "may not be transitioned to non-terminated state")
