"""Calls of webhooks and policies during a request; without any, they return at once."""

from __future__ import annotations

from kilauea.apiserver import status
from kilauea.apiserver.admission.attributes import Attributes
from kilauea.apiserver.fields import invalid_value
from kilauea.apiserver.rest.call import Call, Object
from kilauea.apiserver.rest.objects import complete, invalid, kept_metadata, settle_namespace
from kilauea.apiserver.schema import DecodeError, forget_empty, read_builtin, read_custom


async def mutate_dynamically(call: Call, attributes: Attributes) -> None:
    """Let webhooks and policies change an object that the built-in steps have completed."""
    dynamic = call.backend.dynamic
    if dynamic is None or not dynamic.is_asked(attributes):
        return
    call.rest()
    form = _form(attributes.obj)
    await dynamic.mutate(attributes, lambda: _settle(call, attributes, form))
    attributes.waited = True


async def validate_dynamically(call: Call, attributes: Attributes) -> None:
    """Let webhooks and policies validate the final object, then the built-in steps again after a wait."""
    dynamic = call.backend.dynamic
    if dynamic is not None and dynamic.is_asked(attributes):
        call.rest()
        await dynamic.validate(attributes)
        attributes.waited = True
    if call.turn is not None:
        await call.aside(call.backend.admission.examine, attributes)
    if attributes.waited or call.turn is not None:
        call.backend.admission.recheck(attributes)
    call.backend.admission.validate(attributes)


async def ask_dynamically(call: Call, attributes: Attributes) -> None:
    """Let webhooks and policies review an object that is not stored: a Binding, an Eviction, a connection."""
    dynamic = call.backend.dynamic
    if dynamic is not None and dynamic.is_asked(attributes):
        await dynamic.mutate(attributes, _nothing)
        await dynamic.validate(attributes)


async def _nothing() -> None:
    """Do nothing, as the object is not stored."""


def _form(obj: Object | None) -> Object:
    """Return the apiVersion and kind of an object."""
    return {field: (obj or {}).get(field) for field in ("apiVersion", "kind")}


async def _settle(call: Call, attributes: Attributes, form: Object) -> None:
    """Complete an object that a webhook or policy has changed: remove unknown fields, set defaults, run built-in steps.

    Raises:
        ApiFault: its kind (500), namespace (400) or name (422) has changed: the caller was authorized for the
            original.
    """
    obj = attributes.obj
    for field, value in _form(obj).items():
        if value != form[field]:
            subject = f'{field} of {call.resource.plural} "{attributes.name}"'
            raise status.internal(f"a mutating webhook or policy changed {subject}, which must stay {form[field]}")
    if obj is None or obj.get("kind") != call.resource.kind:
        return
    await call.aside(_complete, call, obj, attributes.old)
    call.backend.admission.mutate(attributes)


def _complete(call: Call, obj: Object, old: Object | None) -> None:
    schema = call.resource.schema
    try:
        if call.resource.is_custom:
            read_custom(schema, obj)
        else:
            read_builtin(schema, obj)
            forget_empty(schema, obj)
    except DecodeError as error:
        raise status.internal(str(error)) from error
    settle_namespace(call, obj)
    if old is not None:
        kept_metadata(obj, old)
        name = obj["metadata"].get("name", "")
        if name != old["metadata"]["name"]:
            raise invalid(call, call.info.name, [invalid_value("metadata.name", name, "field is immutable")])
    complete(call, obj, old)
