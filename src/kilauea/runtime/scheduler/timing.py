"""Actions whose time is taken. The engine has no clock, so they are given one from outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kilauea.engine.action import Action
from kilauea.engine.session import Session


def timed(
    actions: Mapping[str, type[Action]], now: Callable[[], int], observe: Callable[[str, int], None]
) -> dict[str, type[Action]]:
    """The same actions; `observe` is told the name of each that was executed, and its microseconds."""
    return {name: _timed(of, now, observe) for name, of in actions.items()}


def _timed(of: type[Action], now: Callable[[], int], observe: Callable[[str, int], None]) -> type[Action]:
    def execute(self: Action, session: Session) -> None:
        started = now()
        try:
            of.execute(self, session)
        finally:
            observe(of.name, now() - started)

    # Faults are told with the module of the class, which is to be that of the action.
    return type(of.__name__, (of,), {"execute": execute, "__module__": of.__module__})
