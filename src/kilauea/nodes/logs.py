"""What `kubectl logs` shows of simulated containers: a line at each start and end, and what the command prints."""

from __future__ import annotations

from collections.abc import Iterator

from kilauea.api.kinds import PODS
from kilauea.api.ports import Key, Obj, View
from kilauea.nodes.life import runs_of


class PodLogs:
    """The output of containers, told from the pods as a view has them.

    Args:
        view: shows pods.
    """

    def __init__(self, view: View) -> None:
        self._view = view

    def read(self, namespace: str, pod: str, container: str) -> bytes:
        """What the last run of a container has written so far; empty if it has not run."""
        found = self._view.get(PODS, Key(namespace, pod))
        if found is None:
            return b""
        inits, mains = runs_of(found)
        run = next((run for run in (*inits, *mains) if run.container["name"] == container), None)
        if run is None:
            return b""
        lines = _lines(found, run.container["name"], run.state or {}, run.program.output)
        if not run.running and "terminated" not in run.state:
            lines = _lines(found, run.container["name"], run.entry.get("lastState") or {}, run.program.output)
        return "".join(f"{line}\n" for line in lines).encode()


def _lines(pod: Obj, container: str, state: Obj, output: tuple[str, ...]) -> Iterator[str]:
    ended = state.get("terminated")
    begun = (ended or state.get("running") or {}).get("startedAt")
    if begun is None:
        return
    yield f"{begun} simulated container {container} started on {pod['spec'].get('nodeName', '')}"
    yield from output
    if ended:
        yield f"{ended.get('finishedAt')} ended with exit code {ended.get('exitCode', 0)} ({ended.get('reason', '')})"
