"""The event loop of the supervisor: descriptors, child processes and timers, in one thread."""

from __future__ import annotations

import contextlib
import errno
import heapq
import os
import selectors
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from itertools import count

OnReady = Callable[[], object]
OnExit = Callable[[int], None]


class Loop:
    """Calls registered functions; a callback that fails is reported and does not affect others."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, OnReady]] = []
        self._numbers = count()
        self._children: dict[int, OnExit] = {}
        self._unclaimed: dict[int, int] = {}
        self._soon: list[OnReady] = []
        self._stopped = False
        self.round = 0
        """Number of waits: events that were ready after the last wait are handled in the same round."""
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setblocking(False)
        self._wake = (ours, theirs)
        signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.watch(ours.fileno(), self._woken)

    def watch(self, descriptor: int, ready: OnReady) -> None:
        """Call a function whenever there is data to read."""
        self._selector.register(descriptor, selectors.EVENT_READ, (ready, None))

    def watch_both(self, descriptor: int, readable: OnReady, writable: OnReady | None) -> None:
        """Change the functions that are called for a watched descriptor."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if writable else 0)
        self._selector.modify(descriptor, events, (readable, writable))

    def watch_writable(self, descriptor: int, writable: OnReady) -> None:
        """Call a function whenever data can be written."""
        self._selector.register(descriptor, selectors.EVENT_WRITE, (None, writable))

    def forget(self, descriptor: int) -> None:
        """No longer watch a descriptor, before it is closed."""
        self._selector.unregister(descriptor)

    def at_exit(self, pid: int, ended: OnExit) -> None:
        """Call a function with the wait status of a new child process when it ends."""
        self._unclaimed.pop(pid, None)
        self._children[pid] = ended

    def at_exit_of_orphan(self, pid: int, ended: OnExit) -> None:
        """Call a function with the wait status of a process that another one created, which may have ended already."""
        status = self._unclaimed.pop(pid, None)
        if status is None:
            self._children[pid] = ended
        else:
            ended(status)

    def knows(self, pid: int) -> bool:
        """Return True if a child process is registered and runs."""
        return pid in self._children

    def after(self, seconds: float, call: OnReady) -> None:
        """Call a function once, later."""
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._numbers), call))

    def soon(self, call: OnReady) -> None:
        """Call a function once, after all callbacks that are ready now."""
        self._soon.append(call)

    def stop(self) -> None:
        """Return from `run`."""
        self._stopped = True

    def run(self) -> None:
        """Call due functions until `stop`."""
        while not self._stopped:
            calls, self._soon = self._soon, []
            for call in calls:
                _guarded(call)
            wait = max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else None
            ready = self._selector.select(wait)
            self.round += 1
            for key, events in ready:
                readable, writable = key.data
                # An earlier callback may have ended the watch of a ready descriptor, and another one may have its
                # number by now.
                if events & selectors.EVENT_READ and readable and self._watches(key):
                    _guarded(readable)
                if events & selectors.EVENT_WRITE and writable and self._watches(key):
                    _guarded(writable)
            while self._timers and self._timers[0][0] <= time.monotonic():
                _guarded(heapq.heappop(self._timers)[2])

    def _watches(self, key: selectors.SelectorKey) -> bool:
        found = self._selector.get_map().get(key.fd)
        return found is not None and found.data is key.data

    def _woken(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._wake[0].recv(4096)
        self.reap()

    def reap(self) -> None:
        """Call the functions for processes that have ended."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            ended = self._children.pop(pid, None)
            if ended is not None:
                _guarded(partial(ended, status))
            else:
                self._unclaimed[pid] = status
                if len(self._unclaimed) > 4096:
                    # Orphans of containers, for which no function is registered.
                    self._unclaimed.pop(next(iter(self._unclaimed)))


def _guarded(call: OnReady) -> None:
    try:
        call()
    except Exception:
        traceback.print_exc(file=sys.stderr)


def would_block(error: OSError) -> bool:
    """Return True if a non-blocking call failed only because it would have to wait."""
    return error.errno in (errno.EAGAIN, errno.EWOULDBLOCK)
