"""Submits a job and follows it, like `srun`: its output, signals that end it, and its exit code."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from kilauea.api.kinds import PODS, VC_JOBS
from kilauea.api.ports import ApiError, Obj, key_of
from kilauea.cli.jobs.copies import JOB_LABEL
from kilauea.cli.jobs.following import Follower
from kilauea.cli.jobs.printer import Printer
from kilauea.cli.jobs.standard_input import StandardInput
from kilauea.cli.vcctl.cluster import decoded
from kilauea.cli.vcctl.orders import order
from kilauea.client.container_input import ContainerInput
from kilauea.client.container_output import ContainerOutput
from kilauea.client.http import HttpTransport
from kilauea.client.rest import Client
from kilauea.nodes.annotations import NODE_RUNTIME, PROCESS, STOP_SIGNAL

if TYPE_CHECKING:
    from kilauea.api.ports import Api
    from kilauea.cli.jobs.copies import Copy
    from kilauea.client.access import Access

SIGNALLED = 128
"""Offset of exit codes for signals, as in shells."""
DEFAULT_GRACE = 30
GOODBYE_SECONDS = 0.05
"""Seconds for used connections to close, before the event loop ends."""
AGAIN_SECONDS = 0.5
"""Seconds within which the same signal counts as a duplicate of the first."""
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Streamed(NamedTuple):
    """A job to create and follow.

    Attributes:
        make: returns the manifest, once the cluster is known.
        submitted: returns the message after the submission.
        labels: labels of the copies by their index.
        largest: True to return the highest exit code of all copies, even for a Completed job.
    """

    make: Callable[[Api], Awaitable[Obj]]
    submitted: Callable[[Obj], str]
    labels: Mapping[int, str]
    largest: bool = False


async def stream(access: Access, job: Streamed, printer: Printer) -> int:
    """Create a job and follow it; return its exit code, or that of the signal that ended it."""
    async with HttpTransport(access) as transport:
        api = Client(transport, "kilauea-run")
        interrupts = Interrupts(printer)
        with interrupts.handled():
            body = await job.make(api)
            made = await api.create(VC_JOBS, body["metadata"]["namespace"], body)
            await printer.progress(f"{made['metadata']['name']}: {job.submitted(made)}")
            output = ContainerOutput(transport)
            given = StandardInput(ContainerInput(transport), made["spec"]["tasks"][0]["replicas"], printer)
            started = given.begin if _pod(made)["containers"][0].get("stdin") else _no_input
            follower = Follower(api, output, made, printer, job.labels, largest=job.largest, started=started)
            ending = asyncio.create_task(interrupts.end(api, made))
            try:
                code = await follower.run()
            finally:
                ending.cancel()
                await asyncio.gather(ending, given.stop(), return_exceptions=True)
    await asyncio.sleep(GOODBYE_SECONDS)
    return SIGNALLED + interrupts.number if interrupts.number else code


class Interrupts:
    """Signals to this command: the first ends the job, the second exits at once.

    `timeout` sends a signal to a process and then to its group, so that it arrives twice: that counts once.

    Attributes:
        number: number of the signal that ended the job; 0 for none.
    """

    def __init__(self, printer: Printer) -> None:
        self._printer = printer
        self._came = asyncio.Event()
        self._name = ""
        self._first = 0.0
        self._asked = False
        """True once the cluster knows that the job should end."""
        self.number = 0

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Handle signals for the length of a block; one that this process ignores (`nohup`) stays ignored."""
        loop = asyncio.get_running_loop()
        handled = [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]
        for number in handled:
            loop.add_signal_handler(number, self._take, number)
        try:
            yield
        finally:
            for number in handled:
                loop.remove_signal_handler(number)

    def _take(self, number: int) -> None:
        now = asyncio.get_running_loop().time()
        if self._came.is_set():
            if number == self.number and now < self._first + AGAIN_SECONDS:
                return
            how = "may still be ending" if self._asked else "was not told to end, scancel does that"
            os.write(2, f"Left at once; {self._name or 'the job'} {how}.\n".encode())
            os._exit(SIGNALLED + number)  # a writer may wait for a stopped terminal
        self.number, self._first = number, now
        self._came.set()

    async def end(self, api: Api, job: Obj) -> None:
        """Wait for a signal, or until the output is no longer read; then end the job."""
        self._name = job["metadata"]["name"]
        tasks = [asyncio.create_task(each.wait()) for each in (self._came, self._printer.closed)]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if not self.number:
            self.number = signal.SIGPIPE
        for task in tasks:
            task.cancel()
        self._came.set()
        passed = self._passed(job)
        await self._printer.error(f"{self._name}: {self._words(job, passed)}")
        if passed != signal.SIGTERM:
            await choose_signal(api, job, passed)
        await end_job(api, job)
        self._asked = True

    def _passed(self, job: Obj) -> signal.Signals:
        """The signal for the processes of the job: only on this machine can it differ from SIGTERM."""
        here = (_pod(job).get("nodeSelector") or {}).get(NODE_RUNTIME) == PROCESS
        return signal.Signals(self.number) if here and self.number in _ENDING else signal.SIGTERM

    def _words(self, job: Obj, passed: signal.Signals) -> str:
        pod = _pod(job)
        seconds = pod.get("terminationGracePeriodSeconds", DEFAULT_GRACE)
        why = "standard output was closed" if self.number == signal.SIGPIPE else signal.Signals(self.number).name
        return f"{why}: ending the job, its copies have {seconds}s to end after {passed.name}; Ctrl-C leaves at once"


async def choose_signal(api: Api, job: Obj, number: signal.Signals) -> None:
    """Set the signal that ends the processes of a job. Without permission to do so, it is SIGTERM."""
    key = key_of(job)
    with suppress(ApiError):
        listed = await api.list(PODS, key.namespace, f"{JOB_LABEL}={key.name}")
        patch = {"metadata": {"annotations": {STOP_SIGNAL: number.name}}}
        await asyncio.gather(
            *(api.patch(PODS, key_of(decoded(each)), patch, "merge") for each in listed.items), return_exceptions=True
        )


async def end_job(api: Api, job: Obj) -> None:
    """Terminate a job; delete it if that is not allowed. Finished jobs are not changed."""
    try:
        await order(api, VC_JOBS, key_of(job), "TerminateJob")
    except ApiError as error:
        if error.code != 404:
            await api.delete(VC_JOBS, key_of(job), uid=job["metadata"]["uid"])


def _pod(job: Obj) -> dict[str, Any]:
    """The spec of the pods of a job."""
    found: dict[str, Any] = job["spec"]["tasks"][0]["template"]["spec"]
    return found


def _no_input(copy: Copy) -> None:
    """Do nothing, without input for a copy."""
