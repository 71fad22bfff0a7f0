"""The messages of rejections that kinds share, worded like Kubernetes' own field errors and lookups."""

from __future__ import annotations

import json
from collections.abc import Sequence

from kilauea.api.ports import Resource


def invalid(path: str, value: str, why: str) -> str:
    """A field whose value cannot be."""
    return f"{path}: Invalid value: {json.dumps(value, ensure_ascii=False)}: {why}"


def all_of(faults: Sequence[str]) -> str:
    """Several faults as one text, each once."""
    found = list(dict.fromkeys(faults))
    return found[0] if len(found) == 1 else f"[{', '.join(found)}]"


def not_found(resource: Resource, name: str) -> str:
    """An object that is not there, as a look-up in a watch's copy words it: the kind in the singular."""
    return f'{resource.kind.lower()}.{resource.group} "{name}" not found'
