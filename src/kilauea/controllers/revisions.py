"""Controller revisions: the previous templates of a workload, as numbered objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kilauea.api.kinds import DAEMON_SETS, REVISIONS
from kilauea.api.ports import Create, Delete, Key, Obj, Operation, Patch, Resource, View, key_of
from kilauea.controllers.hashes import template_hash
from kilauea.controllers.objects import (
    annotations_of,
    labels_of,
    name_of,
    owned_by,
    owner_reference,
    spec_of,
    status_of,
    uid_of,
)

HASH = "controller.kubernetes.io/hash"
REVISION_LABEL = "controller-revision-hash"
DEFAULT_LIMIT = 10


class History(NamedTuple):
    """The revisions of a workload.

    Attributes:
        owned: the oldest first.
        newest: name of the revision with the current template.
        collisions: number of times that names were taken.
        operations: operations that create or update revisions.
    """

    owned: Sequence[Obj]
    newest: str
    collisions: int
    operations: Sequence[Operation]

    @property
    def digest(self) -> str:
        """The suffix of the newest revision's name, which identifies its template."""
        return digest_of(self.newest)


def digest_of(name: str) -> str:
    """Return the suffix of the name of a revision."""
    return name.rpartition("-")[2]


def history(view: View, resource: Resource, owner: Obj) -> History:
    """Find or create the revision of the current template of a workload."""
    owned = sorted(owned_by(view, REVISIONS, owner), key=lambda each: (each.get("revision", 0), name_of(each)))
    data = _in_order({"spec": {"template": {**spec_of(owner)["template"], "$patch": "replace"}}})
    collisions = int(status_of(owner).get("collisionCount") or 0)
    highest = max((each.get("revision", 0) for each in owned), default=0)
    same = [each for each in owned if each.get("data") == data]
    if same:
        found = same[-1]
        again: list[Operation] = []
        if found.get("revision", 0) < highest:
            again.append(Patch(REVISIONS, key_of(found), {"revision": highest + 1}))
        return History(owned, name_of(found), collisions, again)
    namespace = owner["metadata"]["namespace"]
    while True:
        digest = template_hash(data, collisions)
        name = f"{name_of(owner)[:220]}-{digest}"
        if view.get(REVISIONS, Key(namespace, name)) is None:
            break
        collisions += 1
    made = _revision(resource, owner, name, digest, data, highest + 1)
    return History(owned, name, collisions, [Create(REVISIONS, made, about=owner)])


def _in_order(value: Any) -> Any:
    """Sort the keys of all mappings, as Go writes them: clients compare the data byte for byte."""
    if isinstance(value, Mapping):
        return {key: _in_order(value[key]) for key in sorted(value)}
    return [_in_order(each) for each in value] if isinstance(value, list) else value


def _revision(
    resource: Resource, owner: Obj, name: str, digest: str, data: Mapping[str, Any], number: int
) -> dict[str, Any]:
    labels = (spec_of(owner)["template"].get("metadata") or {}).get("labels") or {}
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": owner["metadata"]["namespace"],
        "labels": {**labels, REVISION_LABEL if resource == DAEMON_SETS else HASH: digest},
        "ownerReferences": [owner_reference(resource, owner)],
    }
    if annotations_of(owner):
        metadata["annotations"] = dict(annotations_of(owner))
    return {
        "apiVersion": REVISIONS.api_version,
        "kind": REVISIONS.kind,
        "metadata": metadata,
        "data": data,
        "revision": number,
    }


def template_of(found: History, name: str, owner: Obj) -> Mapping[str, Any]:
    """The template of a revision; that of the workload if the revision is gone."""
    for each in found.owned:
        if name_of(each) == name:
            template: Mapping[str, Any] = each["data"]["spec"]["template"]
            return {field: value for field, value in template.items() if field != "$patch"}
    own: Mapping[str, Any] = spec_of(owner)["template"]
    return own


def forgotten(owner: Obj, found: History, pods: Sequence[Obj], kept: Sequence[str]) -> list[Operation]:
    """Delete the oldest unused revisions beyond the limit."""
    names = {labels_of(pod).get(REVISION_LABEL) or "" for pod in pods} | {found.newest, *kept}
    used = {digest_of(name) for name in names}  # pods of daemon sets contain only the digest
    idle = [each for each in found.owned if digest_of(name_of(each)) not in used]
    limit = int(spec_of(owner).get("revisionHistoryLimit", DEFAULT_LIMIT))
    return [Delete(REVISIONS, key_of(each), uid_of(each)) for each in idle[: max(0, len(idle) - limit)]]
