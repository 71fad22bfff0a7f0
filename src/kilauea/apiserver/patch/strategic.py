"""Strategic merge patches: merge patches for which the schema defines how lists are merged, and by which key.

A list whose schema has the strategy `merge` is merged item by item: by its merge key, or, for plain values, as a set.
All other lists are replaced. Within a patch these keys are directives:

- `$patch: replace` in an object: replace it. `$patch: delete`: empty the object. As an item of a merged list,
  `{$patch: delete, KEY: X}` deletes the item X, and `{$patch: replace}` replaces the whole list by the other items.
- `$deleteFromPrimitiveList/FIELD`: values to remove from a merged list of plain values.
- `$setElementOrder/FIELD`: the desired order of the items of a merged list.
- `$retainKeys`: the only keys that stay in an object.
"""

from __future__ import annotations

from typing import Any

from kilauea.apiserver.patch.json_patch import unprocessable
from kilauea.apiserver.patch.ordering import Places, check_order, identity, in_patch_order
from kilauea.apiserver.patch.values import go_text, go_type, json_type
from kilauea.apiserver.schema.nodes import Schema
from kilauea.apiserver.status import ApiFault, bad_request

DIRECTIVE = "$patch"
RETAIN_KEYS = "$retainKeys"
DELETE_FROM = "$deleteFromPrimitiveList"
SET_ORDER = "$setElementOrder"


def strategic_merge(document: dict[str, Any], patch: Any, schema: Schema) -> dict[str, Any]:
    """Merge a patch into a document; both are changed in place, and the result may be either.

    Args:
        document: the current object.
        patch: the decoded patch.
        schema: the schema of a built-in kind; custom resources have no strategies and must be rejected with 415.

    Raises:
        ApiFault: 400 for malformed patches, 500 for those that make the real server fail.
    """
    if not isinstance(patch, dict):
        raise bad_request(f"json: cannot unmarshal {json_type(patch)} into Go value of type map[string]interface {{}}")
    return _merge_objects(document, patch, schema)


def failure(message: str) -> ApiFault:
    """Return the real server's error (500) for a patch that does not fit the object."""
    return ApiFault(500, "", message)


# --- objects


def _merge_objects(current: dict[str, Any], patch: dict[str, Any], schema: Schema | None) -> dict[str, Any]:
    """Merge an object of a patch into one of the document."""
    if DIRECTIVE in patch:
        return _replaced(patch)
    _retain_keys(current, patch)
    _merge_ordered(current, patch, schema)
    for key, value in patch.items():
        if key.startswith(DELETE_FROM):
            _delete_from(current, _field_of(key, DELETE_FROM), value)
        elif value is None:
            current.pop(key, None)
        else:
            _merge_field(current, key, value, schema)
    return current


def _replaced(patch: dict[str, Any]) -> dict[str, Any]:
    """Return the result of an object with a directive."""
    directive = patch[DIRECTIVE]
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != DIRECTIVE}
    if directive == "delete":
        return {}
    raise failure(f"unknown patch type: {go_text(directive)} in map: {go_text(patch)}")


def _merge_field(current: dict[str, Any], key: str, value: Any, schema: Schema | None) -> None:
    """Merge one value of a patch, which is not null."""
    before = current.get(key)
    below = schema.field(key) if schema else None
    strategies = below.patch_strategy.split(",") if below else []
    if isinstance(before, dict) and isinstance(value, dict):
        current[key] = value if "replace" in strategies else _merge_objects(before, value, below)
    elif isinstance(before, list) and isinstance(value, list):
        current[key] = _merge_lists(before, value, below) if below and "merge" in strategies else value
    else:
        _take_over(current, key, value)


def _take_over(current: dict[str, Any], key: str, value: Any) -> None:
    """Set a value of a patch, without nulls and directives, where no value of its type existed."""
    if isinstance(value, dict) and DIRECTIVE in value:
        current.pop(key, None)
    else:
        current[key] = _plain(value)


def _plain(value: Any) -> Any:
    """Return a value of a patch without nulls, and without objects and items that are directives."""
    if isinstance(value, dict):
        kept = {key: each for key, each in value.items() if each is not None}
        return {key: _plain(each) for key, each in kept.items() if not _is_directive(each)}
    if isinstance(value, list):
        return [_plain(each) for each in value if not _is_directive(each)]
    return value


def _is_directive(value: Any) -> bool:
    return isinstance(value, dict) and DIRECTIVE in value


def _retain_keys(current: dict[str, Any], patch: dict[str, Any]) -> None:
    """Drop the keys that the patch does not list as retained; remove the list from the patch."""
    if RETAIN_KEYS not in patch:
        return
    retained = patch.pop(RETAIN_KEYS)
    if not isinstance(retained, list):
        raise bad_request("invalid patch format of retainKeys")
    for key, value in patch.items():
        if value is not None and not key.startswith((DELETE_FROM, SET_ORDER)) and key not in retained:
            raise bad_request("invalid patch format of retainKeys")
    for key in [key for key in current if key not in retained]:
        del current[key]


# --- lists


def _field_of(key: str, prefix: str) -> str:
    """Return the FIELD of `$deleteFromPrimitiveList/FIELD` or `$setElementOrder/FIELD`."""
    head, slash, field = key.partition("/")
    if head != prefix or not slash:
        what = "primitive list" if prefix == DELETE_FROM else "setElementOrder list"
        raise bad_request(f"invalid patch format of {what}")
    return field


def _delete_from(current: dict[str, Any], field: str, values: Any) -> None:
    """Remove plain values from a list."""
    before = current.get(field)
    if isinstance(before, list) and isinstance(values, list):
        gone = set(map(identity, values))
        current[field] = [each for each in before if identity(each) not in gone]


def _merge_lists(current: list[Any], patch: list[Any], schema: Schema) -> list[Any]:
    """Merge two lists, item by item, in the order of the patch if it sets one."""
    if not current and not patch:
        return current
    if not _check_items(current, patch):
        return in_patch_order(_distinct([*current, *patch]), patch, current, "")
    key = schema.merge_key
    if not key:
        raise failure(f"cannot merge lists without merge key for {schema.name}")
    current, patch = _follow_directives(current, patch, key)
    merged, places = list(current), Places(current, key)
    for item in patch:
        _merge_item(merged, places, item, key, schema.items)
    return in_patch_order(merged, patch, current, key)


def _merge_item(merged: list[Any], places: Places, item: dict[str, Any], key: str, schema: Schema | None) -> None:
    """Merge an item into the one with the same key, or append it."""
    if key not in item:
        raise failure(f"map: {go_text(item)} does not contain declared merge key: {key}")
    at = places.of(item)
    if at < 0:
        merged.append(item)
        places.add(item)
    else:
        merged[at] = _merge_objects(merged[at], item, schema)


def _distinct(values: list[Any]) -> list[Any]:
    """Return values without duplicates."""
    first: dict[Any, Any] = {}
    for each in values:
        first.setdefault(identity(each), each)
    return list(first.values())


def _check_items(*lists: list[Any]) -> bool:
    """Return True if the items are objects; all must have the same type, and not be lists."""
    types = {go_type(each) for items in lists for each in items}
    if "[]interface {}" in types:
        raise unprocessable()
    if len(types) > 1:
        raise failure(f"list element types are not identical: {go_text(list(lists))}")
    return types == {"map[string]interface {}"}


def _follow_directives(current: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """Return the list without the items that the patch deletes, and the patch without its directives."""
    plain = [item for item in patch if DIRECTIVE not in item]
    replace, gone = False, set()
    for item in patch:
        directive = item.get(DIRECTIVE)
        if directive == "delete":
            if key not in item:
                raise failure(f"map: {go_text(item)} does not contain declared merge key: {key}")
            gone.add(identity(item[key]))
        elif directive == "merge":
            raise failure("merging lists cannot yet be specified in the patch")
        elif directive == "replace":
            replace = True
        elif DIRECTIVE in item:
            raise failure(f"unknown patch type: {go_text(directive)} in map: {go_text(item)}")
    if gone:
        current = [each for each in current if key not in each or identity(each[key]) not in gone]
    return (plain, []) if replace else (current, plain)


def _merge_ordered(current: dict[str, Any], patch: dict[str, Any], schema: Schema | None) -> None:
    """Merge the lists whose order the patch sets; remove them and their orders from the patch."""
    for order_key in [key for key in patch if key.startswith(SET_ORDER)]:
        order = patch.pop(order_key)
        field = _field_of(order_key, SET_ORDER)
        items = patch.pop(field, None)
        before = current.get(field)
        for each in (order, *(each for each in (before, items) if each is not None)):
            if not isinstance(each, list):
                raise failure(f"expected a []interface {{}}, but received a {go_type(each)}")
        if before is None and items is None:
            continue
        below = schema.field(field) if schema else None
        key = below.merge_key if below else ""
        check_order(items or [], order, key)
        merged = _merged(before, items, below)
        current[field] = in_patch_order(merged, order, before or [], key)


def _merged(before: list[Any] | None, items: list[Any] | None, schema: Schema | None) -> list[Any]:
    """Return a list whose order is set, merged with its items in the patch."""
    if items is None:
        return before or []
    if before is None:
        return [_plain(each) for each in items if not _is_directive(each)]
    merging = schema is not None and "merge" in schema.patch_strategy.split(",")
    return _merge_lists(before, items, schema) if schema is not None and merging else items
