"""Keys of pod specs, which are equal for equal specs."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from kilauea.api.core import PodSpec, Volume

_encode = msgspec.json.Encoder().encode


def spec_key(spec: PodSpec) -> bytes | None:
    """Return a key that is equal for specs with the same fields for scheduling, except the node.

    Volumes of which scheduling reads only the name are ignored, as their names are often random. A spec with a number
    or a text that JSON cannot represent has no key.
    """
    volumes = spec.volumes
    if volumes:
        volumes = [each for each in volumes if each != Volume(name=each.name)]
    try:
        return _encode(replace(spec, node_name=None, volumes=volumes))
    except (OverflowError, ValueError):
        return None
