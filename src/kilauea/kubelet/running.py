"""The tasks around running containers: postStart hooks, probes, and requested stops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from kilauea.api.ports import Obj
from kilauea.kubelet.handlers import Result, Target
from kilauea.kubelet.hooks import FAILED_POST_START, FAILED_PRE_STOP, post_start
from kilauea.kubelet.host import Host
from kilauea.kubelet.members import Member
from kilauea.kubelet.probes import KINDS, Kind, failure_text, run_probe
from kilauea.kubelet.stopping import stop_container

_DEFAULT_GRACE = 30.0


class Running:
    """The running containers of a pod.

    Args:
        host: the machine.
        members: the containers of the pod by name.
        changed: called when the entry of a container has changed.
    """

    def __init__(self, host: Host, members: Mapping[str, Member], changed: Callable[[], None]) -> None:
        self._host = host
        self._members = members
        self._changed = changed
        self._pod: Obj = {}
        self._tasks: dict[str, list[asyncio.Task[None]]] = {}
        self._stops: dict[str, asyncio.Task[None]] = {}
        self._stopped: set[str] = set()
        """Containers whose preStop hook has been started."""
        self._hooks: set[str] = set()

    @property
    def hooked(self) -> bool:
        """True if a postStart hook is running, for which the next containers wait."""
        return bool(self._hooks)

    def watch(self, member: Member, address: str, pod: Obj, found: bool = False) -> None:
        """Run the hook and the probes of a container that has started.

        Args:
            member: the container.
            address: of its pod.
            pod: its pod.
            found: True if it was started by an earlier process, so that its hook has run.
        """
        self._pod = pod
        self._stopped.discard(member.name)
        target = Target(self._host.runtime, member.id, member.spec, address)
        if (member.spec.get("lifecycle") or {}).get("postStart") and not found:
            self._hooks.add(member.name)
            self._begin(member, self._hook(member, target))
        else:
            self._begin_probes(member, target)

    def _begin(self, member: Member, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.setdefault(member.name, []).append(task)

    async def _hook(self, member: Member, target: Target) -> None:
        result = await post_start(member.spec, target)
        self._hooks.discard(member.name)
        if result.verdict == "success":
            self._begin_probes(member, target)
        else:
            self._host.event(self._pod, FAILED_POST_START, "PostStartHook failed", warning=True)
            self._kill(member, target, "FailedPostStartHook")
        self._changed()

    def _begin_probes(self, member: Member, target: Target) -> None:
        """Start the startup probe, or the probes after it."""
        probes = {kind: member.spec.get(f"{kind}Probe") for kind in KINDS}
        if (probe := probes["startup"]) and not member.entry.get("started"):
            self._probe(member, "startup", probe, target)
            return
        ready = not probes["readiness"] or bool(member.entry.get("ready"))
        member.entry = {**member.entry, "started": True, "ready": ready and member.role != "init"}
        later: tuple[Kind, ...] = ("liveness", "readiness")
        for kind in later:
            if probe := probes[kind]:
                self._probe(member, kind, probe, target)

    def _probe(self, member: Member, kind: Kind, probe: Obj, target: Target) -> None:
        report, tell = partial(self._verdict, member, target, probe), self._tell
        self._begin(member, run_probe(kind, probe, target, report, tell))

    def _tell(self, kind: Kind, result: Result) -> None:
        passed = result.verdict == "success"
        words = failure_text(kind, result)
        self._host.event(self._pod, "ProbeWarning" if passed else "Unhealthy", words, warning=True)

    def _verdict(self, member: Member, target: Target, probe: Obj, kind: Kind, passed: bool) -> None:
        if kind == "readiness":
            member.entry = {**member.entry, "ready": passed}
        elif kind == "startup" and passed:
            member.entry = {**member.entry, "started": True}
            self._begin_probes(member, target)
        elif not passed:
            message = f"Container {member.name} failed {kind} probe, will be restarted"
            self._kill(member, target, message, probe.get("terminationGracePeriodSeconds"))
        self._changed()

    def _kill(self, member: Member, target: Target, message: str, grace: int | None = None) -> None:
        """End a container that will be restarted by its policy."""
        if self.stopping(member):
            return
        self._host.event(self._pod, "Killing", message)
        spec = self._pod.get("spec") or {}
        of_pod = spec.get("terminationGracePeriodSeconds")
        seconds = grace if grace is not None else of_pod if of_pod is not None else _DEFAULT_GRACE
        self._stop(member, target, float(seconds))

    def stopping(self, member: Member) -> bool:
        """Return True if a container is being stopped."""
        return member.name in self._stops

    def restart(self, member: Member, pod: Obj, address: str, message: str) -> None:
        """End a container to restart it, with a message for the event."""
        self._pod = pod
        self._kill(member, Target(self._host.runtime, member.id, member.spec, address), message)

    def stop(self, member: Member, pod: Obj, grace: float, address: str, *, hook: bool = True) -> None:
        """End a container, after its preStop hook unless disabled."""
        self._pod = pod
        if not hook:
            self._stopped.add(member.name)
        self._stop(member, Target(self._host.runtime, member.id, member.spec, address), grace)

    def _stop(self, member: Member, target: Target, grace: float) -> None:
        hook = member.name not in self._stopped
        self._stopped.add(member.name)

        def failed(output: str) -> None:
            self._host.event(self._pod, FAILED_PRE_STOP, "PreStopHook failed", warning=True)

        self._stops[member.name] = asyncio.ensure_future(stop_container(self._pod, member, target, grace, hook, failed))

    def hurry(self) -> None:
        """Let requested stops be requested again, with less time."""
        for task in self._stops.values():
            task.cancel()
        self._stops.clear()

    def forget(self, member: Member) -> None:
        """End the tasks for a container that has exited."""
        self._hooks.discard(member.name)
        stop = self._stops.pop(member.name, None)
        for task in (*self._tasks.pop(member.name, ()), *((stop,) if stop is not None else ())):
            task.cancel()

    def cancel(self) -> None:
        """End all tasks; containers keep running."""
        for name in list({*self._tasks, *self._stops}):
            self.forget(self._members[name])
