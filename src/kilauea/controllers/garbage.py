"""The garbage collector: deletes or orphans the dependents of deleted objects, before or after these.

An object depends on the owners in its metadata. It is deleted when none of them exists any more (with the same UID). An
owner with the finalizer `foregroundDeletion` waits until no blocking dependents are left; one with `orphan` waits until
its dependents no longer refer to it.

Keys are UIDs, since owners may be of any kind, and may never have existed. A reconciliation handles the object with the
UID, if it exists, and all objects that name it as an owner.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kilauea.api.kinds import EVENTS
from kilauea.api.ports import (
    ALL_KINDS,
    Confirm,
    Delete,
    Interest,
    Key,
    Obj,
    Operation,
    Outcome,
    Patch,
    Propagation,
    Reference,
    Resource,
    Single,
    Steps,
    Together,
    View,
    key_of,
)
from kilauea.controllers.kinds import DEFINED_KINDS, stored_kinds
from kilauea.controllers.objects import NOTHING, is_going, uid_of, without_finalizer

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
FEW_OWNERS = 16
"""Up to this many owners, an object is reconciled with each of them, together with their other dependents."""
MOST_ANCESTORS = 2000
"""Number of ancestors that are searched for a cycle, at about 20 µs each.

Each reconciliation of an object in a chain of owners follows the chain, and others wait meanwhile.
"""
AT_ONCE = 500
"""Number of dependents to process in one go, so that others have their turn: an owner may have a hundred thousand."""
REFERENCES_AT_ONCE = 2000
"""Number of their owner references, each of which is looked up and may become part of a patch."""
MOST_ABSENT = 4000
"""Owners that do not exist and are taken out of an object at a time: each costs a request, and a client may name
thousands."""
FIELDS = ("metadata.finalizers",)
"""Fields of objects that are needed besides those that views always keep."""
SIGNS = ("metadata.ownerReferences", "metadata.deletionTimestamp")
"""Fields without which an object neither waits for its dependents nor has owners."""
UID = "uid, if the object has owners or waits for its dependents"
"""Name of the index of objects by UID. It leaves out most objects, which are in no chain of owners."""
KEPT_FOR = "uids of the owners, if the object is not being deleted"
"""Name of the index of dependents that are not being deleted: the others can be thousands, and are not read."""


class Found(NamedTuple):
    """An object and its kind."""

    resource: Resource
    obj: Obj


# --- triggers


def _finalizers(obj: Obj) -> Sequence[str]:
    return obj["metadata"].get("finalizers") or ()


def _owners(obj: Obj) -> Sequence[Mapping[str, Any]]:
    return obj["metadata"].get("ownerReferences") or ()


def _own_uid(obj: Obj) -> Iterable[Key]:
    return (Key("", uid_of(obj)),)


def _where_owners_are_looked_for(obj: Obj) -> Iterable[Key]:
    """Yield the UIDs of the owners of an object, so that objects with the same owners are reconciled together.

    An object with many owners is reconciled once, by its own UID: otherwise the work would be quadratic in their
    number.
    """
    owners = _owners(obj)
    return [Key("", each["uid"]) for each in owners] if len(owners) <= FEW_OWNERS else _own_uid(obj)


def _may_have_dependents_that_go(old: Obj | None, new: Obj | None) -> bool:
    """Return True if an object was deleted, or waits for its dependents."""
    return new is None or (is_going(new) and (FOREGROUND in _finalizers(new) or ORPHAN in _finalizers(new)))


def _uid_if_it_matters(obj: Obj) -> str:
    return uid_of(obj) if _owners(obj) or _may_have_dependents_that_go(None, obj) else ""


def _kept_for(obj: Obj) -> tuple[str, ...]:
    return () if is_going(obj) else tuple(dict.fromkeys(str(each["uid"]) for each in _owners(obj)))


def _owners_may_be_concerned(old: Obj | None, new: Obj | None) -> bool:
    """Return True if an object was created or deleted, or its owners changed."""
    return old is None or new is None or _owners(old) != _owners(new)


# --- reconciliation


class GarbageCollector:
    """Deletes objects without owners, and releases owners that wait for their dependents."""

    name = "garbage-collector-controller"
    interests = (
        Interest(
            ALL_KINDS,
            _own_uid,
            indexes={UID: _uid_if_it_matters, KEPT_FOR: _kept_for},
            fields=FIELDS,
            signs=SIGNS,
            matters=_may_have_dependents_that_go,
        ),
        Interest(ALL_KINDS, _where_owners_are_looked_for, fields=FIELDS, signs=SIGNS, matters=_owners_may_be_concerned),
        DEFINED_KINDS,
    )

    def reconcile(self, key: Key, view: View, now: int) -> Outcome | Steps:
        """Reconcile the object with a UID and its dependents.

        An owner that does not wait for them is found by the reference of one of them.
        """
        kinds = [each for each in stored_kinds(view) if each != EVENTS]
        uid = key.name
        found = [Found(each, obj) for each in kinds for obj in view.indexed(each, UID, uid)]
        owner = next((each for each in found if _may_have_dependents_that_go(None, each.obj)), None)
        if owner is None:
            some = [(each, view.owned(each, uid, "", 1)) for each in kinds]
            many = [each for each in found if len(_owners(each.obj)) > FEW_OWNERS]
            itself = _collected(view, kinds, "", many) if many else ()
            # Most owners exist, and one dependent shows that: a job may have thousands, which arrive one by one.
            if _is_there(view, kinds, uid, next(([Found(each, objs[0])] for each, objs in some if objs), [])):
                return Outcome(itself) if itself else NOTHING
            return _collect(view, kinds, uid, itself)
        return _orphan(view, kinds, owner) if ORPHAN in _finalizers(owner.obj) else _delete_first(view, kinds, owner)


def _parts(dependents: Iterable[Found]) -> Iterator[tuple[list[Found], float | None]]:
    """Yield parts of some dependents, each with the delay until the next part: None for the last one."""
    part: list[Found] = []
    references = 0
    for each in dependents:
        if len(part) == AT_ONCE or references > REFERENCES_AT_ONCE:
            yield part, 0.0
            part, references = [], 0
        part.append(each)
        references += len(_owners(each.obj))
    if part:
        yield part, None


def _kept(view: View, kinds: Sequence[Resource], uid: str) -> Iterator[Found]:
    """Yield the dependents that are not being deleted."""
    return _founds((each, view.indexed(each, KEPT_FOR, uid)) for each in kinds)


def _collect(view: View, kinds: Sequence[Resource], uid: str, itself: Sequence[Operation]) -> Steps:
    """Delete the first dependents of an owner that is missing, or let them forget it; the others follow in their turn.

    If there is nothing to do for the first ones, all are processed in steps: any client can give objects the UID of an
    owner in another namespace, or of an unknown kind.
    """
    is_first = True
    for part, again in _parts(_kept(view, kinds, uid)):
        collected = _collected(view, kinds, uid, part)
        yield collected
        if is_first and collected:
            return Outcome(itself, again)
        is_first = False
    return Outcome(itself)


def _founds(owned: Iterable[tuple[Resource, Sequence[Obj]]]) -> Iterator[Found]:
    return (Found(resource, obj) for resource, objs in owned for obj in objs)


def _collected(view: View, kinds: Sequence[Resource], uid: str, dependents: Sequence[Found]) -> Sequence[Operation]:
    """Delete the dependents of a missing owner; those with other owners lose the reference to it.

    With an empty UID, all owners of the objects are checked.
    """
    by_kind = {(each.group, each.kind): each for each in kinds}
    deleted: list[Sequence[Single]] = []
    chains: list[Sequence[Single]] = []
    only: list[Reference] = []
    for each in dependents:
        if is_going(each.obj) or not any(_references(by_kind, each.obj, uid)):
            continue
        absent = _absent(view, by_kind, each.obj)
        if len(absent) < len(_owners(each.obj)) or len(absent) > MOST_ABSENT:
            # The others are deleted in their turn, unless the object has been deleted by then.
            gone = sorted(absent, key=lambda reference: reference.uid != uid)[:MOST_ABSENT]
            if gone:
                chains.append([Confirm(gone), _disowned(each, {reference.uid for reference in gone})])
        elif len(absent) == 1:
            only = absent
            deleted.append([_deleted(each, _policy(each.obj))])
        else:
            chains.append([Confirm(absent), _deleted(each, _policy(each.obj))])
    # Most dependents have one owner, the same for all: the server is queried about it once.
    bulk: list[Operation] = [Confirm(only), Together(deleted)] if deleted else []
    return [*([Together(chains)] if chains else []), *bulk]


def _may_depend(dependent: Found, owner: Found) -> bool:
    """Return True if an object can have this owner: one in another namespace does not count."""
    namespace = owner.obj["metadata"].get("namespace", "")
    return not namespace or namespace == dependent.obj["metadata"].get("namespace", "")


def _absent(view: View, by_kind: Mapping[tuple[str, str], Resource], obj: Obj) -> list[Reference]:
    """The owners of an object that the view does not have; owners of unknown kinds are assumed to exist."""
    found = [(each, _owner(view, each)) for each in _references(by_kind, obj) if each is not None]
    return [reference for reference, owner in found if owner is None]


def _is_there(view: View, kinds: Sequence[Resource], uid: str, dependents: Sequence[Found]) -> bool:
    """Return True if one of these dependents names the owner with this UID correctly."""
    by_kind = {(each.group, each.kind): each for each in kinds}
    references = (reference for each in dependents for reference in _references(by_kind, each.obj, uid))
    return any(each is not None and _owner(view, each) is not None for each in references)


def _references(by_kind: Mapping[tuple[str, str], Resource], obj: Obj, uid: str = "") -> Iterable[Reference | None]:
    """The owners that an object names, or those with a UID; None for one of an unknown kind."""
    for owner in _owners(obj):
        if uid and owner["uid"] != uid:
            continue
        resource = by_kind.get((owner["apiVersion"].rpartition("/")[0], owner["kind"]))
        if resource is None:
            yield None
        else:
            key = Key(obj["metadata"].get("namespace", "") if resource.namespaced else "", owner["name"])
            yield Reference(resource, key, owner["uid"])


def _owner(view: View, reference: Reference) -> Obj | None:
    """The owner of a reference, if the view has it."""
    found = view.head(reference.resource, reference.key)
    return found if found is not None and uid_of(found) == reference.uid else None


def _ancestors(view: View, by_kind: Mapping[tuple[str, str], Resource], obj: Obj) -> set[str]:
    """The UIDs of all ancestors of an object; in a cycle, they include its own."""
    found: set[str] = set()
    waiting = [obj]
    while waiting and len(found) < MOST_ANCESTORS:
        for reference in _references(by_kind, waiting.pop()):
            if reference is not None and reference.uid not in found:
                found.add(reference.uid)
                if (above := _owner(view, reference)) is not None:
                    waiting.append(above)
    return found


def _stays(view: View, by_kind: Mapping[tuple[str, str], Resource], obj: Obj) -> bool:
    """Return True if an object has an owner that does not wait for its dependents to be deleted."""
    for reference in _references(by_kind, obj):
        owner = None if reference is None else _owner(view, reference)
        if reference is None or (owner is not None and not (is_going(owner) and FOREGROUND in _finalizers(owner))):
            return True
    return False


def _delete_first(view: View, kinds: Sequence[Resource], owner: Found) -> Steps:
    """Delete dependents of an owner that waits for them, and release it when none that blocks it is left.

    Dependents with another owner lose the reference instead. They are processed as in `_collect`.
    """
    uid = uid_of(owner.obj)
    by_kind = {(each.group, each.kind): each for each in kinds}
    later: float | None = None
    is_first = True
    for part, again in _parts(_kept(view, kinds, uid)):
        chains: list[Sequence[Single]] = [
            [_disowned(each, {uid}) if _stays(view, by_kind, each.obj) else _deleted(each, "Foreground")]
            for each in part
            if _may_depend(each, owner)
        ]
        yield [Together(chains)] if chains else ()
        if is_first and chains:
            later = again
            break
        is_first = False
    blocked = yield from _is_blocked(view, kinds, owner)
    return Outcome([] if blocked else without_finalizer(owner.resource, owner.obj, FOREGROUND), later)


def _is_blocked(view: View, kinds: Sequence[Resource], owner: Found) -> Generator[Sequence[Operation], None, bool]:
    """Return True if an owner must wait for one of its dependents, after reading them in steps.

    Dependents that are also its ancestors wait for it in turn, so they do not block it.
    """
    uid, namespace = uid_of(owner.obj), owner.obj["metadata"].get("namespace", "")
    by_kind = {(each.group, each.kind): each for each in kinds}
    ancestors: set[str] | None = None
    for part, again in _parts(_founds((each, view.owned(each, uid, namespace)) for each in kinds)):
        for each in part:
            if not any(
                reference["uid"] == uid and reference.get("blockOwnerDeletion") for reference in _owners(each.obj)
            ):
                continue
            if not is_going(each.obj):
                return True
            ancestors = _ancestors(view, by_kind, owner.obj) if ancestors is None else ancestors
            if uid_of(each.obj) not in ancestors:
                return True
        if again is not None:
            yield ()
    return False


def _orphan(view: View, kinds: Sequence[Resource], owner: Found) -> Steps:
    """Remove an owner from its first dependents, and release it after the last ones."""
    uid, namespace = uid_of(owner.obj), owner.obj["metadata"].get("namespace", "")
    every = _founds((each, view.owned(each, uid, namespace)) for each in kinds)
    for part, again in _parts(every):
        yield [Together([[_disowned(each, {uid})] for each in part])]
        if again is not None:
            return Outcome((), again)
    return Outcome(without_finalizer(owner.resource, owner.obj, ORPHAN))


def _policy(obj: Obj) -> Propagation:
    """The deletion policy for an object's dependents, as requested when it was deleted."""
    if ORPHAN in _finalizers(obj):
        return "Orphan"
    return "Foreground" if FOREGROUND in _finalizers(obj) else "Background"


def _deleted(dependent: Found, policy: Propagation) -> Delete:
    return Delete(dependent.resource, key_of(dependent.obj), uid_of(dependent.obj), propagation=policy)


def _disowned(dependent: Found, uids: set[str]) -> Patch:
    """The patch that removes owners from an object, if it is unchanged."""
    kept = [each for each in _owners(dependent.obj) if each["uid"] not in uids]
    # The list is patched as a whole: if an owner was added meanwhile, the patch must fail instead of dropping it.
    version = dependent.obj["metadata"]["resourceVersion"]
    patch = {"metadata": {"ownerReferences": kept or None}}
    return Patch(dependent.resource, key_of(dependent.obj), patch, version=version)
