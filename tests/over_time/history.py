"""Histories of clusters: cycle after cycle, with what happens between them, and a time at the end to come to rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec
import yaml

from kilauea.api.core import Namespace
from kilauea.api.defaults import fill_in
from kilauea.api.meta import Object, ObjectMeta
from kilauea.api.times import format_time, parse_time
from kilauea.engine.conf import SchedulerConf
from kilauea.engine.cycle import cycle
from kilauea.engine.plan import Plan
from kilauea.simulator.cluster import SimulatedCluster
from kilauea.simulator.scenario import build_state
from support.builders import Data, parsed

START = parse_time("2026-01-01T12:00:00Z")
CLOCK = "clock"
"""Name of a namespace that was made when the first of some objects' cycles happens: `plan` reads the time from it."""
LONGEST = 40
"""Cycles within which a small cluster has to come to rest, beyond its grace periods."""


@dataclass(frozen=True)
class Moment:
    """A cycle: when it was, what it saw, and what it decided."""

    now: int
    objects: Sequence[Object]
    plan: Plan


@dataclass(frozen=True)
class Change:
    """What happens between two cycles: objects that come or change, and those that go (kind and key)."""

    come: tuple[Object, ...] = ()
    go: tuple[tuple[str, str], ...] = ()
    restart: bool = False
    """The scheduler is restarted: its state is built from the objects."""


@dataclass
class History:
    """What happened to a cluster.

    Attributes:
        conf: the scheduler configuration, as its file has it.
        moments: all cycles.
        calm: the number of the first cycle after which only the scheduler changed anything.
        at_rest: whether the last cycle changed nothing and no pod was about to go.
        restarts: numbers of cycles in which a restarted scheduler decided something else.
    """

    conf: Data
    moments: list[Moment] = field(default_factory=list)
    calm: int = 0
    at_rest: bool = False
    restarts: list[int] = field(default_factory=list)

    @property
    def quiet(self) -> list[Moment]:
        """The cycles after the last disturbance."""
        return self.moments[self.calm :]


@lru_cache(maxsize=64)
def _usable(text: str) -> SchedulerConf:
    return parsed(yaml.safe_load(text))[0]


def usable(conf: Data) -> SchedulerConf:
    """The configuration as the engine has it."""
    return _usable(msgspec.json.encode(conf).decode())


def play(
    conf: Data,
    objects: Sequence[Object],
    changes: Sequence[Change] = (),
    *,
    now: int = START,
    longest: int = LONGEST,
) -> History:
    """Let a cluster live: one cycle before each of the changes, then cycles until it comes to rest.

    The state follows events all the way, as the live scheduler's does; only a restart builds it again.
    """
    usable_conf = usable(conf)
    history = History(conf)
    cluster = SimulatedCluster(objects, now)
    state = build_state(cluster.objects)

    def live() -> bool:
        plan = cycle(state, usable_conf, cluster.now)
        history.moments.append(Moment(cluster.now, cluster.objects, plan))
        events = cluster.carry_out(plan)
        for event in events:
            state.apply(event)
        return bool(events) or not cluster.settled

    for change in changes:
        live()
        events = cluster.put(*change.come)
        for kind, key in change.go:
            events += cluster.remove(kind, key)
        for event in events:
            state.apply(event)
        if change.restart:
            before = cycle(state, usable_conf, cluster.now)
            state = build_state(cluster.objects)
            if cycle(state, usable_conf, cluster.now) != before:
                history.restarts.append(len(history.moments))
    history.calm = len(history.moments)
    for _ in range(longest):
        if not live():
            history.at_rest = True
            break
    return history


def complete(objects: Sequence[Object]) -> list[Object]:
    """Objects as an API server has them."""
    out = list(objects)
    fill_in(out)
    return out


# --- files


def as_file(moment: Moment) -> str:
    """A YAML file of the objects that a cycle saw, from which `kilauea plan --cycles` continues as the history did."""
    clock = Namespace("v1", "Namespace", ObjectMeta(name=CLOCK, creation_timestamp=format_time(moment.now)))
    listed = [clock, *(obj for obj in moment.objects if (obj.kind, obj.name) != ("Namespace", CLOCK))]
    listed.sort(key=lambda obj: (obj.kind in ("Pod", "PodGroup"), obj.kind == "Pod"))
    return yaml.safe_dump_all([manifest_of(obj) for obj in listed], sort_keys=False)


VERSIONS = {
    "Queue": "scheduling.volcano.sh/v1beta1",
    "PodGroup": "scheduling.volcano.sh/v1beta1",
    "PriorityClass": "scheduling.k8s.io/v1",
    "HyperNode": "topology.volcano.sh/v1alpha1",
}


def manifest_of(obj: Object) -> Any:
    """The manifest of an object, as users write it."""
    data = msgspec.to_builtins(obj)
    return {"apiVersion": VERSIONS.get(obj.kind, "v1"), **{k: v for k, v in data.items() if k != "apiVersion"}}
