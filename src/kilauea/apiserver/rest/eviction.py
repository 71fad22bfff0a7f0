"""Eviction: deletes a pod if its disruption budget allows it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from kilauea.api.selectors import matches
from kilauea.apiserver import status
from kilauea.apiserver.negotiation import header_of
from kilauea.apiserver.patch import track_update
from kilauea.apiserver.request import ApiResponse
from kilauea.apiserver.rest.body import read_typed
from kilauea.apiserver.rest.call import Call, Object
from kilauea.apiserver.rest.delete_options import DeleteOptions, delete_options
from kilauea.apiserver.rest.deleting import check_preconditions, delete_object
from kilauea.apiserver.rest.dynamic import ask_dynamically
from kilauea.apiserver.rest.listing import TURN
from kilauea.apiserver.rest.objects import decode, encode, metadata_of
from kilauea.apiserver.rest.pods import change_pod, pod_call
from kilauea.apiserver.rest.update import TRIES
from kilauea.apiserver.schema import builtin_schema
from kilauea.apiserver.status import ApiFault, Cause
from kilauea.apiserver.storage import Conflict, Stored
from kilauea.apiserver.turns import TimeSlice

MOST_DISRUPTED = 2000
"""Pods that a budget records as evicted but not yet deleted."""
_TARGET = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
    "lastProbeTime": None,
}
_ALLOWED = "DisruptionAllowed"
_BLOCKED = "Cannot evict pod as it would violate the pod's disruption budget."


async def evict(call: Call) -> ApiResponse:
    """Answer a create of a pod's `eviction`."""
    body = read_typed(call, builtin_schema("policy", "v1", "Eviction"), "policy/v1", "Eviction", ("policy/v1beta1",))
    name = call.info.name
    if metadata_of(body).get("name") != name:
        raise status.bad_request("name in URL does not match name in Eviction object")
    pods = pod_call(call, name)
    if call.backend.store.get(pods.key) is None:
        raise pods.not_found()
    attributes = call.attributes("CREATE", body, None, name)
    await ask_dynamically(call, attributes)
    options = delete_options(body.get("deleteOptions") or {})
    options = replace(options, dry_run=options.dry_run or call.dry_run())
    for _ in range(TRIES):
        stored = call.backend.store.get(pods.key)
        if stored is None:
            raise pods.not_found()
        pod = decode(stored.value)
        check_preconditions(pods, pod, options)
        needed = replace(options, uid=pod["metadata"]["uid"])
        if await _take_from_budget(pods, pod, options.dry_run):
            needed = replace(needed, revision=str(stored.revision))
        try:
            await _delete(pods, pod, needed)
        except ApiFault as fault:
            if fault.code != 409:
                raise
            continue  # the pod has changed or was replaced: its budget decides again
        return ApiResponse(201, status.encode(status.status("Success", 201)))
    raise pods.conflict()


async def _delete(call: Call, pod: Object, options: DeleteOptions) -> None:
    """Mark a pod, unless it is marked already, and delete it.

    Raises:
        ApiFault: it is not the one that the options name (409).
    """
    if not options.dry_run and not _is_marked(pod):
        value = await change_pod(call, partial(_marked, call, options))
        if options.revision:
            options = replace(options, revision=header_of(value).metadata.resource_version)
    await delete_object(call, call.info.name, options, reviewed=True)


def _is_marked(pod: Object) -> bool:
    """Return True if a pod has the condition of an earlier eviction, or of one at the same time."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(all(each.get(key) == _TARGET[key] for key in ("type", "status", "reason")) for each in conditions)


def _marked(call: Call, options: DeleteOptions, pod: Object) -> Object:
    """Return the pod with the condition DisruptionTarget, if it is the one that the options name."""
    check_preconditions(call, pod, options)
    state = pod.setdefault("status", {})
    others = [each for each in state.get("conditions") or [] if each.get("type") != "DisruptionTarget"]
    state["conditions"] = [*others, {**_TARGET, "lastTransitionTime": call.backend.timestamp()}]
    return pod


async def _take_from_budget(call: Call, pod: Object, dry_run: bool) -> bool:
    """Count the eviction against the pod's budget, unless it needs none.

    Returns:
        True if it needs none only as long as the pod does not change, as it has not started or is not ready.

    Raises:
        ApiFault: the budget allows none (429), or the pod has several budgets (500).
    """
    phase = (pod.get("status") or {}).get("phase", "")
    if phase in ("Succeeded", "Failed") or pod["metadata"].get("deletionTimestamp"):
        return False
    if phase in ("Pending", ""):
        return True
    for _ in range(TRIES):
        budgets = await _budgets_of(call, pod)
        if not budgets:
            return False
        if len(budgets) > 1:
            raise status.internal(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            )
        current = budgets[0]
        budget = decode(current.value)
        if _is_unready(pod) and _spares_unready(budget):
            return True
        _disrupt(call, budget, pod["metadata"]["name"])
        if dry_run:
            return False
        budget["metadata"]["managedFields"] = track_update(
            decode(current.value), budget, "kube-apiserver", builtin_schema("policy", "v1", "PodDisruptionBudget"),
            "policy/v1", call.backend.timestamp(), subresource="status",
        )  # fmt: skip
        try:
            await call.backend.store.write(current.key, current.revision, partial(encode, budget))
        except Conflict:
            continue
        return False
    raise call.conflict()


async def _budgets_of(call: Call, pod: Object) -> list[Stored]:
    """Return the disruption budgets whose selector matches a pod, and no more than two, as two are too many."""
    page = call.backend.store.list(f"/policy/poddisruptionbudgets/{call.namespace}/")
    labels = pod["metadata"].get("labels") or {}
    selector_of = call.backend.budget_selectors.of
    time_slice = TimeSlice(call.pause, TURN)
    found: list[Stored] = []
    for each in page.items:
        if time_slice.is_over(each.length):
            await time_slice.renew()
        if matches(selector_of(each), labels):
            found.append(each)
            if len(found) > 1:
                break
    return found


def _is_unready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return not any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def _spares_unready(budget: Object) -> bool:
    """Return True if pods that are not ready may be evicted although the budget allows none."""
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    state = budget.get("status") or {}
    return bool(state.get("currentHealthy", 0) >= state.get("desiredHealthy", 0) > 0)


def _disrupt(call: Call, budget: Object, pod: str) -> None:
    """Record the eviction of a pod in a budget."""
    name, state = budget["metadata"]["name"], budget.setdefault("status", {})
    if state.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        cause = Cause("", "DisruptionBudget", f"The disruption budget {name} is still being processed by the server.")
        raise status.too_many_requests(_BLOCKED, [cause], 10)
    allowed, disrupted = state.get("disruptionsAllowed", 0), state.setdefault("disruptedPods", {})
    if allowed < 0:
        raise _forbidden(call, name, "pdb disruptions allowed is negative")
    if len(disrupted) > MOST_DISRUPTED:
        raise _forbidden(call, name, "DisruptedPods map too big - too many evictions not confirmed by PDB controller")
    if allowed == 0:
        needs, has = state.get("desiredHealthy", 0), state.get("currentHealthy", 0)
        message = f"The disruption budget {name} needs {needs} healthy pods and has {has} currently"
        raise status.too_many_requests(_BLOCKED, [Cause("", "DisruptionBudget", message)])
    state["disruptionsAllowed"] = allowed - 1
    disrupted[pod] = call.backend.timestamp()
    if allowed == 1:
        _note_that_none_may_go(state, call.backend.timestamp())


def _note_that_none_may_go(state: Object, now: str) -> None:
    """Set the condition of a budget whose last allowed disruption is used."""
    before = {each["type"]: each for each in state.get("conditions") or []}
    old = before.get(_ALLOWED) or {}
    new = {"type": _ALLOWED, "status": "False", "reason": "InsufficientPods", "message": ""}
    new["observedGeneration"] = state.get("observedGeneration", 0)
    new["lastTransitionTime"] = old["lastTransitionTime"] if old.get("status") == "False" else now
    state["conditions"] = list({**before, _ALLOWED: new}.values())


def _forbidden(call: Call, name: str, why: str) -> ApiFault:
    return status.forbidden("poddisruptionbudgets", "policy", name, why)
