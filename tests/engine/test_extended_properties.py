"""Extended resources that devices serve: what is decided follows from the objects seen last, whatever came before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.test_extended_resources import GPU, special, user
from kilauea.api.errors import object_label
from kilauea.api.meta import Object
from kilauea.engine.events import Changed, Gone
from kilauea.engine.plan import Plan
from support.builders import binds, group, node, pending, plan_in, state_of
from support.device_objects import (
    DEVICES,
    claim,
    device,
    device_class,
    devices_held,
    slice_,
    special_claim,
)
from support.device_objects import (
    given as given_by,
)

NIC = "example.com/nic"
VERSIONS: list[list[Object]] = [
    [node("n1"), node("n1", resources={GPU: 1})],
    [node("n2"), node("n2", resources={GPU: 2})],
    [device_class(extendedResourceName=GPU), device_class(), device_class("gpu", "true", extendedResourceName=NIC)],
    [device_class("other", extendedResourceName=GPU, created=9)],
    [slice_("n1", "a", "b"), slice_("n1", "a", device("shared", allowMultipleAllocations=True))],
    [slice_("", "x")],
    [slice_("n2", "c", "d")],
    [user("p"), user("p", 2), user("p", uid="other"), user("p", node="n1"), user("p", resource=NIC)],
    [user("q"), user("q", 2), user("q", node="n1", deleting=True)],
    [special_claim("p"), special_claim("p", "n1/a", node="n1"), special_claim("p", "n1/a", node="n1", uid="other")],
    [special_claim("p", "n2/c", node="n2", name=special("p")), claim(special("p"), held=["n2/d"], node="n2", by=["z"])],
    [special_claim("q", "n1/a", "n1/b", node="n1"), special_claim("q", count=2)],
]
"""The versions of each of some objects; of the last three, claims, there is none at first."""
EVENTS = st.tuples(st.integers(0, len(VERSIONS) - 1) | st.integers(len(VERSIONS) - 5, len(VERSIONS) - 1),
                   st.integers(-1, 4), st.booleans())  # fmt: skip
"""An object, its version (it goes if there is none), and True if a cycle follows."""


def outcome(plan: Plan) -> object:
    waiting = {name: each.message for name, each in pending(plan).items()}
    return binds(plan), given_by(plan), waiting, sorted(each.claim for each in plan.released)


@pytest.mark.slow
@given(st.lists(EVENTS, max_size=20))
def test_what_is_decided_follows_from_the_objects_seen_last(events: list[tuple[int, int, bool]]) -> None:
    last = {number: versions[0] for number, versions in enumerate(VERSIONS[:-3])}
    state = state_of(group(minimum=1), list(last.values()))
    for number, version, decides in events:
        versions = VERSIONS[number]
        if 0 <= version < len(versions):
            last[number] = versions[version]
            state.apply(Changed(versions[version]))
        else:
            last.pop(number, None)
            state.apply(Gone(versions[0].kind, object_label(versions[0])))
        if decides:
            plan_in(state, DEVICES)
    found, fresh = plan_in(state, DEVICES), state_of(group(minimum=1), [last[number] for number in sorted(last)])
    assert outcome(found) == outcome(plan_in(fresh, DEVICES))
    assert state.nodes.total() == fresh.nodes.total()
    held = [each[1:] for each in devices_held(list(last.values()))]
    new = [tuple(each.partition("=")[2].split("/")) for devices in given_by(found).values() for each in devices]
    alone = [each for each in new if each != ("n1", "shared")]
    assert len(alone) == len(set(alone))
    assert not set(alone) & set(held)
