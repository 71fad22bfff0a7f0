"""The containers of a pod: their entries in its status, and which of them to start next.

Everything here is pure. An entry is replaced, never changed; the worker reports the state of containers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from kilauea.api.ports import Obj
from kilauea.api.restarts import REMOVED, RESTART_ALL, RESTARTING_ALL, action_after, is_restarted
from kilauea.api.times import SECOND
from kilauea.kubelet.container_runtime import ContainerState
from kilauea.kubelet.names import PROCESSES, container_id, status_id
from kilauea.nodes.containers import (
    BACK_OFF,
    CREATING,
    INITIALIZING,
    KILLED,
    Role,
    back_off,
    waiting_entry,
)
from kilauea.nodes.resizing import granted
from kilauea.nodes.timestamps import moment_of, second_text

UNKNOWN = "ContainerStatusUnknown"
_LOST = "The container could not be located when the pod was terminated"
_START_ERROR = 128
FIRST_RETRY, LONGEST_RETRY = 10, 300
"""Seconds until another attempt to start a container, doubled each time, and the maximum."""


@dataclass(slots=True)
class Member:
    """A container of a pod.

    Attributes:
        spec: its specification.
        role: `main`; `init` for one that ends before the main ones start; `sidecar` for an init container that runs
            beside them; `ephemeral` for one that was added to look into the pod, and runs once.
        restart: its restart policy: Always, OnFailure or Never.
        uid: of its pod.
        entry: its status.
        failures: consecutive attempts to start it that failed.
        retry: time of the next attempt, in microseconds since 1970.
        runtime: the name of its runtime.
    """

    spec: Obj
    role: Role | Literal["ephemeral"]
    restart: str
    uid: str
    entry: Obj
    failures: int = 0
    retry: int = 0
    runtime: str = PROCESSES
    is_replaced: bool = False
    """True if it is ended to be restarted regardless of its restart policy: with another image, or with all others."""

    @property
    def name(self) -> str:
        """Its name in the pod."""
        return str(self.spec["name"])

    @property
    def attempt(self) -> int:
        """The number of its restarts."""
        return int(self.entry.get("restartCount", 0))

    @property
    def id(self) -> str:
        """The runtime's id for its latest run."""
        return container_id(self.uid, self.name, self.attempt)

    def _status_id(self, attempt: int) -> str:
        """The id of one of its runs in its entry."""
        return status_id(container_id(self.uid, self.name, attempt), self.runtime)

    @property
    def state(self) -> Obj:
        """Its state in the status."""
        return self.entry.get("state") or {}

    @property
    def running(self) -> bool:
        """True if it runs."""
        return "running" in self.state

    @property
    def started(self) -> bool:
        """True if it runs and its startup probe and its postStart hook have succeeded."""
        return self.running and bool(self.entry.get("started"))

    @property
    def ended(self) -> Obj | None:
        """The end of its latest run; None while it runs, and before its first run."""
        found: Obj | None = self.state.get("terminated")
        if found is None and not self.running:
            found = (self.entry.get("lastState") or {}).get("terminated")
        return found

    @property
    def exit_code(self) -> int | None:
        """The code with which it has ended finally; None if it has not."""
        ended = self.state.get("terminated")
        return None if ended is None or self.restarts(ended) else int(ended.get("exitCode", 0))

    def restarts(self, ended: Obj) -> bool:
        """Return True if it is restarted after this end."""
        return self.is_replaced or is_restarted(self.spec, self.restart, ended.get("exitCode", 0))

    @property
    def is_reset(self) -> bool:
        """True if it has ended and will be restarted with all other containers of its pod."""
        return bool((self.state.get("waiting") or {}).get("reason") == RESTARTING_ALL)

    @property
    def restarts_all(self) -> bool:
        """True if its end requires a restart of all containers of its pod."""
        ended = self.state.get("terminated")
        return ended is not None and self._asks_for_all(ended)

    def _asks_for_all(self, ended: Obj) -> bool:
        return action_after(self.spec, ended.get("exitCode", 0)) == RESTART_ALL

    @property
    def fresh(self) -> bool:
        """True if it has never run, or not since the restart of all containers."""
        return not self.running and (self.ended is None or self.is_reset)

    def due(self) -> int:
        """The time at which it may be started, in microseconds since 1970; in the past if at once."""
        ended = self.ended
        after = 0
        if ended is not None and (not self.is_reset or self._asks_for_all(ended)):
            after = (moment_of(ended.get("finishedAt")) or 0) + back_off(ended, self.attempt)
        return max(after, self.retry)

    # --- changes of state

    def set(self, state: Mapping[str, Any], **others: Any) -> None:
        """Replace its entry, with another state."""
        self.entry = {**self.entry, "state": state, **others}

    def next_attempt(self) -> int:
        """The number of its next run."""
        return self.attempt + 1 if self.ended is not None else self.attempt

    def run(self, state: ContainerState, *, image: str = "") -> None:
        """Record that it runs: a new run, or one that was found again."""
        last = self.entry.get("lastState") or {}
        if state.attempt > self.attempt and self.ended is not None:
            last = {"terminated": self.ended}
        before = self.state if state.attempt == self.attempt else {}
        known = before.get("running")
        running = {"running": known or {"startedAt": second_text(state.started)}}
        kept = {} if known else {"ready": False, "started": False}
        self.failures = self.retry = 0
        self.is_replaced = False
        id = self._status_id(state.attempt)
        image_id = image or self.entry.get("imageID") or ""
        others = {"lastState": last, "restartCount": state.attempt, "containerID": id, "imageID": image_id}
        self.set(running, **kept, **others)
        if not known:
            self.entry = {**self.entry, "image": self.spec.get("image", "")}
            self.grant()

    def grant(self) -> None:
        """Record that it has the resources in its specification."""
        others = {field: value for field, value in self.entry.items() if field != "allocatedResources"}
        self.entry = others | granted(self.spec)

    def end(self, state: ContainerState, message: str = "", reason: str = "") -> None:
        """Record that one of its runs has ended."""
        if state.attempt > self.attempt:
            self.run(state)
        ended: dict[str, Any] = {
            "exitCode": state.exit_code,
            "reason": reason or state.reason or ("Error" if state.exit_code else "Completed"),
            "startedAt": second_text(state.started),
            "finishedAt": second_text(state.finished),
            "containerID": self._status_id(state.attempt),
        }
        if state.signal:
            ended["signal"] = state.signal
        if message or state.message:
            ended["message"] = message or state.message
        self.set({"terminated": ended}, ready=self.role == "init" and state.exit_code == 0, started=False)

    def lose(self, now: int) -> None:
        """Record that it should run, but cannot be found."""
        started = (self.state.get("running") or {}).get("startedAt")
        ended = {"exitCode": KILLED, "reason": UNKNOWN, "message": _LOST, "finishedAt": second_text(now)}
        ended["startedAt"] = started or second_text(now)
        self.set({"terminated": ended}, ready=False, started=False)

    def cannot_start(self, attempt: int, message: str, now: int) -> None:
        """Record that its command could not be run."""
        last = {"terminated": self.ended} if self.ended is not None else self.entry.get("lastState") or {}
        text = second_text(now)
        ended = {"exitCode": _START_ERROR, "reason": "StartError", "message": message, "finishedAt": text}
        ended |= {
            "startedAt": "1970-01-01T00:00:00Z",
            "containerID": self._status_id(attempt),
        }
        others = {"lastState": last, "restartCount": attempt, "ready": False, "started": False}
        self.set({"terminated": ended}, **others)

    def wait(self, reason: str, message: str = "") -> bool:
        """Set it to waiting; returns False if it was already, for the same reason."""
        waiting = {"reason": reason, **({"message": message} if message else {})}
        if self.state.get("waiting") == waiting:
            return False
        last = {"terminated": self.ended} if self.ended is not None else self.entry.get("lastState") or {}
        self.set({"waiting": waiting}, ready=False, started=False, lastState=last)
        return True

    def reset(self) -> None:
        """Set it to waiting for the restart of all containers of its pod, if it has ever run."""
        ended = self.ended
        if ended is None:
            return
        if self.is_replaced:
            ended = {**ended, "reason": RESTARTING_ALL, "message": REMOVED}
            self.is_replaced = False
        waiting = {"reason": RESTARTING_ALL, "message": REMOVED}
        self.set({"waiting": waiting}, ready=False, started=False, lastState={"terminated": ended})

    def fail(self, now: int) -> None:
        """Delay the next attempt to start it."""
        self.retry = now + min(FIRST_RETRY << min(self.failures, 10), LONGEST_RETRY) * SECOND
        self.failures += 1

    def backs_off(self, pod: str, now: int) -> bool:
        """Set it to waiting for its restart, if it must; returns True if it was not waiting before."""
        ended = self.state.get("terminated")
        if ended is None or not self.restarts(ended) or self.due() <= now:
            return False
        seconds = back_off(ended, self.attempt) // SECOND
        return self.wait(BACK_OFF, f"back-off {seconds}s restarting failed container={self.name} pod={pod}")


class Next(NamedTuple):
    """The next step of a pod.

    Attributes:
        start: containers to start, in order.
        due: time at which another one may be started, in microseconds since 1970; None without any.
        over: True if no more containers are started, and running ones should end.
    """

    start: Sequence[Member] = ()
    due: int | None = None
    over: bool = False


def members_of(pod: Obj, runtime: str = PROCESSES) -> list[Member]:
    """The containers of a pod in the order of their start, each with its status.

    Args:
        pod: the pod.
        runtime: the name of their runtime.
    """
    spec, status, uid = pod["spec"], pod.get("status") or {}, pod["metadata"].get("uid", "")
    inits = spec.get("initContainers") or ()
    before = {each["name"]: each for field in _STATUSES for each in status.get(field) or ()}
    policy = spec.get("restartPolicy", "Always")

    def made(container: Obj, role: Role | Literal["ephemeral"], restart: str, reason: str) -> Member:
        entry = before.get(container["name"]) or waiting_entry(container, reason)
        has = entry.get("resources")
        if has is not None and has != (container.get("resources") or {}):
            container = {**container, "resources": has}  # a resize that is not granted yet
        if "running" in (entry.get("state") or {}) and entry.get("image"):
            container = {**container, "image": entry["image"]}  # it does not have the new one yet
        return Member(container, role, restart, uid, entry, runtime=runtime)

    found = []
    for each in inits:
        if each.get("restartPolicy") == "Always":
            found.append(made(each, "sidecar", "Always", INITIALIZING))
        else:
            own = each.get("restartPolicy") or ("Never" if policy == "Never" else "OnFailure")
            found.append(made(each, "init", own, INITIALIZING))
    reason = INITIALIZING if inits else CREATING
    found += [made(each, "main", each.get("restartPolicy") or policy, reason) for each in spec["containers"]]
    return found + [made(each, "ephemeral", "Never", CREATING) for each in spec.get("ephemeralContainers") or ()]


def images_of(pod: Obj) -> dict[str, str]:
    """Return the images of the containers of a pod that can be changed, by name."""
    spec = pod["spec"]
    return {each["name"]: each.get("image", "") for each in (*(spec.get("initContainers") or ()), *spec["containers"])}


_STATUSES = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")


def next_of(members: Sequence[Member], now: int) -> Next:
    """Return the next step for the containers of a pod, by the rules of kubelets."""
    if any(each.restarts_all for each in members):
        return Next()
    mains = [each for each in members if each.role == "main"]
    if all(each.exit_code is not None for each in mains) or _init_failed(members):
        return Next(over=True)
    start: list[Member] = []
    waits: list[int] = []
    for each in _startable(members):
        if each.running:
            continue
        if each.due() <= now:
            start.append(each)
        else:
            waits.append(each.due())
    return Next(start, min(waits, default=None))


def _init_failed(members: Sequence[Member]) -> bool:
    return any(each.role == "init" and each.exit_code for each in members)


def _startable(members: Sequence[Member]) -> Iterator[Member]:
    """Yield the containers that may run now and have not ended finally, up to the first that others wait for."""
    initialized = any(not each.fresh for each in members if each.role == "main")
    yield from (each for each in members if each.role == "ephemeral" and each.fresh)
    for each in members:
        if each.role == "main":
            if each.exit_code is None:
                yield each
        elif each.role == "sidecar":
            yield each
            if not each.started and not initialized:
                return
        elif each.role == "init" and each.exit_code != 0 and not initialized:
            yield each
            return
