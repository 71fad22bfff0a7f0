"""The annotation with the applied configuration, when kubectl migrates to server-side apply."""

from __future__ import annotations

import json
from typing import Any

from kilauea.apiserver.patch.compare import applied_fields, compare
from kilauea.apiserver.patch.fieldset import FieldSet, difference
from kilauea.apiserver.patch.shape import Shape
from kilauea.apiserver.patch.values import copied

ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
MAX_ANNOTATIONS = 256 * 1024


def allowed_conflicts(shape: Shape, live: dict[str, Any], api_version: str) -> FieldSet | None:
    """Return the fields that kubectl applied and that still have its values; None without such an annotation."""
    text = (live.get("metadata", {}).get("annotations") or {}).get(ANNOTATION)
    if not text:
        return None
    try:
        recorded = json.loads(text)
        if not isinstance(recorded, dict) or recorded.get("apiVersion") != api_version:
            return None
        change = compare(shape, recorded, live)
        return difference(difference(applied_fields(shape, recorded), change.changed), change.removed)
    except ValueError:
        return None


def refresh_annotation(metadata: dict[str, Any], applied: dict[str, Any]) -> None:
    """Update the annotation if it exists; `metadata` is changed in place."""
    if not (metadata.get("annotations") or {}).get(ANNOTATION):
        return
    recorded = copied(applied)
    own = recorded.get("metadata", {}).get("annotations")
    if own is not None:
        own.pop(ANNOTATION, None)
        if not own:
            del recorded["metadata"]["annotations"]
    text = json.dumps(recorded, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"
    annotations = {**metadata["annotations"], ANNOTATION: text}
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > MAX_ANNOTATIONS:
        del annotations[ANNOTATION]
    metadata["annotations"] = annotations
