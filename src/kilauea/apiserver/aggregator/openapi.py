"""Descriptions (OpenAPI) by other API servers, put into those of this server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

_REFERENCE = re.compile(rb'"#/definitions/([^"]+)"')


def described(document: bytes, path: str) -> Mapping[str, Any] | None:
    """Return the part of a document of OpenAPI v2 that is about one version of a group: paths, and what they refer to.

    Args:
        document: of another server.
        path: `/apis/GROUP/VERSION`.
    """
    try:
        whole = msgspec.json.decode(document)
        paths = {key: each for key, each in whole["paths"].items() if key == f"{path}/" or key.startswith(f"{path}/")}
        definitions, found = whole.get("definitions") or {}, {}
        waiting = [msgspec.json.encode(paths)]
        while waiting:
            for name in dict.fromkeys(each.decode() for each in _REFERENCE.findall(waiting.pop())):
                if name not in found and name in definitions:
                    found[name] = definitions[name]
                    waiting.append(msgspec.json.encode(found[name]))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, AttributeError, KeyError, TypeError):
        return None
    return {"paths": paths, "definitions": found}


def merged(own: dict[str, Any], others: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a document of OpenAPI v2 with those of other servers; a definition that both have stays as it is."""
    paths, definitions = dict(own["paths"]), dict(own["definitions"])
    for each in others:
        paths.update(each["paths"])
        definitions = {**each["definitions"], **definitions}
    return {**own, "paths": paths, "definitions": definitions}
