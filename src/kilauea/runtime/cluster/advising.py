"""Events with the smallest change that would let a waiting job start, as in `kilauea explain`.

    advisor = Advisor(client, cache, clock, record, words)    # declares what it wants to see
    await advisor.run()

Conditions give the reason why a group waits. Finding a change that helps takes many trial cycles, so it runs in a
thread beside the scheduler, once the cluster is at rest, for small clusters and a few groups at a time. The events are
about the group, the job that owns it, and its pods.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import monotonic
from typing import NamedTuple

from kilauea.api.kinds import POD_GROUPS, PODS, VC_JOBS
from kilauea.api.meta import Object
from kilauea.api.ports import Api, ApiError, Clock, Key, Obj, Record, key_of
from kilauea.api.times import SECOND
from kilauea.api.unserved import NO_SCHEDULER
from kilauea.api.wellknown import GROUP_NAME
from kilauea.client.view import Cache
from kilauea.controllers.finished import OVER
from kilauea.controllers.objects import annotations_of, controller_of, is_going, spec_of, status_of, uid_of
from kilauea.controllers.vcjobs.refusals import PODS_NOT_CREATED
from kilauea.engine.conf import ConfError
from kilauea.engine.explain.group import Explanation
from kilauea.runtime.inputs.explaining import Explainer
from kilauea.runtime.inputs.extensions import ExtensionError
from kilauea.runtime.inputs.files import SourceError
from kilauea.runtime.inputs.snapshot import Snapshot, read_snapshot

COMPONENT = "kilauea-advisor"
REASON = "SmallestChange"
AGAINST = ("Unschedulable", NO_SCHEDULER, PODS_NOT_CREATED)
"""Conditions of waiting groups."""
FOLLOWED = (POD_GROUPS, PODS, VC_JOBS)
SETTLE_SECONDS = 0.5
"""Seconds for which groups must be unchanged."""
PAUSE_SECONDS = 0.5
"""Shortest time between two rounds, in seconds."""
MOST_OBJECTS, MOST_GROUPS, MOST_PODS = 2000, 20, 20
"""Maximum number of objects of the cluster and of pods that its jobs want, groups in a round, and pods of a group that
get events."""
ROUND_SECONDS = 3.0
"""Seconds after which a round ends."""

Words = Callable[[Explanation, Sequence[Object]], str]
"""Returns the change of an explanation as a sentence, given the objects of the cluster; empty for none."""
log = logging.getLogger(__name__)


class _Advice(NamedTuple):
    """The advice for a group."""

    group: Key
    text: str


class Advisor:
    """Records advice for groups that wait.

    Args:
        api: the cluster.
        cache: groups, jobs and pods; the caller runs it.
        clock: for pauses and times.
        record: receives events, with the name of the component.
        words: returns a change as a sentence.
    """

    def __init__(
        self, api: Api, cache: Cache, clock: Clock, record: Callable[[str, Record], None], words: Words
    ) -> None:
        self._api, self._cache, self._clock, self._record, self._words = api, cache, clock, record, words
        self._changed = asyncio.Event()
        self._last_change = 0
        self._told: dict[str, str] = {}
        for resource in FOLLOWED:
            cache.declare(resource, (), {})
        cache.declare(POD_GROUPS, (), {}).listeners.append(self._notice)

    def _notice(self, old: Obj | None, new: Obj | None) -> None:
        self._last_change = self._clock.monotonic()
        self._changed.set()

    async def run(self) -> None:
        """Run a round whenever groups have changed and then been unchanged for a while, until cancelled."""
        await self._cache.complete()
        while True:
            await self._changed.wait()
            self._changed.clear()
            while (rest := self._clock.monotonic() - self._last_change) < SETTLE_SECONDS * SECOND:
                await self._clock.sleep(SETTLE_SECONDS - rest / SECOND)
            await self.look()
            await self._clock.sleep(PAUSE_SECONDS)

    async def look(self) -> None:
        """Find advice for waiting groups, and record new advice."""
        if sum(map(self._cache.count, FOLLOWED)) > MOST_OBJECTS:  # large objects are not even decoded
            return
        if sum(map(_wanted, self._cache.list(VC_JOBS))) > MOST_OBJECTS:  # a plan would create all of them
            return
        waiting = [group for group in self._cache.list(POD_GROUPS) if _waits(group)]
        if not waiting:
            self._told.clear()
            return
        try:
            found = await read_snapshot(self._api)
            if len(found.objects) > MOST_OBJECTS:
                return
            keys = [key_of(group) for group in sorted(waiting, key=self._turn)]
            advice = await asyncio.to_thread(self._advice, found, keys[:MOST_GROUPS])
        except (ApiError, ConfError, ExtensionError, SourceError) as error:
            log.debug("no advice: %s", error)
            return
        present = {uid_of(group): group for group in waiting}
        self._told = {uid: text for uid, text in self._told.items() if uid in present}
        for each in advice:
            self._tell(each)

    def _turn(self, group: Obj) -> tuple[bool, str, Key]:
        """Sort key: groups without advice come first, then those with the oldest."""
        return uid_of(group) in self._told, str(group["metadata"].get("creationTimestamp")), key_of(group)

    def _advice(self, found: Snapshot, keys: Sequence[Key]) -> list[_Advice]:
        explainer, end = Explainer(found, self._clock.now()), monotonic() + ROUND_SECONDS
        out = []
        for key in keys:
            if str(key) in explainer.result.state.jobs:
                text = self._words(explainer.group(str(key)), explainer.result.objects)
                out += [_Advice(key, text)] if text else []
            if monotonic() > end:
                break
        return out

    def _tell(self, advice: _Advice) -> None:
        group = self._cache.get(POD_GROUPS, advice.group)
        if group is None or is_going(group) or self._told.get(uid_of(group)) == advice.text:
            return
        self._told[uid_of(group)] = advice.text
        for about in self._concerned(group):
            self._record(COMPONENT, Record(about, "Normal", REASON, advice.text))

    def _concerned(self, group: Obj) -> Iterator[Obj]:
        """The group, the job that owns it, and its waiting pods."""
        yield group
        key, owner = key_of(group), controller_of(group)
        if owner is not None and (owner["apiVersion"], owner["kind"]) == (VC_JOBS.api_version, VC_JOBS.kind):
            job = self._cache.get(VC_JOBS, Key(key.namespace, owner["name"]))
            yield from [job] if job is not None else ()
        pods = (pod for pod in self._cache.list(PODS, key.namespace) if annotations_of(pod).get(GROUP_NAME) == key.name)
        waiting = [pod for pod in pods if not pod["spec"].get("nodeName")]
        yield from waiting[:MOST_PODS]


def _wanted(job: Obj) -> int:
    """The desired number of pods of a Volcano job; 0 for a finished one."""
    if (status_of(job).get("state") or {}).get("phase") in OVER:
        return 0
    return sum(task.get("replicas", 1) for task in spec_of(job).get("tasks") or ())


def _waits(group: Obj) -> bool:
    """Return True if a condition of a group keeps it from running."""
    conditions: Sequence[Mapping[str, str]] = status_of(group).get("conditions") or ()
    return not is_going(group) and any(c.get("type") in AGAINST and c.get("status") == "True" for c in conditions)
