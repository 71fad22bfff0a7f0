"""Objects of a write in the version that a rule asks for."""

from __future__ import annotations

import msgspec

from kilauea.apiserver.admission import Attributes
from kilauea.apiserver.dynamic.decoding import decode
from kilauea.apiserver.resources.types import ResourceType

Object = dict[str, object]


async def objects_in_version(attributes: Attributes, resource: ResourceType) -> tuple[Object | None, Object | None]:
    """The new and the old object of a write in the version of a kind."""
    obj, old = attributes.obj, attributes.old
    return (
        None if obj is None else await in_version(attributes, resource, obj),
        None if old is None else await in_version(attributes, resource, old),
    )


async def in_version(attributes: Attributes, resource: ResourceType, obj: Object) -> Object:
    """A copy of an object in the version of a kind; what is not such an object (a Binding, a Scale) stays."""
    value = msgspec.json.encode(obj)
    known = (attributes.resource.api_version, resource.api_version)
    if obj.get("apiVersion") not in known or obj.get("apiVersion") == resource.api_version:
        return decode(value)
    if resource.conversion is not None:
        return (await resource.conversion.convert([decode(value)], resource.api_version))[0]
    if resource.other_form is not None:
        return decode(resource.other_form.served(value, resource.api_version))
    if attributes.resource.other_form is not None:
        return attributes.resource.other_form.stored(decode(value))
    return decode(value) | {"apiVersion": resource.api_version}
