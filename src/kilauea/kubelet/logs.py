"""Logs of containers on this machine, read from the files that their runtime writes.

The newest lines are in `<attempt>.log`, older ones in `<attempt>.log.1`, `<attempt>.log.2` and so on: when the file is
full, each is renamed to the next. A reader keeps the file open that it reads, so it loses nothing when that is renamed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast

from kilauea.api.container_logs import (
    LogEntry,
    LogReader,
    LogSource,
    LogStream,
    no_previous_run,
    not_available,
    waits_to_start,
)
from kilauea.api.ports import Obj
from kilauea.kubelet.container_runtime import LOG_FILES, ContainerState
from kilauea.kubelet.container_statuses import attempt_of, status_of
from kilauea.kubelet.names import container_log, pod_logs, runtime_id

BLOCK = 64 * 1024
_ENTRY = re.compile(rb"([0-9T:.+Z-]+) (stdout|stderr) ([FP])[^ \n]* ?(.*)\n")
_FULL = re.compile(rb"^[^ \n]+ std(?:out|err) F.*\n", re.MULTILINE)
_PART = re.compile(rb"^[^ \n]+ std(?:out|err) P.*\n", re.MULTILINE)
_QUIET_LOOKS = 2
"""Consecutive reads that must return nothing after a container has ended: its last output may still be in transit."""


class LogFiles:
    """The logs of containers of this machine, and those of pods that are simulated.

    Args:
        data: folder of the cluster.
        find: returns the state of a container by its id; None for an unknown one.
        runs: True for the name of a node whose pods run here.
        otherwise: the logs of all other pods; None if there are no others.
    """

    def __init__(
        self,
        data: Path,
        find: Callable[[str], ContainerState | None],
        runs: Callable[[str], bool],
        otherwise: LogSource | None,
    ) -> None:
        self._data = data
        self._find = find
        self._runs = runs
        self._otherwise = otherwise

    def open(self, pod: Obj, container: str, *, previous: bool, tail: int | None, now: Callable[[], int]) -> LogReader:
        """Open the log of a container; see `LogSource`."""
        if self._otherwise is not None and not self._runs((pod.get("spec") or {}).get("nodeName") or ""):
            return self._otherwise.open(pod, container, previous=previous, tail=tail, now=now)
        id = _id_of_run(pod, container, previous)
        attempt = attempt_of(pod, container, id)
        if attempt is None:
            raise not_available(container, pod["metadata"]["name"])
        metadata = pod["metadata"]
        folder = pod_logs(self._data, metadata["namespace"], metadata["name"], metadata["uid"])

        def is_running() -> bool:
            state = self._find(id)
            return state is not None and state.state == "running"

        return FileReader(container_log(folder, container, attempt), tail, is_running)


def _id_of_run(pod: Obj, container: str, previous: bool) -> str:
    """Return the id of the run whose log is requested, by the rules of kubelets.

    Raises:
        ApiError: there is none.
    """
    name, status = pod["metadata"]["name"], status_of(pod, container)
    if not status:
        raise not_available(container, name)
    state = status.get("state") or {}
    last = ((status.get("lastState") or {}).get("terminated") or {}).get("containerID") or ""
    if previous:
        if not last:
            raise no_previous_run(container, name)
        return runtime_id(last)
    ended = (state.get("terminated") or {}).get("containerID") or ""
    found: str = status.get("containerID") or "" if state.get("running") is not None else ended or last
    if not found:
        raise waits_to_start(container, name, (state.get("waiting") or {}).get("reason") or "no logs yet")
    return runtime_id(found)


class FileReader:
    """Reads the files of one run of a container.

    Args:
        path: of the newest file.
        tail: the number of lines at the end to read; None for all.
        is_running: returns True while the container may write more.
    """

    def __init__(self, path: Path, tail: int | None, is_running: Callable[[], bool]) -> None:
        self._path = path
        self._is_running = is_running
        self._descriptor = -1
        self._rest = b""
        self._quiet = 0
        self.ended = False
        self._search = self._begin(tail)

    def begin(self) -> Iterator[None]:
        """Find the first line to read, a block in each step."""
        return self._search

    def read(self) -> Sequence[LogEntry]:
        """Return the next entries, about 64 KiB."""
        for _ in self._search:
            pass
        runs = self._is_running()
        entries: list[LogEntry] = []
        while not entries:
            block = self._block()
            if not block:
                break
            entries = self._entries(block)
        self._quiet = 0 if entries or runs else self._quiet + 1
        self.ended = self._quiet >= _QUIET_LOOKS
        return entries

    def close(self) -> None:
        """Close the file, and those in which the first line is searched."""
        self._search.close()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _block(self) -> bytes:
        """The next bytes, from the next file at the end of one; empty at the end."""
        while True:
            block = os.read(self._descriptor, BLOCK) if self._descriptor >= 0 else b""
            following = None if block else self._following()
            if following is None:
                return block
            # The file has another name now, and may have been written to between the last read and its renaming.
            block = os.read(self._descriptor, BLOCK) if self._descriptor >= 0 else b""
            if block:
                os.close(following)
                return block
            self.close()
            self._descriptor, self._rest = following, b""

    def _entries(self, block: bytes) -> list[LogEntry]:
        """The entries in a block; an incomplete one at its end is kept."""
        text = self._rest + block
        end = text.rfind(b"\n") + 1
        self._rest = text[end:]
        return [
            LogEntry(time.decode(), cast(LogStream, stream.decode()), data + b"\n" if tag == b"F" else data)
            for time, stream, tag, data in _ENTRY.findall(text, 0, end)
        ]

    def _begin(self, tail: int | None) -> Generator[None, None, None]:
        opened: list[tuple[Path, int]] = []  # all at first, as files can be renamed between two steps
        try:
            for path in self._paths():
                with suppress(FileNotFoundError):
                    opened.append((path, os.open(path, os.O_RDONLY | os.O_CLOEXEC)))
            number, offset = 0, 0
            if tail is not None:
                for number in reversed(range(len(opened))):
                    path, descriptor = opened[number]
                    found, offset = yield from _start_of_tail(descriptor, tail, is_newest=path == self._path)
                    tail -= found
                    if tail <= 0:
                        break
            if opened:
                _, self._descriptor = opened.pop(number)
                os.lseek(self._descriptor, offset, os.SEEK_SET)
        finally:
            for _, descriptor in opened:
                os.close(descriptor)

    def _paths(self) -> Iterator[Path]:
        """The existing files, oldest first."""
        for number in range(LOG_FILES, -1, -1):
            path = self._path.with_name(f"{self._path.name}.{number}") if number else self._path
            if path.exists():
                yield path

    def _following(self) -> int | None:
        """Open the file after the one that is read; None if that is the newest."""
        own = os.fstat(self._descriptor).st_ino if self._descriptor >= 0 else None
        with suppress(FileNotFoundError):
            if os.stat(self._path).st_ino == own:
                return None
        following: int | None = None
        for path in reversed(list(self._paths())):  # newest first, as they move to older names meanwhile
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            if os.fstat(descriptor).st_ino == own:
                os.close(descriptor)
                return following
            if following is not None:
                os.close(following)
            following = descriptor
        return following


def _start_of_tail(descriptor: int, tail: int, *, is_newest: bool) -> Generator[None, None, tuple[int, int]]:
    """Return the number of lines at the end of a file, up to a maximum, and the position of the first of them.

    The file is read from its end, a block in each step; parts of a long line count with its last one.
    """
    end = os.lseek(descriptor, 0, os.SEEK_END)
    if tail == 0:
        return 0, end
    found, head = 0, b""
    while end > 0:
        start = max(end - BLOCK, 0)
        text = os.pread(descriptor, end - start, start) + head
        # The first line may be incomplete: it is counted with the previous block.
        whole = text.find(b"\n") + 1 if start else 0
        lines = [match.end() for match in _FULL.finditer(text, whole)] if whole or not start else []
        if is_newest and not head and _PART.search(text, lines[-1] if lines else whole):
            found = 1  # the last line has not ended
        if found + len(lines) > tail:
            return tail, start + lines[found - tail - 1]
        found += len(lines)
        head, end = text[:whole] if whole or not start else text, start
        yield
    return found, 0
