"""The life cycle of a pod on its node: the next status, and when to check again.

`advance` is a function of the pod in the API, the node and the time, so it continues where an earlier process has
stopped. Pods whose status was written by another kubelet are not changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kilauea.api.ports import Obj
from kilauea.api.times import SECOND
from kilauea.nodes.annotations import START_DELAY, annotations_of, missing_images, read_duration
from kilauea.nodes.containers import CREATING, INITIALIZING, KILLED, Run, waiting_entry
from kilauea.nodes.pod_status import (
    ENDED,
    FAILED,
    PENDING,
    RUNNING,
    SUCCEEDED,
    addresses,
    conditions_of,
    is_told_ready,
    is_told_refused,
    observed,
    phase_of,
)
from kilauea.nodes.program import JOB_RUN_TIME, program_of
from kilauea.nodes.references import Unmet, retry_of
from kilauea.nodes.resizing import RETRY, Refusal
from kilauea.nodes.timestamps import moment_of, second_text

DEADLINE = "DeadlineExceeded"
IMAGE_RETRY = 10 * SECOND
"""Microseconds until a node retries to pull an image."""
_NO_FAULTS: Mapping[str, str] = {}
_DEADLINE_WORDS = "Pod was active on the node longer than the specified deadline"


@dataclass(frozen=True, slots=True)
class Step:
    """The next step in the life of a pod.

    Attributes:
        status: the changed fields of its status; empty without changes.
        due: time of the next change, in microseconds since 1970; None if nothing changes by itself.
        rests: True if nothing else happens to the pod before that time, once it has this status.
    """

    status: Mapping[str, Any]
    due: int | None
    rests: bool = False


NOTHING = Step({}, None)


def started(pod: Obj) -> bool:
    """Return True if a node has started the pod."""
    return bool((pod.get("status") or {}).get("startTime"))


def active(pod: Obj) -> bool:
    """Return True if the pod has not ended."""
    return (pod.get("status") or {}).get("phase") not in ENDED


def advance(
    pod: Obj,
    node: Obj,
    now: int,
    start_delay: int,
    run_time: int = JOB_RUN_TIME,
    refusal: Refusal | None = None,
    unmet: Unmet | None = None,
) -> Step:
    """The next step of a pod that is bound to a node and not being deleted.

    Args:
        pod: the pod in the API.
        node: its node.
        now: microseconds since 1970.
        start_delay: microseconds for creating containers, unless the pod sets another time.
        run_time: microseconds for commands of unknown run time; 0 for no end.
        refusal: the reason why containers do not get their desired resources; None if they do.
        unmet: missing objects that are required to create containers; None if none is missing.
    """
    life = _Life.of(pod, run_time, refusal)
    if life is None:
        return NOTHING
    delay = read_duration(annotations_of(pod).get(START_DELAY))
    delay = start_delay if delay is None else delay
    begin = min(life.start_time or bound_at(pod) or now, now) + delay
    deadline = life.deadline(now)
    if deadline is not None and deadline <= now:
        life.fail(now)
        return Step(life.status(now, node), None)
    if begin > now:
        silent = started(pod) or delay < SECOND  # a short delay is not worth a write
        return Step({} if silent else life.status(now, node), _earliest(begin, deadline))
    if unmet is not None and unmet.volumes:
        return Step(life.status(now, node), _earliest(now + retry_of(pod, now), deadline))
    life.run_until(now, missing_images(node), unmet.containers if unmet is not None else _NO_FAULTS)
    if refusal is None:
        life.resize(now)
    # Times that count from the start are known only once the start is written.
    rests = life.phase == RUNNING and deadline is None and not delay and refusal is None
    again = now + RETRY if refusal is not None else None
    return Step(life.status(now, node), _earliest(deadline, again, *life.due_times(now)), rests)


def bound_at(pod: Obj) -> int | None:
    """The time at which the pod was bound to its node."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    found = next((each for each in conditions if each.get("type") == "PodScheduled"), None)
    return moment_of(found.get("lastTransitionTime")) if found and found.get("status") == "True" else None


def killed(pod: Obj, node: Obj, now: int, code: int, run_time: int = JOB_RUN_TIME) -> Mapping[str, Any]:
    """The last status of a pod whose containers are ended because it is deleted; empty if another kubelet runs it.

    Args:
        pod: the pod.
        node: its node.
        now: microseconds since 1970.
        code: exit code of containers whose run time is not over.
        run_time: microseconds for commands of unknown run time; 0 for no end.
    """
    life = _Life.of(pod, run_time)
    if life is None:
        return {}
    life.kill(now, code)
    if all(run.state.get("terminated", {}).get("exitCode") == 0 for run in life.mains):
        life.phase = SUCCEEDED
    return life.status(now, node)


def runs_of(pod: Obj, run_time: int = JOB_RUN_TIME) -> tuple[list[Run], list[Run]]:
    """The init containers and the others of a pod, each with its status."""
    spec, status = pod["spec"], pod.get("status") or {}
    before = {each.get("name"): each for each in status.get("initContainerStatuses") or ()}
    inits = [_init_run(pod, each, before) for each in spec.get("initContainers") or ()]
    before = {each.get("name"): each for each in status.get("containerStatuses") or ()}
    reason = INITIALIZING if inits else CREATING
    policy, uid = spec.get("restartPolicy", "Always"), pod["metadata"].get("uid", "")
    mains = [
        Run(
            each,
            program_of(pod, each, default=run_time),
            before.get(each["name"]) or waiting_entry(each, reason),
            each.get("restartPolicy") or policy,
            pod_uid=uid,
        )
        for each in spec["containers"]
    ]
    return inits, mains


def extra_runs(pod: Obj, run_time: int = JOB_RUN_TIME) -> list[Run]:
    """The ephemeral containers of a pod, such as those of `kubectl debug`; they are not restarted."""
    extras = pod["spec"].get("ephemeralContainers")
    if not extras:
        return []
    uid = pod["metadata"].get("uid", "")
    before = {each.get("name"): each for each in (pod.get("status") or {}).get("ephemeralContainerStatuses") or ()}
    return [
        Run(
            each,
            program_of(pod, each, default=run_time),
            before.get(each["name"]) or waiting_entry(each, CREATING),
            "Never",
            pod_uid=uid,
        )
        for each in extras
    ]


def _init_run(pod: Obj, container: Obj, before: Mapping[str, Obj]) -> Run:
    entry = before.get(container["name"]) or waiting_entry(container, INITIALIZING)
    uid = pod["metadata"].get("uid", "")
    if container.get("restartPolicy") == "Always":
        program = program_of(pod, container)
        return Run(container, program, entry, "Always", "sidecar", uid)
    policy = "Never" if pod["spec"].get("restartPolicy") == "Never" else "OnFailure"
    own = container.get("restartPolicy") or policy
    return Run(container, program_of(pod, container, init=True), entry, own, "init", uid)


def _earliest(*moments: int | None) -> int | None:
    return min((each for each in moments if each is not None), default=None)


class _Life:
    """A pod and its containers while a step is computed."""

    def __init__(self, pod: Obj, run_time: int = JOB_RUN_TIME, refusal: Refusal | None = None) -> None:
        self.pod = pod
        self._refusal = refusal
        self.before: Obj = pod.get("status") or {}
        self.phase: str = self.before.get("phase") or PENDING
        self.start_time = moment_of(self.before.get("startTime"))
        self.inits, self.mains = runs_of(pod, run_time)
        self.extras = extra_runs(pod, run_time)
        self._entries = [run.entry for run in self._all()]
        self._why: dict[str, str] = {}

    @classmethod
    def of(cls, pod: Obj, run_time: int = JOB_RUN_TIME, refusal: Refusal | None = None) -> _Life | None:
        """The life of a pod; None if it has ended, or if another kubelet runs it."""
        status: Obj = pod.get("status") or {}
        phase = status.get("phase") or PENDING
        if phase not in (PENDING, RUNNING) or (phase == RUNNING and not status.get("containerStatuses")):
            return None
        life = cls(pod, run_time, refusal)
        return life if phase == phase_of(life.inits, life.mains) else None

    def _all(self) -> Iterator[Run]:
        yield from self.inits
        yield from self.mains
        yield from self.extras

    def _at_work(self) -> Iterator[Run]:
        """Yield the containers that do not wait for an init container."""
        yield from self.extras
        for run in self.inits:
            yield run
            if run.role == "init" and run.exit_code != 0:
                return
        yield from self.mains

    def deadline(self, now: int) -> int | None:
        """Return the time by which the pod must have ended."""
        seconds = self.pod["spec"].get("activeDeadlineSeconds")
        return None if seconds is None else (self.start_time or now) + seconds * SECOND

    def run_until(self, now: int, missing: Collection[str], faults: Mapping[str, str]) -> None:
        """Carry out all due changes, but at most one change of phase.

        Args:
            now: microseconds since 1970.
            missing: images that cannot be pulled.
            faults: reasons why containers cannot be created, by name.
        """
        while self._pass(now, missing, faults):
            phase = phase_of(self.inits, self.mains)
            if phase != self.phase:
                self.phase = phase
                break
        if self.phase in ENDED:
            self._end_others(now)

    def _pass(self, now: int, missing: Collection[str], faults: Mapping[str, str]) -> bool:
        """Process all containers once; returns True if anything changed."""
        concerned = (*self.inits, *self.mains)
        if any(run.restarts_all for run in concerned):
            for run in concerned:
                run.reset(now)
            return True
        happened = False
        for run in self.extras:
            happened |= self._start_or_step(run, now, missing, faults)
        for run in self.inits:
            happened |= self._start_or_step(run, now, missing, faults)
            if run.role == "init" and run.exit_code != 0:
                return happened
        for run in self.mains:
            happened |= self._start_or_step(run, now, missing, faults)
        return happened

    @staticmethod
    def _start_or_step(run: Run, now: int, missing: Collection[str], faults: Mapping[str, str]) -> bool:
        if run.fresh:
            if run.container.get("image") in missing:
                return run.wait_for_image()
            if run.container["name"] in faults:
                return run.wait_for_config(faults[run.container["name"]])
            run.start(now)
            return True
        # An init container that has ended is not run again.
        if run.is_of_other_image and run.role != "init" and run.container.get("image") not in missing:
            run.change_image(now)
            return True
        return run.step(now)

    def resize(self, now: int) -> None:
        """Give the containers their desired resources."""
        if self.phase not in ENDED:
            for run in (*self.inits, *self.mains):
                run.resize(now)

    def _end_others(self, now: int) -> None:
        """End containers that run only as long as others."""
        for run in self.inits:
            if run.role == "sidecar" and run.running:
                run.end(now, 0, "Completed")
        for run in self.extras:
            if run.running:
                run.end(now, KILLED, "Error")

    def fail(self, now: int) -> None:
        """End the pod at its deadline."""
        self.kill(now, KILLED)
        self._why = {"reason": DEADLINE, "message": _DEADLINE_WORDS}

    def kill(self, now: int, code: int) -> None:
        """End all running containers, each with its own code if its time was over; the pod has failed."""
        for run in self._all():
            if run.running and run.is_over(now):
                run.end(now, run.program.exit_code, run.program.reason)
            elif run.running:
                run.end(now, code, "Error")
        self.phase = FAILED

    def due_times(self, now: int) -> Iterator[int | None]:
        """Yield the time of the next change of each container; missing objects are checked again periodically."""
        if self.phase in ENDED:
            return
        for run in self._at_work():
            if run.fresh and (run.lacks_image or run.lacks_config):
                yield now + (IMAGE_RETRY if run.lacks_image else retry_of(self.pod, now))
            else:
                yield run.due()

    def status(self, now: int, node: Obj) -> dict[str, Any]:
        """The changed fields of the status."""
        if started(self.pod) and self._is_as_before():
            return {}
        text = second_text(now)
        refusal = None if self.phase in ENDED else self._refusal
        conditions = conditions_of(self.pod, self.phase, self.inits, self.mains, text, refusal)
        status = {**observed(self.pod), "phase": self.phase, **self._why, "conditions": conditions}
        if not started(self.pod):
            status |= {"startTime": text}
        if not self.before.get("podIP"):
            status |= addresses(self.pod, node)
        status["containerStatuses"] = [run.entry for run in self.mains]
        if self.inits:
            status["initContainerStatuses"] = [run.entry for run in self.inits]
        if self.extras:
            status["ephemeralContainerStatuses"] = [run.entry for run in self.extras]
        return status

    def _is_as_before(self) -> bool:
        seen = self.before.get("observedGeneration")
        if seen is not None and seen != self.pod["metadata"].get("generation"):
            return False
        if self.pod["spec"].get("readinessGates") and not is_told_ready(self.pod):
            return False
        if not is_told_refused(self.pod, self._refusal):
            return False
        same = all(run.entry is entry for run, entry in zip(self._all(), self._entries, strict=True))
        return same and self.phase == (self.before.get("phase") or PENDING)
