"""OpenAPI documents of other API servers, merged into those of this server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import chain
from typing import Any

import msgspec

from kilauea.apiserver.protobuf.openapi import encode_definition

MOST_LEVELS = 100
"""Maximum depth of nested objects and lists, as the encoder is recursive."""
_REFERENCE = re.compile(rb'"#/definitions/([^"]+)"')


class _Document(msgspec.Struct):
    """A document; its parts stay encoded, as most are not needed."""

    paths: dict[str, msgspec.Raw]
    definitions: dict[str, msgspec.Raw] | None = None


def described(document: bytes, path: str) -> Mapping[str, Any] | None:
    """Return the part of an OpenAPI v2 document for one group version: paths, and the definitions they refer to.

    It has each definition in protobuf, too, as `messages`: a large one takes seconds.

    Args:
        document: the document of another server.
        path: `/apis/GROUP/VERSION`.

    Returns:
        None if the document is invalid, or its definitions cannot be converted to each format of this server.
    """
    try:
        whole = msgspec.json.decode(document, type=_Document)
        paths = {key: _object(each) for key, each in whole.paths.items() if key.startswith(f"{path}/")}
        definitions, found, messages = whole.definitions or {}, dict[str, msgspec.Raw](), dict[str, bytes]()
        waiting = [*paths.values()]
        while waiting:
            for name in dict.fromkeys(each.decode() for each in _REFERENCE.findall(waiting.pop())):
                if name not in found and name in definitions:
                    found[name] = _object(definitions[name])
                    messages[name] = encode_definition(name, msgspec.json.decode(found[name]))
                    waiting.append(found[name])
    except (msgspec.MsgspecError, UnicodeError, RecursionError, AttributeError, TypeError):
        return None
    return {"paths": paths, "definitions": found, "messages": messages}


def _object(part: msgspec.Raw) -> msgspec.Raw:
    """Return an object in a document in this server's encoding, in which references have a single form.

    Raises:
        msgspec.DecodeError: it is not an object, or nested too deeply.
    """
    found = msgspec.json.decode(part, type=dict[str, Any])
    level: list[Any] = [found]
    for _ in range(MOST_LEVELS):
        inner = [each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list)]
        level = list(chain.from_iterable(inner))
    if level:
        raise msgspec.DecodeError(f"more than {MOST_LEVELS} levels")
    return msgspec.Raw(msgspec.json.encode(found))


def merged(own: dict[str, Any], others: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Return an OpenAPI v2 document merged with those of other servers; existing definitions take precedence."""
    paths, definitions = dict(own["paths"]), dict(own["definitions"])
    for each in others:
        paths.update(each["paths"])
        definitions = {**each["definitions"], **definitions}
    return {**own, "paths": paths, "definitions": definitions}
