"""Logs of simulated containers: a line at each start and end, and the output of the command.

Each line has its moment, so it appears when the command would have printed it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from kilauea.api.container_logs import LogEntry, LogReader, log_time, no_previous_run, waits_to_start
from kilauea.api.kinds import PODS
from kilauea.api.ports import Key, Obj, View
from kilauea.api.times import SECOND
from kilauea.nodes.annotations import RUN_TIME
from kilauea.nodes.containers import Run
from kilauea.nodes.lifecycle import extra_runs, runs_of
from kilauea.nodes.program import JOB_RUN_TIME
from kilauea.nodes.timestamps import moment_of


class LogLine(NamedTuple):
    """A line of output and its moment, in microseconds since 1970."""

    moment: int
    text: str


class ContainerLog(NamedTuple):
    """The log of one run of a container.

    Attributes:
        lines: what it has written so far.
        started: when the run started, by its status; empty if there was none.
        running: whether it may write more.
        waits: why the container has not run yet; empty if it has, or does not exist.
        run: id of the container; a pod that takes the place of this one has another.
    """

    lines: tuple[LogLine, ...] = ()
    started: str = ""
    running: bool = False
    waits: str = ""
    run: str = ""


class PodLogs:
    """The output of containers, told from the pods as a view has them.

    Args:
        view: shows pods.
        run_time: microseconds that commands of unknown run time take; 0 for ever.
    """

    def __init__(self, view: View, run_time: int = JOB_RUN_TIME) -> None:
        self._view = view
        self._run_time = run_time

    def open(self, pod: Obj, container: str, *, previous: bool, tail: int | None, now: Callable[[], int]) -> LogReader:
        """Open the log of a container, as `LogSource` says."""
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]

        def look() -> ContainerLog:
            return self.read(namespace, name, container, previous, now())

        log = look()
        if log.waits and not previous:
            raise waits_to_start(container, name, log.waits)
        if previous and not log.started:
            raise no_previous_run(container, name)
        return _Reader(look, log, tail)

    def read(self, namespace: str, pod: str, container: str, previous: bool, now: int) -> ContainerLog:
        """Return the log of the last run of a container, or the one before it, up to now."""
        found = self._view.get(PODS, Key(namespace, pod))
        run = None if found is None else _run_of(found, container, self._run_time)
        if found is None or run is None:
            return ContainerLog()
        last = run.entry.get("lastState") or {}
        # A container that waits for its restart shows the run before.
        has_run = run.running or "terminated" in run.state
        state = run.state if has_run and not previous else last
        shown = state.get("running") or state.get("terminated") or {}
        run_id = shown.get("containerID") or run.entry.get("containerID", "")
        waits = "" if has_run or last else (run.state.get("waiting") or {}).get("reason", "")
        lines = tuple(_lines(found, run, state, now))
        return ContainerLog(lines, shown.get("startedAt", ""), run.running and not previous, waits, run_id)


class _Reader:
    """Reads a log that is told from the pod each time."""

    def __init__(self, look: Callable[[], ContainerLog], log: ContainerLog, tail: int | None) -> None:
        self._look = look
        self._log: ContainerLog | None = log
        self._run = (log.run, log.started)
        self._seen = 0 if tail is None else max(len(log.lines) - tail, 0)
        self.ended = False

    def read(self) -> Sequence[LogEntry]:
        """Return the lines that have come since."""
        log, self._log = self._log or self._look(), None
        # A run after it is not followed, as with kubelets. It may have started in the same second: times of runs are
        # whole seconds, and a pod that is replaced at once has the name of the one before.
        if (log.run, log.started) != self._run:
            self.ended = True
            return ()
        found, self._seen = log.lines[self._seen :], len(log.lines)
        self.ended = not log.running
        return [LogEntry(log_time(line.moment), "stdout", f"{line.text}\n".encode()) for line in found]

    def close(self) -> None:
        """Nothing is open."""


def _run_of(pod: Obj, container: str, run_time: int) -> Run | None:
    inits, mains = runs_of(pod, run_time)
    runs = (*inits, *mains, *extra_runs(pod, run_time))
    return next((run for run in runs if run.container["name"] == container), None)


def _lines(pod: Obj, run: Run, state: Obj, now: int) -> Iterator[LogLine]:
    ended = state.get("terminated")
    started = moment_of((ended or state.get("running") or {}).get("startedAt"))
    if started is None:
        return
    node = pod["spec"].get("nodeName", "")
    yield LogLine(started, f"simulated container {run.container['name']} started on {node}")
    if run.program.guessed and run.program.run_time:
        seconds = f"{run.program.run_time / SECOND:g}s"
        yield LogLine(
            started, f"its command does not say how long it runs; it ends after {seconds} ({RUN_TIME} changes it)"
        )
    end = moment_of(ended.get("finishedAt")) if ended else None
    until = now if end is None else end
    for offset, text in run.program.output:
        if started + offset > until:
            break
        yield LogLine(started + offset, text)
    if ended:
        message = f"ended with exit code {ended.get('exitCode', 0)} ({ended.get('reason', '')})"
        yield LogLine(until, message)
