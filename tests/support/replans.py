"""What the live scheduler decides is what a plan says on a dump of the same objects.

The dump holds the objects as the scheduler knows them: as the watches have shown them, with what it has decided and
not seen yet itself. It is written as JSON, read as `kilauea plan` reads files, and planned from nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from kilauea.api.decode import decode
from kilauea.api.defaults import fill_in
from kilauea.api.errors import object_label
from kilauea.api.meta import Object
from kilauea.api.validate import check
from kilauea.engine.conf import SchedulerConf
from kilauea.engine.events import Advanced, Changed, Event, Gone, Listed, Relisted
from kilauea.engine.model.attempts import AdmissionBackoff
from kilauea.engine.plan import Plan
from kilauea.engine.state import ClusterState
from kilauea.simulator.scenario import Scenario


@dataclass(frozen=True)
class Given:
    """What a cycle goes by besides the objects.

    Attributes:
        names: of the schedulers that are served.
        conf: the configuration.
        now: the time.
        backoff: what the cycle before remembers.
    """

    names: Sequence[str]
    conf: SchedulerConf
    now: int
    backoff: AdmissionBackoff


class Replans:
    """Keeps the objects that a scheduler's state is made of.

    Args:
        broken: takes what differs.
        idle: of cycles in which nothing is decided, one in so many is compared.
    """

    def __init__(self, broken: list[str], idle: int = 10) -> None:
        self.broken = broken
        self._idle = idle
        self.compared = 0
        self._cycles = 0
        self._objects: dict[tuple[str, str], Object] = {}

    def follow(self, state: ClusterState) -> None:
        """From now on, a state of a process that knows nothing yet."""
        self._objects = {}
        take = state.apply

        def apply(event: Event) -> None:
            self._note(event)
            take(event)

        state.apply = apply  # type: ignore[method-assign]

    def _note(self, event: Event) -> None:
        match event:
            case Changed(obj) | Advanced(obj):
                self._keep(obj)
            case Listed(obj):
                self._objects.pop((obj.kind, object_label(obj)), None)
                self._keep(obj)
            case Gone(kind, key):
                self._objects.pop((kind, key), None)
            case Relisted(kind, objects):
                for place in [place for place in self._objects if place[0] == kind]:
                    del self._objects[place]
                for obj in objects:
                    self._keep(obj)

    def _keep(self, obj: Object) -> None:
        place = (obj.kind, object_label(obj))
        known = self._objects.get(place)
        if known is None or _version(known) <= _version(obj):
            self._objects[place] = obj

    def look(self, given: Given, plan: Plan) -> bool:
        """Compare a plan that was made and is about to be carried out; whether it was compared."""
        self._cycles += 1
        if not (decides(plan) or self._cycles % self._idle == 0):
            return False
        self.compared += 1
        self.broken += differences(given, plan, self.dumped())
        return True

    def dumped(self) -> list[Object]:
        """The objects, written and read."""
        out: list[Object] = []
        for obj in self._objects.values():
            read = decode(msgspec.json.encode(obj), "dump")
            assert not read.errors, read.errors
            out += [each for each in read.objects if not check(each)]
        fill_in(out)
        return out


def decides(plan: Plan) -> bool:
    """Whether a plan changes anything for a pod."""
    return bool(plan.binds or plan.evictions or plan.nominations)


def differences(given: Given, plan: Plan, objects: Iterable[Object]) -> Iterator[str]:
    """Where the plan of a live scheduler differs from one made of a dump."""
    scenario = Scenario(list(objects), given.conf, given.now, schedulers=given.names)
    again = scenario.decide(scenario.state(), backoff=given.backoff)
    for what in ("binds", "evictions", "nominations"):
        live, planned = getattr(plan, what), getattr(again, what)
        if live != planned:
            yield f"{given.now}: {what}: the live scheduler decides {live}, a plan {planned}"


def _version(obj: Any) -> int:
    version = obj.metadata.resource_version or ""
    return int(version) if version.isdigit() else 0
