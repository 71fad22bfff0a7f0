"""Renewal of a lease: a merge patch of only its `renewTime`, which each simulated node sends every few seconds.

The result of such a patch under the rules for updates is known: it changes this field, and the time of the manager that
set it before. All other patches are handled by the general rules.
"""

from __future__ import annotations

from functools import partial

import msgspec

from kilauea.apiserver.patch.fieldset import has
from kilauea.apiserver.patch.managed import UPDATE, Manager, manager_of
from kilauea.apiserver.request import ApiResponse
from kilauea.apiserver.rest.answers import object_response
from kilauea.apiserver.rest.call import Call, Object
from kilauea.apiserver.rest.objects import decode, encode
from kilauea.apiserver.rest.writing import write_admitted
from kilauea.apiserver.schema.scalars import micro_time
from kilauea.apiserver.storage import Conflict, Missing

_RENEW_TIME = ("f:spec", "f:renewTime")


class _Spec(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    renew_time: str


class _Renewal(msgspec.Struct, forbid_unknown_fields=True):
    spec: _Spec


_renewal_of = msgspec.json.Decoder(_Renewal).decode


async def renew(call: Call) -> ApiResponse | None:
    """Answer a merge patch by a component of this process that renews a lease; None if the general rules apply."""
    if not call.request.is_ours or (call.resource.group, call.resource.plural) != ("coordination.k8s.io", "leases"):
        return None
    if call.request.query or (call.backend.dynamic is not None and call.backend.dynamic.has_any()):
        return None
    current = call.backend.store.get(call.key)
    if current is None or not call.resource.is_served_as_stored:
        return None
    try:
        time = micro_time(_renewal_of(call.request.body).spec.renew_time)
    except (msgspec.MsgspecError, ValueError):
        return None
    old = current.decoded or decode(current.value)
    lease = _renewed(call, old, time)
    if lease is None:
        return None
    try:
        make = partial(encode, lease, deepens=False)
        attributes = call.attributes("UPDATE", lease, old)
        stored = await write_admitted(call, attributes, current.key, current.revision, make, lease)
    except (Conflict, Missing):
        return None
    return object_response(call, stored.value)


def _renewed(call: Call, old: Object, time: str) -> Object | None:
    """Return a lease with its new time, sharing the rest with the old one; None if more than the time may change."""
    metadata, spec = old["metadata"], old.get("spec") or {}
    entries = metadata.get("managedFields") or []
    if len(entries) != 1 or spec.get("renewTime", time) == time or metadata.get("deletionTimestamp"):
        return None
    entry = entries[0]
    manager = Manager(call.field_manager() or "unknown", UPDATE, call.resource.api_version, "")
    if manager_of(entry) != manager or not has(entry["fieldsV1"], _RENEW_TIME):
        return None
    managed = [{**entry, "time": call.backend.timestamp()}]
    return {**old, "metadata": {**metadata, "managedFields": managed}, "spec": {**spec, "renewTime": time}}
