"""Kilauea: a batch scheduling system for Kubernetes, compatible with Volcano.

The Python API is `plan`, `explain` and `simulate`, with the types that they return; `kilauea.library` documents it.
They are imported when they are first used, so that `import kilauea` alone costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kilauea.library import Explanation, InvalidInput, Plan, Result, explain, plan, simulate
    from kilauea.version import __version__

__all__ = ["Explanation", "InvalidInput", "Plan", "Result", "__version__", "explain", "plan", "simulate"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "kilauea.version" if name == "__version__" else "kilauea.library"
    value = globals()[name] = getattr(import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
