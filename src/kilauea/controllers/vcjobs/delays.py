"""Delayed actions: they are recorded on the job itself, so that they survive a restart of the controller.

Actions for pods that are pending for too long need no record, as their age is observable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from kilauea.api.kinds import VC_JOBS
from kilauea.api.ports import Patch
from kilauea.controllers.objects import annotations_of
from kilauea.controllers.vcjobs.work import Work

NOTE = "kilauea.dev/delayed-actions"
"""Annotation of a job."""
MOST = 200
"""Maximum number of records on a job; of more, those due first are kept."""


class Delayed(NamedTuple):
    """A delayed action.

    Attributes:
        pod: the name of the pod that is the reason; empty if it is the group.
        uid: its UID; empty if it had vanished.
        task: name of its task; empty for the group.
        event: the event.
        action: the action.
        due: its time, in microseconds since 1970.
        version: version of the job when it was recorded.
        timeout: its delay, in microseconds; 0 if not recorded.
    """

    pod: str
    uid: str
    task: str
    event: str
    action: str
    due: int
    version: int
    timeout: int = 0

    def at(self, now: int) -> Delayed:
        """The same, due at the latest after its whole delay: a clock that was set back must not extend it."""
        return self._replace(due=min(self.due, now + self.timeout)) if self.timeout else self


_decode = msgspec.json.Decoder(list[Delayed]).decode


def delayed_actions(work: Work, now: int) -> dict[str, Delayed]:
    """Delayed actions by pod, without invalid ones and those from before all pods were killed."""
    text = annotations_of(work.obj).get(NOTE)
    if not text:
        return {}
    try:
        return {each.pod: each.at(now) for each in _decode(text) if each.version == work.version}
    except msgspec.DecodeError:
        return {}


def note(work: Work, waiting: Iterable[Delayed]) -> list[Patch]:
    """The patch that records delayed actions on the job, if they differ."""
    kept = sorted(waiting, key=lambda each: (each.due, each.pod))[:MOST]
    text = msgspec.json.encode(kept).decode() if kept else None
    if text == annotations_of(work.obj).get(NOTE):
        return []
    metadata: Mapping[str, Any] = {"annotations": {NOTE: text}, "uid": work.uid}
    return [Patch(VC_JOBS, work.key, {"metadata": metadata})]
