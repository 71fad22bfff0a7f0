"""The steps of a new process before its command, executed without a copy of this process.

Copying the memory of an interpreter, and the pages that a child writes to, costs more than running a short program.
Like `posix_spawn`, `start` therefore lets the child use the memory of this process, which waits until the command runs.
The child must not run Python meanwhile: it proceeds from one C library call to the next by `makecontext`, which defines
what follows when a function returns.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Sequence
from typing import Any

SHARE_MEMORY, WAIT = 0x00000100, 0x00004000  # CLONE_VM, CLONE_VFORK
_SIGCHLD = 17
_ROOM = 16 * 1024
"""Bytes of a context, which needs 1 to 5 KiB, and of the stack of a step."""
_FAILED = 127
_WORD = ctypes.sizeof(ctypes.c_ulong)

_libc = ctypes.PyDLL(None, use_errno=True)

Step = tuple[str, Any, tuple[Any, ...]]
"""A name for errors, a function of the C library, and its arguments: numbers, bytes or values of `ctypes`."""


class Steps:
    """Contexts and stacks for steps, reused for each process.

    Raises:
        AttributeError: the C library does not support contexts (musl).
    """

    def __init__(self, most: int) -> None:
        self._clone = _libc.clone
        self._first = ctypes.cast(_libc.setcontext, ctypes.c_void_p)
        self._contexts = [ctypes.create_string_buffer(_ROOM) for _ in range(most + 1)]
        self._memory = mmap.mmap(-1, (most + 2) * _ROOM)
        self._stacks = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        _libc.makecontext.restype = None
        for number, context in enumerate(self._contexts):
            if _libc.getcontext(context) < 0:
                raise OSError(ctypes.get_errno(), "getcontext")
            # On all architectures a context begins with flags, the next context, and the stack: address, flags, size.
            start = (ctypes.c_ulong * 5).from_buffer(context)
            start[2], start[3], start[4] = self._stacks + number * _ROOM, 0, _ROOM

    def start(self, steps: Sequence[Step]) -> int:
        """Start a process that runs the steps, of which the last one is `execve`; return its id.

        It cannot stop between two steps. If a step before the last has failed, the process is killed at once.

        Raises:
            OSError: a step failed. `filename` is the name of the last step if it was that one.
        """
        ended: Step = ("", _libc._exit, (_FAILED,))
        for number, (_, function, values) in enumerate((*steps, ended)):
            self._set(number, function, values, has_next=number < len(steps))
        top = ctypes.c_void_p(self._stacks + len(self._memory))
        ctypes.set_errno(0)
        pid: int = self._clone(self._first, top, SHARE_MEMORY | WAIT | _SIGCHLD, self._contexts[0])
        error = ctypes.get_errno()  # the child's, too
        if pid < 0:
            raise OSError(error, os.strerror(error), "clone")
        if error:
            os.kill(pid, 9)  # also harmless if it has ended, as it was not waited for yet
            _, status = os.waitpid(pid, 0)
            failed_last = os.WIFEXITED(status) and os.WEXITSTATUS(status) == _FAILED
            raise OSError(error, os.strerror(error), steps[-1][0] if failed_last else "set up a process")
        return pid

    def _set(self, number: int, function: Any, values: tuple[Any, ...], *, has_next: bool) -> None:
        context = self._contexts[number]
        following = ctypes.addressof(self._contexts[number + 1]) if has_next else 0
        ctypes.c_ulong.from_buffer(context, _WORD).value = following
        arguments = [ctypes.c_long(each) if isinstance(each, int) else each for each in values]
        _libc.makecontext(context, ctypes.cast(function, ctypes.c_void_p), len(arguments), *arguments)
