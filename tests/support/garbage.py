"""What work leaves for the cyclic garbage collector, which frees it late, however large it is."""

from __future__ import annotations

import gc
from collections.abc import Callable

LARGE = 100_000
"""Characters or bytes of a value that must not be left."""


def large_garbage(work: Callable[[], object]) -> list[str]:
    """The types of the objects with large values that some work leaves in reference cycles.

    Frames count as well: the traceback of an error that a frame refers to is such a cycle.
    """
    flags, enabled = gc.get_debug(), gc.isenabled()
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        work()
        gc.collect()
        return sorted(type(each).__name__ for each in gc.garbage if any(map(_is_large, gc.get_referents(each))))
    finally:
        gc.set_debug(flags)
        gc.garbage.clear()
        gc.collect()
        if enabled:
            gc.enable()


def _is_large(value: object) -> bool:
    return isinstance(value, (str, bytes, bytearray)) and len(value) >= LARGE
