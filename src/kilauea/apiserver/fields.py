"""Field errors, as `Cause`s worded as by the real server, and checks that many kinds share.

A path is a string such as `spec.containers[0].image`. Every check returns a list of causes, empty without errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from kilauea.api.names import label_value_problems, path_segment_problems, qualified_name_problems
from kilauea.apiserver.status import Cause

LONGEST_SHOWN = 16 * 1024
"""The maximum number of characters of a value in an error."""

# --- kinds of errors


def required(path: str, detail: str = "") -> Cause:
    """Return the error for a missing required field."""
    return Cause(path, "FieldValueRequired", "Required value" + (f": {detail}" if detail else ""))


def invalid_value(path: str, value: Any, detail: str = "") -> Cause:
    """Return the error for an invalid value, with the reason."""
    return Cause(path, "FieldValueInvalid", f"Invalid value: {_shown(value)}" + (f": {detail}" if detail else ""))


def invalid_values(path: str, value: Any, details: Iterable[str]) -> list[Cause]:
    """Return an error for each thing that is wrong with a value; it is encoded once, as it may be large."""
    shown = _shown(value)
    return [Cause(path, "FieldValueInvalid", f"Invalid value: {shown}: {detail}") for detail in details]


def wrong_type(path: str, value: Any, detail: str) -> Cause:
    """Return the error for a value of the wrong type."""
    return Cause(path, "FieldValueTypeInvalid", f"Invalid value: {_shown(value)}: {detail}")


def not_supported(path: str, value: Any, supported: Iterable[str]) -> Cause:
    """Return the error for a value that is not one of the supported ones."""
    message = ", ".join(f'"{each}"' for each in supported)
    return Cause(path, "FieldValueNotSupported", f"Unsupported value: {_shown(value)}: supported values: {message}")


def duplicate(path: str, value: Any) -> Cause:
    """Return the error for a duplicate value."""
    return Cause(path, "FieldValueDuplicate", f"Duplicate value: {_shown(value)}")


def forbidden_field(path: str, detail: str) -> Cause:
    """Return the error for a field that must not be set or changed."""
    return Cause(path, "FieldValueForbidden", f"Forbidden: {detail}")


def missing_reference(path: str, value: Any) -> Cause:
    """Return the error for a reference to a missing object."""
    return Cause(path, "FieldValueNotFound", f"Not found: {_shown(value)}")


def too_many(path: str, count: int, most: int) -> Cause:
    """Return the error for a list with too many items."""
    return Cause(path, "FieldValueTooMany", f"Too many: {count}: must have at most {most} items")


def too_long(path: str, most: int) -> Cause:
    """Return the error for a string that is too long, in bytes."""
    return Cause(path, "FieldValueTooLong", f"Too long: may not be more than {most} bytes")


def _shown(value: Any) -> str:
    """Return a value as JSON, without the end of a long one: the same may be shown for each of its parts."""
    if value is None:
        return "null"
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


# --- checks that many kinds share


def check_name(path: str, value: Any, problems: Sequence[str]) -> list[Cause]:
    """Return the errors in a name."""
    return [invalid_value(path, value, each) for each in problems] if problems else []


def check_required_name(path: str, value: Any, problems: Callable[[str], Sequence[str]]) -> list[Cause]:
    """Check a required name, by the rule for its form."""
    return check_name(path, value, problems(value)) if value else [required(path)]


def check_word(path: str, value: Any, allowed: Sequence[str]) -> list[Cause]:
    """Check that a value, if set, is one of the allowed ones."""
    return [] if value is None or value in allowed else [not_supported(path, value, allowed)]


def check_path_segments(path: str, obj: dict[str, Any], *fields: str) -> list[Cause]:
    """Check required fields of an object that are segments of request paths, such as kinds and names."""
    causes: list[Cause] = []
    for field in fields:
        text = obj.get(field, "")
        if text:
            causes += check_name(f"{path}.{field}", text, path_segment_problems(text))
        else:
            causes.append(required(f"{path}.{field}"))
    return causes


def check_labels(path: str, labels: dict[str, Any]) -> list[Cause]:
    """Check the keys and values of labels."""
    causes = []
    for key, value in labels.items():
        causes += [invalid_value(path, key, each) for each in qualified_name_problems(key)]
        causes += [invalid_value(path, value, each) for each in label_value_problems(value or "")]
    return causes


MAX_ANNOTATIONS = 256 * 1024


def check_annotations(path: str, annotations: dict[str, Any]) -> list[Cause]:
    """Check the keys of annotations, and their total size."""
    causes = []
    size = 0
    for key, value in annotations.items():
        causes += [invalid_value(path, key, each) for each in qualified_name_problems(key.lower())]
        size += len(key) + len(value or "")
    if size > MAX_ANNOTATIONS:
        causes.append(Cause(path, "FieldValueTooLong", f"Too long: may not be more than {MAX_ANNOTATIONS} bytes"))
    return causes


def check_not_negative(path: str, value: Any) -> list[Cause]:
    """Check that a number, if set, is at least 0."""
    if isinstance(value, int) and value < 0:
        return [invalid_value(path, value, "must be greater than or equal to 0")]
    return []


def check_range(path: str, value: Any, low: int, high: int) -> list[Cause]:
    """Check that a number, if set, is between two bounds, both included."""
    if isinstance(value, int) and not low <= value <= high:
        return [invalid_value(path, value, f"must be between {low} and {high}, inclusive")]
    return []


_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def check_label_selector(path: str, selector: dict[str, Any]) -> list[Cause]:
    """Check a `metav1.LabelSelector`."""
    causes = check_labels(f"{path}.matchLabels", selector.get("matchLabels") or {})
    for number, term in enumerate(selector.get("matchExpressions") or ()):
        causes += check_label_requirement(f"{path}.matchExpressions[{number}]", term)
    return causes


def check_label_requirement(path: str, term: dict[str, Any], *, any_operator: bool = False) -> list[Cause]:
    """Check one requirement of a label selector; `any_operator` allows unknown operators."""
    causes = check_operator(path, term, any_operator=any_operator)
    causes += [
        invalid_value(f"{path}.key", term.get("key", ""), each) for each in qualified_name_problems(term.get("key", ""))
    ]
    for number, value in enumerate(term.get("values") or []):
        causes += [invalid_value(f"{path}.values[{number}]", value, each) for each in label_value_problems(value)]
    return causes


def check_operator(path: str, term: dict[str, Any], *, any_operator: bool = False) -> list[Cause]:
    """Check the operator of a requirement, and that it has values only if it uses them."""
    operator, values = term.get("operator", ""), term.get("values") or []
    causes = []
    if operator in ("In", "NotIn") and not values:
        causes.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist") and values:
        causes.append(
            forbidden_field(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
        )
    elif operator not in _OPERATORS and not any_operator:
        causes.append(invalid_value(f"{path}.operator", operator, "not a valid selector operator"))
    return causes
