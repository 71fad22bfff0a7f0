"""Follows a job: its live output, its reasons to wait, its restarts, and its exit code."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from kilauea.api.kinds import POD_GROUPS, PODS, VC_JOBS
from kilauea.api.ports import ApiError, Key, Obj, key_of
from kilauea.cli.jobs.copies import JOB_LABEL, Copies, Copy, exit_code
from kilauea.cli.jobs.printer import Printer
from kilauea.cli.jobs.reasons import fault_of, group_reason, job_reason
from kilauea.cli.vcctl.cluster import objects
from kilauea.cli.vcctl.job_list import phase_of
from kilauea.cli.vcctl.tables import part
from kilauea.cli.vcctl.watching import changes_of, states_of

if TYPE_CHECKING:
    from kilauea.api.ports import Api
    from kilauea.client.container_output import ContainerOutput

OVER = frozenset({"Completed", "Failed", "Terminated"})
"""Phases after which a job has no more output; an aborted job can be resumed."""
_WAITING = ("", "Pending", "Aborting", "Aborted", "Restarting")
REASON_SECONDS = 1.0
"""Seconds that a reason to wait must last before it is printed: each job briefly waits for the next cycle."""
SILENCE_SECONDS = 15.0
"""Seconds without output after the end of a job, after which the rest of its output is abandoned."""
DELETED = 1
"""Exit code of a job that was deleted, or terminated before a copy had an exit code."""


class Follower:
    """Follows a job to its end.

    Args:
        api: the API server.
        output: reads logs.
        job: the created job.
        printer: prints output and messages.
        labels: labels of the copies by their index.
        largest: True to return the highest exit code of all copies, even for a Completed job.
        started: called with each copy that has started.
    """

    def __init__(
        self,
        api: Api,
        output: ContainerOutput,
        job: Obj,
        printer: Printer,
        labels: Mapping[int, str],
        *,
        largest: bool = False,
        started: Callable[[Copy], None] = lambda copy: None,
    ) -> None:
        self._api, self._printer, self._largest = api, printer, largest
        self._key, self._uid = key_of(job), str(job["metadata"]["uid"])
        self._copies = Copies(api, output, self._uid, printer, labels, started)
        self._job: Obj = job
        self._reasons = {"job": "", "group": ""}
        self._reason = self._said = ""
        self._waiting: asyncio.Task[None] | None = None
        self._faults: dict[str, str] = {}
        self._is_lost = False

    async def run(self) -> int:
        """Follow the job; return its exit code."""
        background = [asyncio.create_task(each) for each in (self._watch_pods(), self._watch_group())]
        try:
            await _first(self._watch_job(), background)
            if self._waiting is not None:
                self._waiting.cancel()
            pods = await self._last_pods()
            for copy in await self._copies.finish(SILENCE_SECONDS):
                read = f"kubectl logs -n {copy.key.namespace} {copy.key.name}"
                await self._say_error(f"the rest of the output of copy {copy.label} does not come: {read}")
            return await self._result(pods)
        finally:
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
            await self._copies.stop()

    # --- watches

    async def _watch_job(self) -> None:
        """Report the phases of the job until it has ended."""
        last = ""
        async with aclosing(states_of(self._api, VC_JOBS, self._key, self._lost)) as states:
            async for job in states:
                await self._found()
                if job is None or job["metadata"]["uid"] != self._uid:
                    self._job = {}
                    return
                self._job = job
                status = job.get("status") or {}
                if phase_of(job) == "Restarting" != last:
                    await self._say(f"restarts: {part(status, 'state', 'message') or 'its pods are replaced'}")
                last = phase_of(job)
                if phase_of(job) in OVER:
                    return
                await self._note(job=job_reason(job))

    async def _watch_pods(self) -> None:
        labels = f"{JOB_LABEL}={self._key.name}"
        async with aclosing(changes_of(self._api, PODS, self._key.namespace, labels, self._lost)) as changes:
            async for changed in changes:
                for exists, pod in changed:
                    self._copies.see(pod, exists=exists)
                    fault = fault_of(pod) if exists else ""
                    if fault and fault != self._faults.get(pod["metadata"]["uid"]):
                        await self._say(f"{pod['metadata']['name']}: {fault}")
                    self._faults[pod["metadata"]["uid"]] = fault

    async def _watch_group(self) -> None:
        key = Key(self._key.namespace, f"{self._key.name}-{self._uid}")
        async with aclosing(states_of(self._api, POD_GROUPS, key, self._lost)) as states:
            async for group in states:
                await self._note(group=group_reason(group))

    # --- messages

    async def _note(self, **reasons: str) -> None:
        """Print the reason to wait if it lasts; the same reason with other numbers is not repeated."""
        self._reasons |= reasons
        waits = phase_of(self._job) in _WAITING
        reason = self._reasons["job"] or (self._reasons["group"] if waits else "")
        if reason == self._reason:
            return
        self._reason = reason
        if self._waiting is not None:
            self._waiting.cancel()
        if reason and _words(reason) != self._said:
            self._waiting = asyncio.create_task(self._say_later(reason))

    async def _say_later(self, reason: str) -> None:
        await asyncio.sleep(REASON_SECONDS)
        self._said = _words(reason)
        await self._say(f"waits: {reason}")

    async def _lost(self, error: ApiError) -> None:
        if not self._is_lost:
            self._is_lost = True
            await self._say_error(f"the cluster does not answer, trying again: {error}")

    async def _found(self) -> None:
        if self._is_lost:
            self._is_lost = False
            await self._say("the cluster answers again")

    async def _say(self, text: str) -> None:
        await self._printer.progress(f"{self._key.name}: {text}")

    async def _say_error(self, text: str) -> None:
        await self._printer.error(f"{self._key.name}: {text}")

    # --- the end

    async def _last_pods(self) -> Sequence[Obj]:
        """The pods after the end of the job; those that the watch has not shown yet are read as well."""
        pods = await objects(self._api, PODS, self._key.namespace, f"{JOB_LABEL}={self._key.name}")
        for pod in pods:
            self._copies.see(pod)
        return pods

    async def _result(self, pods: Sequence[Obj]) -> int:
        """The exit code, with an explanation if it is not 0."""
        if not self._job:
            await self._say_error("was deleted")
            return DELETED
        phase, code = phase_of(self._job), exit_code(pods)
        if phase == "Completed":
            return code if self._largest else 0
        message = part(self._job, "status", "state", "message")
        if phase == "Terminated":
            await self._say_error("was terminated")
            return code or DELETED
        await self._say_error(f"{phase}: {message}" if message else f"{phase} with exit code {code or 1}")
        return code or 1


async def _first(main: Coroutine[Any, Any, None], others: Sequence[asyncio.Task[None]]) -> None:
    """Run a coroutine until it ends, or one of some tasks fails."""
    task = asyncio.create_task(main)
    try:
        done, _ = await asyncio.wait([task, *others], return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            await each
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _words(reason: str) -> str:
    """A reason without its numbers."""
    return re.sub(r"\d+", "#", reason)
