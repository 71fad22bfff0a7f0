"""Answers requests about the history of a cluster, and receives the creators of objects from the server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress

from kilauea.api.ports import Resource
from kilauea.apiserver.admission import AdmissionStep, Effect
from kilauea.apiserver.admission.attributes import Attributes
from kilauea.history import answers
from kilauea.history.errors import HistoryError
from kilauea.history.store import History
from kilauea.runtime.history.recorder import Recorder, is_damage

PATIENCE_SECONDS = 5.0
"""Seconds within which watches should show stored writes; a history that lags further is served as it is."""
LOOK_SECONDS = 0.02


class ServedHistory:
    """Reads the history of a recorder; each request sees everything that happened before it.

    Args:
        recorder: the recorder of the history.
        now: the time, in microseconds since 1970.
        newest: returns the revision of the newest write to a kind.
    """

    def __init__(self, recorder: Recorder, now: Callable[[], int], newest: Callable[[Resource], int]) -> None:
        self._recorder = recorder
        self._now = now
        self._newest = newest

    async def answer(
        self, kind: str, plural: str, namespace: str, name: str, query: Mapping[str, str]
    ) -> bytes | Iterable[bytes] | None:
        """Return the body of a response; None if the job does not exist.

        Raises:
            ValueError: a parameter is invalid.
            LookupError: the history cannot be read now.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._caught_up()
        await self._recorder.flush(seen=True)
        try:
            try:
                return await self._read(kind, plural, namespace, name, query)
            except HistoryError as error:
                if not is_damage(error):
                    raise
                await self._recorder.repair()
                return await self._read(kind, plural, namespace, name, query)
        except HistoryError as error:
            raise LookupError(str(error)) from error

    async def _caught_up(self) -> None:
        """Wait until the watches have shown all current writes: they collect events before they show them."""
        wanted = {kind: self._newest(kind) for kind in self._recorder.versions}
        while any(int(version or 0) < wanted[kind] for kind, version in self._recorder.versions.items()):
            await asyncio.sleep(LOOK_SECONDS)

    async def _read(
        self, kind: str, plural: str, namespace: str, name: str, query: Mapping[str, str]
    ) -> bytes | Iterable[bytes] | None:
        if plural == answers.RECORDS:
            return await asyncio.to_thread(self._records, namespace, query)
        return await asyncio.to_thread(self._answer, kind, plural, namespace, name, query)

    def _answer(self, kind: str, plural: str, namespace: str, name: str, query: Mapping[str, str]) -> bytes | None:
        history = History.read(self._recorder.folder)
        try:
            if plural == answers.USAGE:
                return answers.encoded(kind, answers.usage_answer(history, namespace, query, self._now()))
            if not name:
                return answers.encoded(f"{kind}List", answers.jobs_answer(history, namespace, query))
            found = answers.job_answer(history, namespace, name, query)
            return None if found is None else answers.encoded(kind, found)
        finally:
            history.close()

    def _records(self, namespace: str, query: Mapping[str, str]) -> Iterator[bytes]:
        history = History.read(self._recorder.folder)
        pieces = answers.records_answer(history, namespace, query, self._now())

        def closing() -> Iterator[bytes]:
            try:
                yield from pieces
            finally:
                history.close()

        return closing()


class Submissions(AdmissionStep):
    """Reports the creators of jobs, pods and workloads to a recorder.

    Args:
        recorder: receives the reports.
    """

    name = "Submissions"
    kinds = frozenset(
        {
            ("batch.volcano.sh", "jobs"),
            ("batch", "jobs"),
            ("scheduling.volcano.sh", "podgroups"),
            ("apps", "statefulsets"),
            ("apps", "replicasets"),
            ("apps", "daemonsets"),
            ("", "pods"),
        }
    )

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def begin(self, attributes: Attributes) -> Effect | None:
        """Record the user of a creation; components of the cluster create objects for others."""
        user = attributes.user
        own = user.name.startswith("system:") and not user.name.startswith("system:serviceaccount:")
        if attributes.operation == "CREATE" and not attributes.subresource and not attributes.dry_run and not own:
            kind, group = attributes.resource.kind, attributes.resource.group
            about = (f"{kind}.{group}" if group else kind, attributes.namespace, attributes.object_name())
            self._recorder.created(*about, user.name, user.groups)
        return None
