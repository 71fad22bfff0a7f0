"""One container: waiting, running, terminated, and waiting again before it is restarted.

Its only state is its entry in the pod's status. Entries of others are not changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal

from kilauea.api.ports import Obj
from kilauea.api.remembered import remembered
from kilauea.api.restarts import REMOVED, RESTART_ALL, RESTARTING_ALL, action_after, is_restarted
from kilauea.api.times import SECOND
from kilauea.nodes.program import Program
from kilauea.nodes.resizing import granted, restarts
from kilauea.nodes.timestamps import moment_of, second_text

CREATING, INITIALIZING, BACK_OFF = "ContainerCreating", "PodInitializing", "CrashLoopBackOff"
NO_IMAGE = "ImagePullBackOff"
NO_CONFIG = "CreateContainerConfigError"
_PULLING = "Back-off pulling image"
_SCHEME = "simulated://"
_MESSAGE_PATH, _FALLBACK = "/dev/termination-log", "FallbackToLogsOnError"
FIRST_BACK_OFF, LONGEST_BACK_OFF = 10, 300
"""Seconds before the second restart, doubled each time, and the maximum; the first restart is immediate."""
Role = Literal["main", "init", "sidecar"]
KILLED = 137
"""The exit code of a killed container."""


def waiting_entry(container: Obj, reason: str) -> dict[str, Any]:
    """The status of a container that has not started."""
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "ready": False,
        "started": False,
        "restartCount": 0,
        "state": {"waiting": {"reason": reason}},
        "lastState": {},
    }


def back_off(ended: Obj, restarts: int) -> int:
    """Microseconds between the end of a container and its next start, after this many restarts.

    A run of twice the longest back-off resets it.
    """
    started, end = moment_of(ended.get("startedAt")) or 0, moment_of(ended.get("finishedAt")) or 0
    if restarts == 0 or (started and end - started >= 2 * LONGEST_BACK_OFF * SECOND):
        return 0
    return min(FIRST_BACK_OFF << min(restarts - 1, 10), LONGEST_BACK_OFF) * SECOND


@dataclass(slots=True)
class Run:
    """A container and its entry in the pod's status, which `step` replaces, never modifies.

    Attributes:
        container: as the pod's specification has it.
        program: its program.
        entry: its status.
        restart: its restart policy: Always, OnFailure or Never.
        role: `main`; `init` for one that ends before the main ones begin; `sidecar` for an init container that runs
            beside them.
        pod_uid: uid of its pod, from which container ids are derived.
    """

    container: Obj
    program: Program
    entry: Obj
    restart: str
    role: Role = "main"
    pod_uid: str = ""

    @property
    def state(self) -> Obj:
        """The entry's state."""
        return self.entry.get("state") or {}

    @property
    def fresh(self) -> bool:
        """True if it has never run and waits to be started."""
        reason = (self.state.get("waiting") or {}).get("reason")
        return reason in (CREATING, INITIALIZING, NO_CONFIG) or (reason == NO_IMAGE and self.lacks_image)

    @property
    def lacks_image(self) -> bool:
        """True if it waits for its image, or for its previous one."""
        waiting = self.state.get("waiting") or {}
        return waiting.get("reason") == NO_IMAGE and str(waiting.get("message")).startswith(_PULLING)

    @property
    def lacks_config(self) -> bool:
        """True if it waits for the source of a variable."""
        return (self.state.get("waiting") or {}).get("reason") == NO_CONFIG

    @property
    def is_of_other_image(self) -> bool:
        """True if it runs, or has run, with another image than the desired one."""
        simulated = str(self.entry.get("containerID", "")).startswith(_SCHEME)
        return simulated and self.entry.get("image") != self.container.get("image", "")

    @property
    def running(self) -> bool:
        """True if it runs."""
        return "running" in self.state

    @property
    def exit_code(self) -> int | None:
        """The code with which it has ended finally; None if it has not."""
        ended = self.state.get("terminated")
        return None if ended is None or self._restarts(ended) else int(ended.get("exitCode", 0))

    def _restarts(self, ended: Obj) -> bool:
        return is_restarted(self.container, self.restart, ended.get("exitCode", 0))

    def due(self) -> int | None:
        """The time of its next change, in microseconds since 1970; None if there is none."""
        if self.running:
            started = moment_of(self.state["running"].get("startedAt"))
            if started is None:
                return None
            delays = (self.program.run_time, None if self.entry.get("ready") else self._probe_delay())
            return min((started + each for each in delays if each is not None), default=None)
        ended = self._ended()
        if ended is None:
            return None
        waits = not self._is_reset or self._asks_for_all(ended)
        return (moment_of(ended.get("finishedAt")) or 0) + (
            back_off(ended, self.entry.get("restartCount", 0)) if waits else 0
        )

    def _probe_delay(self) -> int:
        """Microseconds from its start until it is ready: its probes start then, and succeed at once."""
        probes = (self.container.get("startupProbe"), self.container.get("readinessProbe"))
        return max(int((each or {}).get("initialDelaySeconds") or 0) for each in probes) * SECOND

    def _ended(self) -> Obj | None:
        """The end of a run that is followed by another."""
        if self._is_reset:
            last: Obj = self.entry["lastState"]["terminated"]
            return last
        ended: Obj | None = self.state.get("terminated")
        if ended is None and (self.state.get("waiting") or {}).get("reason") == BACK_OFF:
            ended = (self.entry.get("lastState") or {}).get("terminated")
        return ended if ended is not None and self._restarts(ended) else None

    @property
    def _is_reset(self) -> bool:
        """True if it has ended and will be restarted with all other containers of its pod."""
        return bool((self.state.get("waiting") or {}).get("reason") == RESTARTING_ALL)

    @property
    def restarts_all(self) -> bool:
        """True if its end requires a restart of all containers of its pod."""
        ended = self.state.get("terminated")
        return ended is not None and self._asks_for_all(ended)

    def _asks_for_all(self, ended: Obj) -> bool:
        return action_after(self.container, ended.get("exitCode", 0)) == RESTART_ALL

    def reset(self, now: int) -> None:
        """Set it to waiting for the restart of all containers of its pod, if it has ever run."""
        if self.running:
            self.end(now, KILLED, RESTARTING_ALL)
        ended = self.state.get("terminated") or (self.entry.get("lastState") or {}).get("terminated")
        if ended is not None:
            waiting = {"reason": RESTARTING_ALL, "message": REMOVED}
            self._set({"waiting": waiting}, ready=False, started=False, lastState={"terminated": ended})

    def start(self, now: int) -> None:
        """Start its first run."""
        image, number = self.container.get("image", ""), self.entry.get("restartCount", 0)
        self._run(now, containerID=self._id(number), image=image, **granted(self.container))

    def resize(self, now: int) -> None:
        """Give it its desired resources; it is restarted if it cannot get them while it runs."""
        has, wanted = self.entry.get("resources"), self.container.get("resources") or {}
        if has is None or has == wanted:
            return
        if self.running and restarts(self.container, has):
            self.end(now, KILLED, "Error")
            self._restart(now)
        others = {field: value for field, value in self.entry.items() if field != "allocatedResources"}
        self.entry = others | granted(self.container)

    def wait_for_image(self) -> bool:
        """Set it to waiting for its image; returns True if it was not before."""
        return self._wait(NO_IMAGE, f'{_PULLING} "{self.container.get("image", "")}"')

    def wait_for_config(self, message: str) -> bool:
        """Set it to waiting for the source of a variable; returns True if it was not waiting for that before."""
        return self._wait(NO_CONFIG, message)

    def _wait(self, reason: str, message: str) -> bool:
        waiting = {"reason": reason, "message": message}
        if self.state.get("waiting") == waiting:
            return False
        self._set({"waiting": waiting}, image=self.container.get("image", ""))
        return True

    def change_image(self, now: int) -> None:
        """Run it with the current image, regardless of its restart policy."""
        if self.running:
            self.end(now, KILLED, "Error")
        self._restart(now)
        self.entry = {**self.entry, "image": self.container.get("image", "")}

    def step(self, now: int) -> bool:
        """Carry out due changes; returns True if there were any."""
        due = self.due()
        if due is not None and due <= now:
            if self.running and not self.is_over(now):
                self._set({**self.state}, ready=True, started=True)
            elif self.running:
                self.end(now, self.program.exit_code, self.program.reason)
            else:
                self._restart(now)
            return True
        if "terminated" in self.state and self._ended():
            self._wait_for_restart()
            return True
        return False

    def end(self, now: int, code: int, reason: str) -> None:
        """End it, for any reason."""
        started = (self.state.get("running") or {}).get("startedAt")
        text = second_text(now)
        ended = {"exitCode": code, "reason": reason, "startedAt": started or text, "finishedAt": text}
        if "containerID" in self.entry:
            ended["containerID"] = self.entry["containerID"]
        if message := self._message(now, code):
            ended["message"] = message
        self._set({"terminated": ended}, ready=self.role == "init" and code == 0, started=False)

    def _message(self, now: int, code: int) -> str:
        """The termination message of a run that ends; empty without one."""
        path = self.container.get("terminationMessagePath") or _MESSAGE_PATH
        fallback = bool(code) and self.container.get("terminationMessagePolicy") == _FALLBACK
        words = (*(self.container.get("command") or ()), *(self.container.get("args") or ()))
        started = moment_of((self.state.get("running") or {}).get("startedAt"))
        # Most have none, and evaluating a long script for each of a thousand deleted pods would take long.
        if started is None or not (fallback or any(path in word for word in words)):
            return ""
        return self.program.script.message(path, now - started, fallback)

    def _restart(self, now: int) -> None:
        last = {"terminated": self._ended() or self.state.get("terminated")}
        count = self.entry.get("restartCount", 0) + 1
        self._run(now, lastState=last, restartCount=count, containerID=self._id(count))

    def _run(self, now: int, **others: Any) -> None:
        """Start a run."""
        ready = not self._probe_delay()
        is_started = ready or not self.container.get("startupProbe")
        self._set({"running": {"startedAt": second_text(now)}}, ready=ready, started=is_started, **others)

    def is_over(self, now: int) -> bool:
        """True if its run time is over."""
        started, length = moment_of(self.state["running"].get("startedAt")), self.program.run_time
        return started is not None and length is not None and started + length <= now

    def _id(self, restarts: int) -> str:
        """The id of a run: different for each, and reproducible in any process.

        It consists of the pod's uid and of parts that many pods share, so that an API server that compresses objects
        stores nothing new for it.
        """
        run = _digest(f"{self.container['name']}/{restarts}")
        return f"{_SCHEME}{self.pod_uid.replace('-', '')[:32]}{run}"

    def _wait_for_restart(self) -> None:
        ended = self.state["terminated"]
        seconds = back_off(ended, self.entry.get("restartCount", 0)) // SECOND
        message = f"back-off {seconds}s restarting container {self.entry['name']}"
        last = {"terminated": ended}
        self._set({"waiting": {"reason": BACK_OFF, "message": message}}, ready=False, started=False, lastState=last)

    def _set(self, state: dict[str, Any], **others: Any) -> None:
        self.entry = {**self.entry, "state": state, **others}


@remembered(1024)
def _digest(run: str) -> str:
    """Half of the digest of a text."""
    return sha256(run.encode()).hexdigest()[:32]
