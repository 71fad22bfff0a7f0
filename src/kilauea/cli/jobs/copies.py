"""The copies of a job: its pods, with the output of each read to the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from kilauea.api.kinds import PODS
from kilauea.api.ports import ApiError, Obj, key_of
from kilauea.cli.jobs.printer import Printer
from kilauea.cli.vcctl.tables import part

if TYPE_CHECKING:
    from kilauea.api.ports import Api
    from kilauea.client.container_output import ContainerOutput

JOB_LABEL = "volcano.sh/job-name"
INDEX_LABEL = "volcano.sh/task-index"
MOST_AT_ONCE = 100
"""Maximum number of copies whose output is read concurrently; the others follow when one has ended."""
RETRY_SECONDS = 1.0
_LASTING = (401, 403, 405)
"""Status codes that do not change on a retry."""


class Copy:
    """A pod of the job.

    Attributes:
        key: namespace and name.
        uid: distinguishes it from a later pod with this name.
        label: its number in the output.
        container: name of its container.
        ended: set when its container has ended, or it no longer exists.
    """

    def __init__(self, pod: Obj, label: str) -> None:
        self.key = key_of(pod)
        self.uid: str = pod["metadata"]["uid"]
        self.label = label
        self.container: str = pod["spec"]["containers"][0]["name"]
        self.ended = asyncio.Event()


class Copies:
    """Reads the output of each copy of a job from the start of its container.

    Args:
        api: the API server.
        output: reads logs.
        job: uid of the job; pods of an earlier job with this name do not count.
        printer: prints the output.
        labels: labels of the copies by their index; an index that is missing is its own label.
        started: called with each copy that has started.
    """

    def __init__(
        self,
        api: Api,
        output: ContainerOutput,
        job: str,
        printer: Printer,
        labels: Mapping[int, str],
        started: Callable[[Copy], None] = lambda copy: None,
    ) -> None:
        self._started = started
        self._api, self._output, self._job, self._printer, self._labels = api, output, job, printer, labels
        self._known: dict[str, Copy] = {}
        self._readers: dict[asyncio.Task[None], Copy] = {}
        self._slots = asyncio.Semaphore(MOST_AT_ONCE)
        self._received = 0
        self._streams: Sequence[tuple[str, bool]] | None = None
        self._choosing = asyncio.Lock()

    def see(self, pod: Obj, *, exists: bool = True) -> None:
        """Process a pod: read its output once its container has started."""
        owners = pod["metadata"].get("ownerReferences") or ()
        if all(owner.get("uid") != self._job for owner in owners):
            return
        copy = self._known.get(pod["metadata"]["uid"])
        if copy is None and has_started(pod):
            index = int((pod["metadata"].get("labels") or {}).get(INDEX_LABEL) or 0)
            copy = Copy(pod, self._labels.get(index, str(index)))
            self._known[copy.uid] = copy
            self._readers[asyncio.create_task(self._read(copy))] = copy
            self._started(copy)
        if copy is not None and (not exists or has_ended(pod)):
            copy.ended.set()

    async def finish(self, silence: float) -> Sequence[Copy]:
        """Wait until all output has been printed; return the copies whose output is incomplete.

        Args:
            silence: seconds without a response after which the rest is abandoned.
        """
        while pending := [task for task in self._readers if not task.done()]:
            before = self._received
            done, _ = await asyncio.wait(pending, timeout=silence, return_when=asyncio.FIRST_COMPLETED)
            if not done and self._received == before and not self._printer.is_writing:
                break
        unread = [copy for task, copy in self._readers.items() if not task.done()]
        await self.stop()
        return unread

    async def stop(self) -> None:
        """Stop reading."""
        for task in self._readers:
            task.cancel()
        results = await asyncio.gather(*self._readers, return_exceptions=True)
        self._readers.clear()
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def _read(self, copy: Copy) -> None:
        async with self._slots:
            streams = await self._chosen_streams(copy)
            await asyncio.gather(*(self._read_stream(copy, stream, error=error) for stream, error in streams))
            await self._printer.end_output(copy.label)

    async def _read_stream(self, copy: Copy, stream: str, *, error: bool) -> None:
        """Read one stream until its container has ended, with retries after lost connections."""
        from kilauea.client.container_output import LogPosition

        position = LogPosition()
        while True:
            is_last = copy.ended.is_set()
            try:
                read = self._output.read(copy.key, copy.container, position, follow=not is_last, stream=stream)
                is_own = False
                async with aclosing(read) as pieces:
                    async for text in pieces:
                        # Logs are read by name, which may belong to a new pod by now. The last output of a deleted pod
                        # is its own.
                        if not is_own and await self._is_replaced(copy):
                            return
                        is_own = True
                        self._received += 1
                        await self._printer.output(copy.label, text, error=error)
            except ApiError as refusal:
                if refusal.code == 404 or (refusal.code and is_last):
                    return
                if refusal.code in _LASTING:
                    await self._printer.error(f"the output of {copy.key.name} cannot be read: {refusal}")
                    return
                await asyncio.sleep(RETRY_SECONDS)
            else:
                # A stopping server ends its responses, too: then the container may not have ended.
                if is_last or await _set_within(copy.ended, RETRY_SECONDS):
                    return
            if not await self._is_there(copy):
                return

    async def _is_there(self, copy: Copy) -> bool:
        """True if the pod still exists, and is not a later one with its name."""
        try:
            pod = await self._api.get(PODS, copy.key)
        except ApiError as error:
            return error.code != 404
        return bool(pod["metadata"]["uid"] == copy.uid)

    async def _is_replaced(self, copy: Copy) -> bool:
        """True if there is a later pod with this name."""
        try:
            pod = await self._api.get(PODS, copy.key)
        except ApiError:
            return False
        return bool(pod["metadata"]["uid"] != copy.uid)

    async def _chosen_streams(self, copy: Copy) -> Sequence[tuple[str, bool]]:
        """The streams to read, each with True for standard error.

        If both are written to the same place, they are read as one, so that their lines keep their order.
        """
        async with self._choosing:
            if self._streams is None:
                apart = not self._printer.is_one_place() and await self._output.knows_streams(copy.key, copy.container)
                self._streams = (("Stdout", False), ("Stderr", True)) if apart else (("", False),)
        return self._streams


async def _set_within(event: asyncio.Event, seconds: float) -> bool:
    """True if an event is set before a timeout."""
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


def _states(pod: Obj) -> Sequence[Obj]:
    return [status.get("state") or {} for status in part(pod, "status", "containerStatuses") or ()]


def has_started(pod: Obj) -> bool:
    """True if the container runs or has run."""
    return any("running" in state or "terminated" in state for state in _states(pod))


def has_ended(pod: Obj) -> bool:
    """True if the pod will not write any more output."""
    states = _states(pod)
    ended = part(pod, "status", "phase") in ("Succeeded", "Failed")
    return ended or (bool(states) and all("terminated" in state for state in states))


def exit_code(pods: Sequence[Obj]) -> int:
    """The highest exit code of some pods; 0 if none is known."""
    return max([int(part(state, "terminated", "exitCode") or 0) for pod in pods for state in _states(pod)], default=0)
