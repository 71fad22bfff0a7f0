"""Output of a container on its way to its log and to attached clients."""

from __future__ import annotations

import contextlib
import os
from functools import partial

from kilauea.kubelet.processes.supervisor.log_files import LogFile
from kilauea.kubelet.processes.supervisor.loop import Loop, would_block

_AT_ONCE = 64 * 1024
_LAST = 4 * 1024 * 1024
"""Maximum bytes to read after the end of a container: another process may keep its output open and write more."""
_BACKLOG = 4 * 1024 * 1024
"""Bytes buffered for an attached client that does not read, before it is disconnected."""


class Subscriber:
    """Receives a copy of a container's output, as fast as it reads.

    Args:
        loop: the event loop.
        descriptors: pipes to which each stream is written.
    """

    def __init__(self, loop: Loop, descriptors: dict[str, int]) -> None:
        self._loop = loop
        self._descriptors = descriptors
        self._waiting: dict[str, bytearray] = {}
        self._ended = False
        for descriptor in descriptors.values():
            os.set_blocking(descriptor, False)

    def send(self, stream: str, data: bytes) -> None:
        """Send output without waiting; a client that reads far too slowly is disconnected."""
        descriptor = self._descriptors.get(stream)
        if descriptor is None:
            return
        if stream in self._waiting:
            self._waiting[stream] += data
            if len(self._waiting[stream]) > _BACKLOG:
                self.close()
            return
        rest = self._write(stream, data)
        if rest:
            self._waiting[stream] = bytearray(rest)
            self._loop.watch_writable(descriptor, lambda: self._go_on(stream))

    def end(self) -> None:
        """Disconnect as soon as everything has been sent."""
        self._ended = True
        for stream in [stream for stream in self._descriptors if stream not in self._waiting]:
            os.close(self._descriptors.pop(stream))

    def close(self) -> None:
        """Disconnect now."""
        for stream, descriptor in self._descriptors.items():
            if stream in self._waiting:
                self._loop.forget(descriptor)
            os.close(descriptor)
        self._descriptors.clear()
        self._waiting.clear()

    def _write(self, stream: str, data: bytes | bytearray) -> bytes | bytearray:
        """Write as much as the pipe accepts; return the rest."""
        try:
            return data[os.write(self._descriptors[stream], data) :]
        except OSError as error:
            if would_block(error):
                return data
            if stream not in self._waiting:
                os.close(self._descriptors.pop(stream))
            return b""

    def _go_on(self, stream: str) -> None:
        rest = self._write(stream, self._waiting[stream])
        if rest:
            self._waiting[stream] = bytearray(rest)
            return
        del self._waiting[stream]
        self._loop.forget(self._descriptors[stream])
        if self._ended:
            os.close(self._descriptors.pop(stream))


class Outputs:
    """The output of one container.

    Args:
        loop: the event loop.
        log: its log.
        descriptors: from which each stream is read.
    """

    def __init__(self, loop: Loop, log: LogFile, descriptors: dict[str, int]) -> None:
        self._loop = loop
        self._log = log
        self._descriptors = descriptors
        self.subscribers: list[Subscriber] = []
        for stream, descriptor in descriptors.items():
            os.set_blocking(descriptor, False)
            loop.watch(descriptor, partial(self._read, stream))

    def finish(self) -> None:
        """Send the remaining output after the end of the container, and close everything."""
        for stream in list(self._descriptors):
            read = 0
            while read < _LAST and (count := self._read(stream)):
                read += count
            self._close(stream)
        self._log.close()
        for subscriber in self.subscribers:
            subscriber.end()

    def _read(self, stream: str) -> int:
        """Send the available output; return the number of bytes."""
        descriptor = self._descriptors.get(stream)
        if descriptor is None:
            return 0
        try:
            data = os.read(descriptor, _AT_ONCE)
        except OSError as error:
            if not would_block(error):
                # The last process with the terminal open has ended.
                self._close(stream)
            return 0
        if not data:
            self._close(stream)
            return 0
        self._log.write(stream, data)
        for subscriber in self.subscribers:
            subscriber.send(stream, data)
        return len(data)

    def _close(self, stream: str) -> None:
        descriptor = self._descriptors.pop(stream, None)
        if descriptor is not None:
            self._loop.forget(descriptor)
            with contextlib.suppress(OSError):
                os.close(descriptor)
