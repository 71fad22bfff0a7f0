"""Watchdogs for the engine: they stop a custom plugin or action that does not return.

A `Hang` is raised inside the call, so that the cycle can be done again without the plugin. It is raised only inside the
user's code, never in the middle of the engine: frames of this package between the call and the current one postpone it.
It is raised again until the call ends, at shorter and shorter intervals, so that it eventually hits code that catches
everything outside of its `try`.

In the main thread a signal delivers it, which also wakes code that waits for the network or a lock. Elsewhere, and
where there are no interval timers, a thread delivers it; that reaches Python code only, so a call that waits in the
operating system stops when it returns. In neither case can a single call into compiled code be stopped before it
returns; that would take a separate process.
"""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from kilauea.engine.extension.guard import Hang, Kind, Watchdog

PLUGIN_SECONDS = 5.0
"""Longest time of one call into a plugin."""
ACTION_SECONDS = 60.0
"""Longest time of an action; an action places thousands of pods, while a call into a plugin is short."""
AGAIN = 0.001
"""Seconds between attempts to stop a call."""
LOOK = 0.01
"""Seconds between two checks of the thread."""
PATIENT = 10
"""Number of attempts after which they follow each other within microseconds."""

_PACKAGE = "kilauea"


@contextmanager
def watchdog(plugin_seconds: float = PLUGIN_SECONDS, action_seconds: float = ACTION_SECONDS) -> Iterator[Watchdog]:
    """A watchdog for calls in this thread, as long as the context lasts."""
    limits: dict[Kind, float] = {"plugin": plugin_seconds, "action": action_seconds}
    by_signal = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    dog = _SignalWatchdog(limits) if by_signal else _ThreadWatchdog(limits)
    dog.start()
    try:
        yield dog
    finally:
        dog.stop()


def _invoke(function: Callable[..., Any], arguments: tuple[object, ...]) -> Any:
    """The lowest frame in which a call may be stopped."""
    return function(*arguments)


def _in_own_code(frame: FrameType | None) -> bool:
    """True if no code of this package runs between a frame and the `_invoke` below it."""
    while frame is not None:
        if frame.f_code is _invoke.__code__:
            return True
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] == _PACKAGE:
            return False
        frame = frame.f_back
    return False


def _hang(seconds: float) -> Hang:
    return Hang(f"no answer after {seconds:g} s")


class _SignalWatchdog:
    """An interval timer fires at the deadline of the innermost call, and then every few milliseconds."""

    def __init__(self, limits: dict[Kind, float]) -> None:
        self._limits = limits
        self._deadlines: list[tuple[float, float]] = []
        """Deadline and limit of each running call, the innermost last."""
        self._raised = 0
        """Number of attempts to stop the current call."""

    def start(self) -> None:
        """Take over the alarm signal and its timer."""
        self._timer_before = signal.setitimer(signal.ITIMER_REAL, 0)
        self._handler_before = signal.signal(signal.SIGALRM, self._ring)

    def stop(self) -> None:
        """Restore them."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._handler_before or signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, *self._timer_before)

    def call(self, kind: Kind, function: Callable[..., Any], *arguments: object) -> Any:
        """The result of the function."""
        limit = self._limits[kind]
        self._deadlines.append((time.monotonic() + limit, limit))
        signal.setitimer(signal.ITIMER_REAL, limit)
        try:
            return _invoke(function, arguments)
        finally:
            # Nothing is raised from here on: this frame belongs to this package, see `_ring`.
            self._deadlines.pop()
            self._raised = 0
            left = max(self._deadlines[-1][0] - time.monotonic(), AGAIN) if self._deadlines else 0
            signal.setitimer(signal.ITIMER_REAL, left)

    def _ring(self, _: int, frame: FrameType | None) -> None:
        if not self._deadlines:
            return
        deadline, limit = self._deadlines[-1]
        if time.monotonic() < deadline or not _in_own_code(frame):
            signal.setitimer(signal.ITIMER_REAL, max(deadline - time.monotonic(), AGAIN))
            return
        self._raised += 1
        patience = AGAIN if self._raised < PATIENT else self._raised % 50 * 1e-6 + 1e-6
        signal.setitimer(signal.ITIMER_REAL, patience)
        raise _hang(limit)


class _ThreadWatchdog:
    """A thread checks the time, and makes the interpreter raise in the watched thread."""

    def __init__(self, limits: dict[Kind, float]) -> None:
        self._limits = limits
        self._deadlines: list[tuple[float, float]] = []
        self._watched = threading.get_ident()
        self._ended = threading.Event()
        self._raising = False
        self._thread = threading.Thread(target=self._watch, name="kilauea-watchdog", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._ended.set()
        self._thread.join()

    def call(self, kind: Kind, function: Callable[..., Any], *arguments: object) -> Any:
        """The result of the function."""
        limit = self._limits[kind]
        depth = len(self._deadlines)
        self._deadlines.append((time.monotonic() + limit, limit))
        try:
            return _invoke(function, arguments)
        except Hang as hang:
            hang.args = _hang(limit).args
            raise
        finally:
            # Wait for an exception that the thread is about to raise; take it back, or drop it if it arrives here.
            ended = False
            while not ended:
                try:
                    del self._deadlines[depth:]
                    while self._raising:
                        time.sleep(0)
                    _raise_in(self._watched, None)
                    ended = True
                except Hang:
                    pass

    def _watch(self) -> None:
        while not self._ended.wait(LOOK):
            self._raising = True
            deadline = self._deadlines[-1][0] if self._deadlines else float("inf")
            if time.monotonic() >= deadline and _in_own_code(sys._current_frames().get(self._watched)):
                _raise_in(self._watched, Hang)
            self._raising = False


def _raise_in(thread: int, what: type[BaseException] | None) -> None:
    """Make the interpreter raise an exception in a thread at its next step; None cancels a pending one."""
    given = None if what is None else ctypes.py_object(what)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), given)
