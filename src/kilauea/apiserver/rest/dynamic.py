"""The place of webhooks and policies in a request; nothing happens, and nothing waits, unless there are any."""

from __future__ import annotations

from kilauea.apiserver import status
from kilauea.apiserver.admission import Attributes
from kilauea.apiserver.rest.call import Call, Object
from kilauea.apiserver.rest.objects import complete
from kilauea.apiserver.schema import DecodeError, forget_empty, read_builtin, read_custom


async def mutate_dynamically(call: Call, attributes: Attributes) -> None:
    """Have webhooks and policies change an object that the built-in steps have completed."""
    dynamic = call.backend.dynamic
    if dynamic is None or not dynamic.is_asked(attributes):
        return
    call.rest()
    await dynamic.mutate(attributes, lambda: _settle(call, attributes))
    attributes.waited = True


async def validate_dynamically(call: Call, attributes: Attributes) -> None:
    """Have webhooks and policies agree to the final object; then the built-in steps, which look again after a wait."""
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
    """Have webhooks and policies look at what is not stored: a Binding, an Eviction, a connection."""
    dynamic = call.backend.dynamic
    if dynamic is not None and dynamic.is_asked(attributes):
        await dynamic.mutate(attributes, _nothing)
        await dynamic.validate(attributes)


async def _nothing() -> None:
    """Leave what is not stored as it is."""


async def _settle(call: Call, attributes: Attributes) -> None:
    """Bring an object in order that a webhook or policy has changed: no unknown fields, defaults, built-in steps."""
    obj = attributes.obj
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
    complete(call, obj, old)
