"""The controller of resource claims: pods get their own claims, and unused claims release their devices.

A claim is created for each pod from the template that the pod names, and recorded in the pod's status. A pod that has
ended, was deleted, or is being deleted without a node, no longer uses its claims. A claim that no pod uses releases its
devices, and a claim that was created for a pod that has ended is deleted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kilauea.api.dynamic import CLAIM_OF_POD, EXTENDED_CLAIM, FINALIZER
from kilauea.api.kinds import CLAIM_TEMPLATES, PODS, RESOURCE_CLAIMS
from kilauea.api.ports import (
    Confirm,
    Create,
    Delete,
    Interest,
    Key,
    Obj,
    Operation,
    Outcome,
    Patch,
    Record,
    Reference,
    Replace,
    View,
    no_keys,
)
from kilauea.controllers.hashes import LONGEST_BASE, suffixes
from kilauea.controllers.objects import (
    NOTHING,
    annotations_of,
    controller_of,
    is_going,
    name_of,
    owned_by,
    owner_reference,
    retry_delay,
    spec_of,
    status_of,
    uid_of,
)
from kilauea.controllers.pods import is_finished

RETRY_SECONDS = 5.0
CLAIM, POD = "claim", "pod"
"""Prefixes of the names of keys: a claim or a pod to reconcile."""


def _key(what: str, namespace: str, name: str) -> Key:
    return Key(namespace, f"{what}/{name}")


def _claim_key(claim: Obj) -> Iterable[Key]:
    """Yield the keys of a claim and of the pod that it was created for."""
    namespace = claim["metadata"]["namespace"]
    keys = [_key(CLAIM, namespace, name_of(claim))]
    owner = controller_of(claim)
    if owner is not None and owner["kind"] == PODS.kind:
        keys.append(_key(POD, namespace, owner["name"]))
    return keys


def _keys_of_pod(pod: Obj) -> Iterable[Key]:
    """Yield the key of a pod that needs its own claims, and the keys of all its claims."""
    namespace, asked = pod["metadata"]["namespace"], spec_of(pod).get("resourceClaims") or ()
    if not asked and "extendedResourceClaimStatus" not in status_of(pod):  # as for most pods, and this runs for all
        return ()
    keys = [_key(CLAIM, namespace, name) for name in claims_of(pod)]
    if any(each.get("resourceClaimTemplateName") for each in asked):
        keys.append(_key(POD, namespace, name_of(pod)))
    return keys


def _made(pod: Obj) -> dict[str, str]:
    """Claims created for a pod, by the pod's own names for them; empty if not needed."""
    return {
        each["name"]: each.get("resourceClaimName") or "" for each in status_of(pod).get("resourceClaimStatuses") or ()
    }


def claims_of(pod: Obj) -> list[str]:
    """Names of the claims that a pod uses, including the one for its extended resources."""
    made = _made(pod)
    asked = spec_of(pod).get("resourceClaims") or ()
    names = [name for each in asked if (name := each.get("resourceClaimName") or made.get(each["name"]))]
    extended = (status_of(pod).get("extendedResourceClaimStatus") or {}).get("resourceClaimName")
    return [*names, extended] if extended else names


class ResourceClaimController:
    """Creates claims from templates, and releases unused ones."""

    name = "resourceclaim-controller"
    interests = (
        Interest(RESOURCE_CLAIMS, _claim_key),
        Interest(PODS, _keys_of_pod),
        Interest(CLAIM_TEMPLATES, no_keys),
    )

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Reconcile a claim or a pod."""
        what, _, name = key.name.partition("/")
        place = Key(key.namespace, name)
        return self._claim(place, view) if what == CLAIM else self._pod(place, view, now)

    # --- claims of pods

    def _pod(self, key: Key, view: View, now: int) -> Outcome:
        """Create the claims that a pod needs, and record them in its status."""
        pod = view.get(PODS, key)
        if pod is None or is_going(pod) or is_finished(pod):
            return NOTHING
        made = _made(pod)
        operations: list[Operation] = []
        wanted, again = [], None
        for each in spec_of(pod).get("resourceClaims") or ():
            template = each.get("resourceClaimTemplateName")
            if not template or each["name"] in made:
                continue
            found = self._found(view, pod, each["name"])
            source = view.get(CLAIM_TEMPLATES, Key(key.namespace, template))
            if found is None and source is None:
                about = {"apiVersion": "v1", "kind": "Pod", "metadata": pod["metadata"]}
                message = f'PodResourceClaim {each["name"]}: resourceclaimtemplate "{template}" not found'
                operations.append(Record(about, "Warning", "FailedResourceClaimCreation", message))
                again = retry_delay(pod, now, RETRY_SECONDS)
                continue
            if found is None and source is not None:
                body = _from_template(pod, each["name"], source)
                operations.append(Create(RESOURCE_CLAIMS, body, pod))
                found = body
            if found is not None:
                wanted.append({"name": each["name"], "resourceClaimName": name_of(found)})
        if wanted:
            statuses = [*(status_of(pod).get("resourceClaimStatuses") or ()), *wanted]
            patch = {"metadata": {"uid": uid_of(pod)}, "status": {"resourceClaimStatuses": statuses}}
            operations.append(Patch(PODS, key, patch, "merge", "status"))
        return Outcome(operations, again)

    def _found(self, view: View, pod: Obj, name: str) -> Obj | None:
        """The claim that was created for a pod before, but is not in the pod's status yet."""
        claims = owned_by(view, RESOURCE_CLAIMS, pod)
        return next((claim for claim in claims if annotations_of(claim).get(CLAIM_OF_POD) == name), None)

    # --- unused claims

    def _claim(self, key: Key, view: View) -> Outcome:
        """Remove pods that have ended from a claim; without pods it releases its devices, and may be deleted."""
        claim = view.get(RESOURCE_CLAIMS, key)
        if claim is None:
            return NOTHING
        status = status_of(claim)
        reserved = status.get("reservedFor") or []
        kept = [each for each in reserved if self._uses(view, key.namespace, each)]
        operations: list[Operation] = []
        if len(kept) < len(reserved) or (is_going(claim) and not kept and status.get("allocation")):
            absent = [each for each in reserved if each not in kept and self._is_absent(view, key.namespace, each)]
            if absent:  # the view of pods may lag behind the one of claims
                places = (Key(key.namespace, each["name"]) for each in absent)
                gone = [Reference(PODS, at, each["uid"]) for at, each in zip(places, absent, strict=True)]
                operations.append(Confirm(gone))
            operations.append(Replace(RESOURCE_CLAIMS, _with_users(claim, kept), "status"))
            return Outcome(operations)
        if not kept and not status.get("allocation") and FINALIZER in (claim["metadata"].get("finalizers") or ()):
            finalizers = [each for each in claim["metadata"]["finalizers"] if each != FINALIZER]
            version = claim["metadata"]["resourceVersion"]
            patch = {"metadata": {"finalizers": finalizers or None}}
            operations.append(Patch(RESOURCE_CLAIMS, key, patch, version=version))
        if not kept and not is_going(claim) and self._is_left_over(view, claim):
            operations.append(Delete(RESOURCE_CLAIMS, key, uid_of(claim)))
        return Outcome(operations)

    def _uses(self, view: View, namespace: str, consumer: Obj) -> bool:
        """Return True if a consumer still uses its claim."""
        if consumer.get("resource") != PODS.plural or consumer.get("apiGroup"):
            return True
        pod = view.get(PODS, Key(namespace, consumer["name"]))
        if pod is None or uid_of(pod) != consumer["uid"] or is_finished(pod):
            return False
        return not is_going(pod) or bool(spec_of(pod).get("nodeName"))

    def _is_absent(self, view: View, namespace: str, consumer: Obj) -> bool:
        pod = view.get(PODS, Key(namespace, consumer["name"]))
        return pod is None or uid_of(pod) != consumer["uid"]

    def _is_left_over(self, view: View, claim: Obj) -> bool:
        """Return True if a claim was created for a pod that has ended. Claims of deleted pods are garbage-collected."""
        owner = controller_of(claim)
        made = annotations_of(claim).keys() & {CLAIM_OF_POD, EXTENDED_CLAIM}
        if owner is None or owner["kind"] != PODS.kind or not made:
            return False
        pod = view.get(PODS, Key(claim["metadata"]["namespace"], owner["name"]))
        return pod is not None and uid_of(pod) == owner["uid"] and is_finished(pod)


def _from_template(pod: Obj, name: str, template: Obj) -> dict[str, Any]:
    """The claim of a pod. Its name depends on the pod's UID, so it is never created twice."""
    spec = spec_of(template)
    metadata = spec.get("metadata") or {}
    base = f"{name_of(pod)}-{name}"[: LONGEST_BASE - 1]
    return {
        "apiVersion": RESOURCE_CLAIMS.api_version,
        "kind": RESOURCE_CLAIMS.kind,
        "metadata": {
            "name": f"{base}-{next(suffixes(f'{uid_of(pod)}/{name}'))}",
            "namespace": pod["metadata"]["namespace"],
            "labels": dict(metadata.get("labels") or {}),
            "annotations": {**(metadata.get("annotations") or {}), CLAIM_OF_POD: name},
            "ownerReferences": [owner_reference(PODS, pod)],
        },
        "spec": spec.get("spec") or {},
    }


def _with_users(claim: Obj, users: list[Any]) -> dict[str, Any]:
    """A claim with other consumers; without any, it has no devices."""
    status = {name: value for name, value in status_of(claim).items() if name != "reservedFor"}
    if users:
        status["reservedFor"] = users
    else:
        status.pop("allocation", None)
        status.pop("devices", None)
    return {**claim, "status": status}
