"""JSON patches (RFC 6902), as the real server applies them.

The server is more lenient than the RFC and the jsonpatch library: `replace` and `test` may name a missing key, a
missing `value` is null, negative indexes count from the end of a list. Clients rely on the former (a `replace` of an
annotation that may not exist yet), so the operations are implemented here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from kilauea.apiserver.patch.values import ABSENT, json_type, same
from kilauea.apiserver.status import ApiFault, bad_request

MAX_OPERATIONS = 10_000
MAX_COPIED = 3 * 1024 * 1024
"""Maximum total bytes of JSON copied by one patch, as in the real server: each copy can double an object."""
MAX_MOVED = 50_000_000
"""Maximum total number of list items moved by insertions and removals of one patch."""


class _Work:
    """The work of a patch so far."""

    def __init__(self) -> None:
        self.copied = 0
        self.moved = 0

    def copy(self, value: Any) -> Any:
        """Copy a value, unless the copies become too large in total."""
        text = msgspec.json.encode(value)
        self.copied += len(text)
        if self.copied > MAX_COPIED:
            raise _Inapplicable
        return msgspec.json.decode(text)

    def move(self, items: list[Any]) -> None:
        """Count the insertion or removal of an item of a list."""
        self.moved += len(items)
        if self.moved > MAX_MOVED:
            raise _Inapplicable


class _Inapplicable(Exception):
    """An operation does not fit the document; the real server does not tell clients which."""


class FailedTest(ApiFault):
    """A `test` of a patch has failed."""

    def __init__(self) -> None:
        super().__init__(422, "Invalid", _UNPROCESSABLE)
        self.status["details"] = {}


_UNPROCESSABLE = "the server rejected our request due to an error in our request"


def json_patch(document: Any, operations: Any) -> Any:
    """Apply operations to a document in place; the result may be another object.

    Raises:
        ApiFault: 400 if these are not operations, 413 for more than 10,000, 422 if one does not fit the document,
            as `FailedTest` if it is a test.
    """
    _check_form(operations)
    work = _Work()
    try:
        for operation in operations:
            document = _apply(document, operation, work)
    except _Inapplicable:
        raise unprocessable() from None
    return document


def unprocessable() -> ApiFault:
    """Return the error for a patch that does not fit the object, with empty details as in the real server."""
    fault = ApiFault(422, "Invalid", _UNPROCESSABLE)
    fault.status["details"] = {}
    return fault


def _check_form(operations: Any) -> None:
    """Check that operations are a list of objects that is not too long."""
    target = "[]handlers.jsonPatchOp"
    if not isinstance(operations, list):
        found = json_type(operations)
        raise bad_request(f"error decoding patch: json: cannot unmarshal {found} into Go value of type {target}")
    if len(operations) > MAX_OPERATIONS:
        count = len(operations)
        message = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {count}"
        raise ApiFault(413, "RequestEntityTooLarge", message)
    for each in operations:
        if not isinstance(each, dict):
            found = json_type(each)
            raise bad_request(
                f"error decoding patch: json: cannot unmarshal {found} into Go value of type handlers.jsonPatchOp"
            )


def _apply(document: Any, operation: dict[str, Any], work: _Work) -> Any:
    """Apply one operation; return the document."""
    act = _OPERATIONS.get(operation.get("op") or "")
    if act is None:
        raise _Inapplicable
    return act(document, operation, work)


# --- pointers


def _pointer(operation: dict[str, Any], key: str = "path") -> list[str]:
    """Return the steps of a pointer; none for the whole document."""
    text = operation.get(key)
    if not isinstance(text, str):
        raise _Inapplicable
    return [step.replace("~1", "/").replace("~0", "~") for step in text.split("/")[1:]]


def _locate(document: Any, steps: list[str]) -> tuple[Any, str]:
    """Return the object or list that contains the last step of a pointer, and that step."""
    if not steps:
        raise _Inapplicable
    for step in steps[:-1]:
        document = _get(document, step)
        if document is ABSENT:
            raise _Inapplicable
    if not isinstance(document, dict | list):
        raise _Inapplicable
    return document, steps[-1]


def _index(step: str, length: int) -> int:
    """Return the index of a step in a list that has, or will have, this many items."""
    try:
        index = int(step)
    except ValueError:
        raise _Inapplicable from None
    if not -length <= index < length:
        raise _Inapplicable
    return index % length


def _get(holder: Any, step: str) -> Any:
    """Return the value at a step; `ABSENT` for a missing key of an object."""
    if isinstance(holder, dict):
        return holder.get(step, ABSENT)
    if isinstance(holder, list):
        return holder[_index(step, len(holder))]
    raise _Inapplicable


# --- operations


def _put(document: Any, steps: list[str], value: Any, work: _Work) -> Any:
    """Set a key, or insert into a list before an index."""
    holder, step = _locate(document, steps)
    if isinstance(holder, dict):
        holder[step] = value
    elif step == "-":
        holder.append(value)
    else:
        work.move(holder)
        holder.insert(_index(step, len(holder) + 1), value)
    return document


def _take(document: Any, steps: list[str], work: _Work) -> Any:
    """Remove the value at a pointer, and return it."""
    holder, step = _locate(document, steps)
    if isinstance(holder, list):
        work.move(holder)
        return holder.pop(_index(step, len(holder)))
    if step not in holder:
        raise _Inapplicable
    return holder.pop(step)


def _add(document: Any, operation: dict[str, Any], work: _Work) -> Any:
    return _put(document, _pointer(operation), operation.get("value"), work)


def _remove(document: Any, operation: dict[str, Any], work: _Work) -> Any:
    _take(document, _pointer(operation), work)
    return document


def _replace(document: Any, operation: dict[str, Any], _: _Work) -> Any:
    steps, value = _pointer(operation), operation.get("value")
    if not steps:
        if not isinstance(value, dict | list):
            raise _Inapplicable
        return value
    holder, step = _locate(document, steps)
    if isinstance(holder, dict):
        holder[step] = value
    else:
        holder[_index(step, len(holder))] = value
    return document


def _move(document: Any, operation: dict[str, Any], work: _Work) -> Any:
    value = _take(document, _pointer(operation, "from"), work)
    return _put(document, _pointer(operation), value, work)


def _copy(document: Any, operation: dict[str, Any], work: _Work) -> Any:
    value = _get(*_locate(document, _pointer(operation, "from")))
    return _put(document, _pointer(operation), None if value is ABSENT else work.copy(value), work)


def _test(document: Any, operation: dict[str, Any], _: _Work) -> Any:
    steps, expected = _pointer(operation), operation.get("value")
    found = _get(*_locate(document, steps)) if steps else document
    if not same(None if found is ABSENT else found, expected):
        raise FailedTest
    return document


_OPERATIONS: dict[str, Callable[[Any, dict[str, Any], _Work], Any]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}
