"""What holds for every object: who applies owns, no one else is touched, and a difference leads to its target."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given

from apiserver.patch.widgets import VERSION, WIDGET, widget, widgets
from kilauea.apiserver.patch import ApplyConflict, server_side_apply, track_update
from kilauea.apiserver.patch.compare import applied_fields, compare
from kilauea.apiserver.patch.fieldset import difference, fields, intersection, paths, union
from kilauea.apiserver.patch.managed import NEVER_OWNED
from kilauea.apiserver.patch.shape import shape_of
from kilauea.apiserver.patch.values import copied

SHAPE = shape_of(WIDGET)


def apply(live: Any, applied: Any, manager: str, now: str = "1", force: bool = True) -> Any:
    """An apply; checks that it changes neither of the objects."""
    before = copied([live, applied])
    result = server_side_apply(live, applied, manager, force, WIDGET, VERSION, now)
    assert [live, applied] == before
    return result


def update(live: Any, new: Any, manager: str, now: str = "1") -> Any:
    """An update to a new object."""
    new = copied(new)
    entries = track_update(live, new, manager, WIDGET, VERSION, now)
    return {**new, "metadata": {**new["metadata"], "managedFields": entries}}


def owned_by(obj: Any, manager: str) -> Any:
    """What a manager owns."""
    entries = [entry for entry in obj["metadata"]["managedFields"] if entry["manager"] == manager]
    total: Any = {}
    for entry in entries:
        total = union(total, entry["fieldsV1"])
    return total


def stated(obj: Any) -> Any:
    """What who applies an object owns."""
    return difference(applied_fields(SHAPE, obj), NEVER_OWNED)


@given(widgets, widgets)
def test_to_apply_again_changes_nothing_not_even_a_time(one: Any, other: Any) -> None:
    live = apply(apply(None, one, "a", "1"), other, "b", "2")
    assert apply(live, other, "b", "3") == live


@given(widgets)
def test_what_is_applied_first_is_the_object_and_is_owned(obj: Any) -> None:
    live = apply(None, obj, "a")
    assert live["spec"] == obj["spec"]
    assert owned_by(live, "a") == stated(obj)


@given(widgets, widgets)
def test_who_applies_owns_what_was_stated_and_nothing_else(live: Any, applied: Any) -> None:
    after = apply(update(None, live, "creator"), applied, "a")
    assert owned_by(after, "a") == stated(applied)
    assert intersection(owned_by(after, "creator"), stated(applied)) == intersection(
        owned_by(after, "creator"), owned_by(after, "a")
    )


@given(widgets, widgets)
def test_to_apply_less_removes_exactly_the_difference(whole: Any, less: Any) -> None:
    after = apply(apply(None, whole, "a"), less, "a")
    assert contents(after.get("spec") or {}) == contents(less["spec"])


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def contents(value: Any) -> Any:
    """A value without empty holders, which may stay, and without the order of items."""
    if isinstance(value, dict):
        kept = {key: contents(each) for key, each in value.items()}
        return {key: each for key, each in kept.items() if each not in ({}, [], None)}
    return sorted(map(contents, value), key=_text) if isinstance(value, list) else value


@given(widgets, widgets)
def test_giving_up_everything_leaves_what_others_own(mine: Any, foreign: Any) -> None:
    assume(foreign["spec"])
    live = apply(apply(None, foreign, "other"), mine, "a")
    nothing = {key: value for key, value in widget({}).items() if key != "spec"}
    after = apply(live, nothing, "a")
    assert owned_by(after, "a") == {}
    kept = owned_by(live, "other")
    assert owned_by(after, "other") == kept
    assert difference(kept, applied_fields(SHAPE, after)) == {}


@given(widgets, widgets)
def test_a_conflict_is_exactly_about_what_another_owns_and_has_otherwise(live: Any, applied: Any) -> None:
    owned = update(None, live, "creator")
    forced = apply(owned, applied, "a")
    lost = intersection(owned_by(owned, "creator"), compare(SHAPE, owned, forced).changed)
    if not lost:
        assert apply(owned, applied, "a", force=False) == forced
        return
    with pytest.raises(ApplyConflict) as refused:
        apply(owned, applied, "a", force=False)
    assert len(refused.value.causes) == len(list(paths(lost)))
    assert {cause.message for cause in refused.value.causes} == {f'conflict with "creator" using {VERSION}'}


@given(widgets, widgets, widgets)
def test_an_update_takes_what_it_changes_and_nothing_else(first: Any, second: Any, third: Any) -> None:
    live = update(update(None, first, "a", "1"), second, "b", "2")
    after = update(live, third, "c", "3")
    assert intersection(owned_by(after, "c"), owned_by(after, "a")) == {}
    assert intersection(owned_by(after, "c"), owned_by(after, "b")) == {}
    for name in "ab":
        assert difference(owned_by(after, name), owned_by(live, name)) == {}
    times = {entry["manager"]: entry["time"] for entry in after["metadata"]["managedFields"]}
    assert all(time == {"a": "1", "b": "2", "c": "3"}[name] for name, time in times.items())


@given(widgets, widgets)
def test_fields_that_are_reset_are_never_owned(first: Any, second: Any) -> None:
    reset = fields("spec")
    entries = track_update(None, copied(first), "a", WIDGET, VERSION, "1", reset=reset)
    assert entries == []
    live = server_side_apply(None, first, "a", False, WIDGET, VERSION, "1", reset=reset)
    after = server_side_apply(live, second, "b", False, WIDGET, VERSION, "1", reset=reset)
    assert after["metadata"]["managedFields"] == []


@pytest.mark.parametrize("cleared", [[], [{}]])
def test_a_client_may_clear_the_entries(cleared: Any) -> None:
    live = update(None, widget({"size": 1}), "a")
    new = {**live, "metadata": {**live["metadata"], "managedFields": cleared}, "spec": {"size": 2}}
    assert track_update(live, new, "b", WIDGET, VERSION, "2") == []
    assert track_update(live, new, "b", WIDGET, VERSION, "2", subresource="status") != []


def test_entries_that_make_no_sense_are_those_of_the_object() -> None:
    live = update(None, widget({"size": 1}), "a")
    for nonsense in ([{"manager": "x"}], [{"operation": "Update", "apiVersion": "v1", "fieldsType": "X"}], [1], 7):
        new = {**live, "metadata": {**live["metadata"], "managedFields": nonsense}}
        assert track_update(live, new, "b", WIDGET, VERSION, "2") == live["metadata"]["managedFields"]
