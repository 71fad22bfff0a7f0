"""Keys for finding pods with the same spec."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from kilauea.api.core import PodSpec, Volume

_encode = msgspec.json.Encoder().encode


def spec_key(spec: PodSpec) -> bytes | None:
    """Return a key that specs share if scheduling reads the same in them, but for the node.

    Volumes of which scheduling reads only the name do not count, as their names are often random. A spec with a number
    or a text that JSON cannot have has no key.
    """
    volumes = spec.volumes
    if volumes:
        volumes = [each for each in volumes if each != Volume(name=each.name)]
    try:
        return _encode(replace(spec, node_name=None, volumes=volumes))
    except (OverflowError, ValueError):
        return None
