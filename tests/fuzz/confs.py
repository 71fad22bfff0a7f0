"""Scheduler configurations for the fuzz tests: all plugins and actions, with arguments beyond reason."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

from hypothesis import strategies as st

from fuzz.world import ODD, TEXT, Data, spoil
from kilauea.engine.actions import ACTIONS
from kilauea.engine.conf import FLAG_NAMES, QUEUE_PLUGINS
from kilauea.engine.plugins import PLUGINS


def keys_of(owner: Any) -> list[str]:
    """Keys of the arguments of a plugin or an action; of a family of keys, two of its members."""
    out = []
    for field in dataclasses.fields(owner.Arguments):
        key = field.metadata["key"]
        family = field.default_factory is not dataclasses.MISSING
        out += [f"{key}nvidia.com/gpu", f"{key}cpu"] if family else [key]
    return out


KEYS = {name: keys_of(owner) for owners in (PLUGINS, ACTIONS) for name, owner in owners.items()}
NUMBERS = (
    float("nan"),
    float("inf"),
    float("-inf"),
    1e308,
    -1e308,
    5e-324,
    10**400,
    -(10**400),
    2**31,
    2**63,
    -1,
    0,
    1,
    3,
)
RESOURCES = ("nvidia.com/gpu", "nvidia.com/gpu, cpu", "cpu,,memory,", "none.such/x")
VALUES = st.sampled_from(NUMBERS) | st.sampled_from((*ODD, *RESOURCES)) | st.booleans() | st.integers(-3, 100) | TEXT


@st.composite
def arguments(draw: st.DrawFn, name: str) -> Data:
    """Arguments of a plugin or an action, now and then one that it does not have."""
    out: Data = draw(st.dictionaries(st.sampled_from(KEYS[name]), VALUES, max_size=4)) if KEYS[name] else {}
    return out | (draw(st.dictionaries(TEXT, VALUES, max_size=2)) if draw(st.integers(0, 9)) == 9 else {})


@st.composite
def plugins(draw: st.DrawFn, name: str) -> Data:
    """A plugin in a tier."""
    out: Data = {"name": name}
    if draw(st.integers(0, 3)) == 3:
        out |= draw(st.dictionaries(st.sampled_from(FLAG_NAMES), st.booleans(), max_size=3))
    given = draw(arguments(name))
    return out | ({"arguments": given} if given else {})


@st.composite
def sound(draw: st.DrawFn) -> Data:
    """A configuration of the right form; what its arguments say is another matter."""
    actions = draw(st.lists(st.sampled_from(sorted(ACTIONS)), min_size=1, max_size=5))
    names = draw(st.lists(st.sampled_from(sorted(PLUGINS)), unique=True, max_size=len(PLUGINS)))
    tiers: list[Data] = [{"plugins": []} for _ in range(draw(st.integers(1, 3)))]
    for name in names:
        tiers[draw(st.integers(0, len(tiers) - 1))]["plugins"].append(draw(plugins(name)))
    out: Data = {"actions": ", ".join(actions), "tiers": tiers}
    if draw(st.booleans()):
        of = draw(st.lists(st.sampled_from(sorted(ACTIONS)), max_size=3))
        out["configurations"] = [{"name": name, "arguments": draw(arguments(name))} for name in of]
    return out


@st.composite
def spoiled(draw: st.DrawFn) -> Any:
    """A configuration with some parts spoiled, or something that is not a configuration."""
    how = draw(st.integers(0, 19))
    if how == 19:
        return copy.deepcopy(draw(VALUES))
    document = [copy.deepcopy(draw(sound()))]
    if how == 18:
        document[0]["tiers"] = document[0]["tiers"] * draw(st.sampled_from((2, 20)))
    for _ in range(draw(st.integers(0, 3))):
        spoil(draw, document, 0)
    return document[0]


def everything(queues: str = "proportion") -> Data:
    """All actions and all plugins at once, with the plugin of this name for the queues."""
    left_out = {*QUEUE_PLUGINS} - {queues}
    first = ["priority", "gang", "conformance", "sla", "pdb"]
    rest = [name for name in PLUGINS if name not in first and name not in left_out]
    tiers = [{"plugins": [{"name": name} for name in names if name in PLUGINS]} for names in (first, rest)]
    return {"actions": ", ".join(["enqueue", "allocate", *(set_of_actions()), "backfill"]), "tiers": tiers}


def set_of_actions() -> list[str]:
    """Actions beside the three that every configuration has."""
    return sorted(set(ACTIONS) - {"enqueue", "allocate", "backfill"})
