"""Logs of simulated containers: a line at each start and end, and the output of the command.

Each line has a time, so it appears when the command would have printed it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from kilauea.api.container_logs import LogEntry, LogReader, log_time, no_previous_run, waits_to_start
from kilauea.api.kinds import NODES, PODS, SERVICES
from kilauea.api.ports import Key, Obj, View, key_of
from kilauea.api.times import SECOND
from kilauea.nodes.annotations import RUN_TIME
from kilauea.nodes.containers import Run
from kilauea.nodes.environment import (
    DEFAULTS,
    ConfigError,
    PodFacts,
    cluster_ip,
    container_environment,
    hostname_of,
    service_variables,
)
from kilauea.nodes.identity import identity_of
from kilauea.nodes.lifecycle import extra_runs, runs_of
from kilauea.nodes.program import JOB_RUN_TIME
from kilauea.nodes.script import Line, read_script
from kilauea.nodes.timestamps import moment_of

_SERVER = Key("default", "kubernetes")
"""The service of the API server, which is in the environment of all containers."""


class LogLine(NamedTuple):
    """A line of output and its time, in microseconds since 1970."""

    moment: int
    text: str


class ContainerLog(NamedTuple):
    """The log of one run of a container.

    Attributes:
        lines: its output so far.
        started: start time of the run, from its status; empty without a run.
        running: True if it may write more.
        waits: the reason why the container has not run yet; empty if it has, or does not exist.
        run: id of the container; a replacement of the pod has another one.
    """

    lines: tuple[LogLine, ...] = ()
    started: str = ""
    running: bool = False
    waits: str = ""
    run: str = ""


class PodLogs:
    """The output of containers, computed from the pods in a view.

    Args:
        view: shows pods.
        run_time: microseconds for commands of unknown run time; 0 for no end.
    """

    def __init__(self, view: View, run_time: int = JOB_RUN_TIME) -> None:
        self._view = view
        self._run_time = run_time

    def open(self, pod: Obj, container: str, *, previous: bool, tail: int | None, now: Callable[[], int]) -> LogReader:
        """Open the log of a container; see `LogSource`."""
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
        # A container that waits for its restart shows the previous run.
        has_run = run.running or "terminated" in run.state
        state = run.state if has_run and not previous else last
        shown = state.get("running") or state.get("terminated") or {}
        run_id = shown.get("containerID") or run.entry.get("containerID", "")
        waits = "" if has_run or last else (run.state.get("waiting") or {}).get("reason", "")
        lines = tuple(_lines(found, run, state, now, self._view))
        return ContainerLog(lines, shown.get("startedAt", ""), run.running and not previous, waits, run_id)


class _Reader:
    """Reads a log, computed from the pod each time."""

    def __init__(self, look: Callable[[], ContainerLog], log: ContainerLog, tail: int | None) -> None:
        self._look = look
        self._log: ContainerLog | None = log
        self._run = (log.run, log.started)
        self._seen = 0 if tail is None else max(len(log.lines) - tail, 0)
        self.ended = False

    def begin(self) -> Iterable[None]:
        """Do nothing: there is nothing to search."""
        return ()

    def read(self) -> Sequence[LogEntry]:
        """Return the new lines since the last call."""
        log, self._log = self._log or self._look(), None
        # Later runs are not followed, as in kubelets. A later run may have started in the same second, because times of
        # runs are whole seconds, and a pod that is replaced at once has the name of the previous one.
        if (log.run, log.started) != self._run:
            self.ended = True
            return ()
        found, self._seen = log.lines[self._seen :], len(log.lines)
        self.ended = not log.running
        return [LogEntry(log_time(line.moment), "stdout", f"{line.text}\n".encode()) for line in found]

    def close(self) -> None:
        """Do nothing: nothing is open."""


def _run_of(pod: Obj, container: str, run_time: int) -> Run | None:
    inits, mains = runs_of(pod, run_time)
    runs = (*inits, *mains, *extra_runs(pod, run_time))
    return next((run for run in runs if run.container["name"] == container), None)


def _lines(pod: Obj, run: Run, state: Obj, now: int, view: View) -> Iterator[LogLine]:
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
    for offset, text in _output(pod, run, view, started):
        if started + offset > until:
            break
        yield LogLine(started + offset, text)
    if ended:
        message = f"ended with exit code {ended.get('exitCode', 0)} ({ended.get('reason', '')})"
        yield LogLine(until, message)


def _output(pod: Obj, run: Run, view: View, started: int) -> Iterator[Line]:
    """The lines that the command of a container prints, with its variables.

    The current ConfigMaps and Secrets are used; a kubelet reads them when the container starts.
    """
    command, args = tuple(run.container.get("command") or ()), tuple(run.container.get("args") or ())
    if not any("$" in word or "env" in word for word in command + args):
        return run.program.output
    try:
        variables = container_environment(
            run.container, _facts(pod, view), view.get, _service_variables(pod, view, started)
        )
    except ConfigError:
        return run.program.output
    own = {**DEFAULTS, "HOSTNAME": hostname_of(pod, pod["spec"].get("nodeName", ""))}
    environment = tuple({**own, **variables}.items())
    return read_script(command, args, environment, identity_of(pod, run.container)).output


def _facts(pod: Obj, view: View) -> PodFacts:
    status = pod.get("status") or {}
    node = view.get(NODES, Key("", pod["spec"].get("nodeName", ""))) or {}
    host_ips, pod_ips = ([each["ip"] for each in status.get(field) or ()] for field in ("hostIPs", "podIPs"))
    return PodFacts(pod, host_ips, pod_ips, (node.get("status") or {}).get("allocatable"))


def _service_variables(pod: Obj, view: View, started: int) -> dict[str, str]:
    """The variables of the services that existed when a container started, and always those of the API server."""
    linked = pod["spec"].get("enableServiceLinks", True)
    there = {key_of(each): each for each in view.list(SERVICES, pod["metadata"]["namespace"]) if linked}
    if server := view.get(SERVICES, _SERVER):
        there[_SERVER] = server
    older = (each for each in there.values() if (moment_of(each["metadata"].get("creationTimestamp")) or 0) <= started)
    return service_variables(older, cluster_ip)
