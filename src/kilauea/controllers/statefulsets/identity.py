"""The pod with an ordinal, and the claims for its volumes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kilauea.api.kinds import CLAIMS, PODS, STATEFUL_SETS
from kilauea.api.ports import Create, Key, Obj, Operation, Record, View
from kilauea.controllers.objects import labels_of, name_of, spec_of
from kilauea.controllers.pods import from_template
from kilauea.controllers.revisions import REVISION_LABEL

POD_NAME, POD_INDEX = "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"


def ordinal_of(stateful_set: Obj, pod: Obj) -> int | None:
    """The ordinal of a pod; None if it does not belong to the set."""
    base, _, number = name_of(pod).rpartition("-")
    return int(number) if base == name_of(stateful_set) and number.isascii() and number.isdigit() else None


def numbers(stateful_set: Obj) -> range:
    """The desired ordinals."""
    first = int((spec_of(stateful_set).get("ordinals") or {}).get("start") or 0)
    return range(first, first + int(spec_of(stateful_set).get("replicas", 1)))


def creation(
    view: View,
    stateful_set: Obj,
    number: int,
    template: Mapping[str, Any],
    revision: str,
    owners: Sequence[Mapping[str, Any]],
) -> Iterator[Operation]:
    """Create the missing claims of an ordinal, with these owners, then its pod."""
    pod = _pod(stateful_set, number, template, revision)
    name, owner = pod["metadata"]["name"], name_of(stateful_set)
    yield from missing_claims(view, stateful_set, name, owners)
    yield Create(PODS, pod, about=stateful_set)
    yield Record(stateful_set, "Normal", "SuccessfulCreate", f"Create Pod {name} in StatefulSet {owner} successful")


def missing_claims(
    view: View, stateful_set: Obj, name: str, owners: Sequence[Mapping[str, Any]]
) -> Iterator[Operation]:
    """Create the missing claims of a pod, with these owners."""
    for claim in _claims(stateful_set, name):
        own = claim["metadata"]["name"]
        if view.get(CLAIMS, Key(stateful_set["metadata"]["namespace"], own)) is None:
            if owners:
                claim["metadata"]["ownerReferences"] = list(owners)
            yield Create(CLAIMS, claim, about=stateful_set)
            message = f"Create Claim {own} Pod {name} in StatefulSet {name_of(stateful_set)} success"
            yield Record(stateful_set, "Normal", "SuccessfulCreate", message)


def _pod(stateful_set: Obj, number: int, template: Mapping[str, Any], revision: str) -> dict[str, Any]:
    owner = name_of(stateful_set)
    name = f"{owner}-{number}"
    pod = from_template(template, STATEFUL_SETS, stateful_set, name)
    own = {POD_NAME: name, POD_INDEX: str(number), REVISION_LABEL: revision}
    pod["metadata"]["labels"] = {**labels_of(pod), **own}
    pod["metadata"]["generateName"] = f"{owner}-"
    spec = {**pod["spec"], "hostname": name, "subdomain": spec_of(stateful_set).get("serviceName") or ""}
    claims = spec_of(stateful_set).get("volumeClaimTemplates") or []
    mounted = {each["metadata"]["name"]: _volume(each["metadata"]["name"], name) for each in claims}
    others = [each for each in spec.get("volumes") or [] if each["name"] not in mounted]
    if mounted or others:
        spec["volumes"] = [*mounted.values(), *others]
    pod["spec"] = spec
    return pod


def _volume(template: str, pod: str) -> dict[str, Any]:
    return {"name": template, "persistentVolumeClaim": {"claimName": f"{template}-{pod}"}}


def claim_names(stateful_set: Obj, pod: str) -> list[str]:
    """The names of the claims of a pod."""
    return [f"{each['metadata']['name']}-{pod}" for each in spec_of(stateful_set).get("volumeClaimTemplates") or ()]


def _claims(stateful_set: Obj, pod: str) -> Iterator[dict[str, Any]]:
    selected = (spec_of(stateful_set).get("selector") or {}).get("matchLabels") or {}
    for template in spec_of(stateful_set).get("volumeClaimTemplates") or ():
        metadata = {**template["metadata"], "name": f"{template['metadata']['name']}-{pod}"}
        metadata["namespace"] = stateful_set["metadata"]["namespace"]
        metadata["labels"] = {**(metadata.get("labels") or {}), **selected}
        yield {"apiVersion": "v1", "kind": CLAIMS.kind, "metadata": metadata, "spec": template["spec"]}
