"""Built-in and custom plugins and actions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from kilauea.engine.action import Action
from kilauea.engine.actions import ACTIONS
from kilauea.engine.extension.guard import UNWATCHED, Watchdog
from kilauea.engine.extension.outside import NO_OUTSIDE, Outside
from kilauea.engine.plugin import Plugin
from kilauea.engine.plugins import PLUGINS


def unwatched() -> AbstractContextManager[Watchdog]:
    """Return a watchdog that stops nothing."""
    return nullcontext(UNWATCHED)


@dataclass(frozen=True)
class Extensions:
    """All plugins and actions by name.

    Attributes:
        plugins: by name.
        actions: by name.
        warnings: problems of installed packages, which are left out.
        watch: returns a watchdog that stops calls into the user's code, as long as the context lasts.
        outside: carries requests of plugins to servers.
    """

    plugins: Mapping[str, type[Plugin]] = field(default_factory=lambda: PLUGINS)
    actions: Mapping[str, type[Action]] = field(default_factory=lambda: ACTIONS)
    warnings: tuple[str, ...] = ()
    watch: Callable[[], AbstractContextManager[Watchdog]] = unwatched
    outside: Outside = NO_OUTSIDE

    @property
    def bring_any(self) -> bool:
        """True if there are plugins or actions of the user."""
        return len(self.plugins) > len(PLUGINS) or len(self.actions) > len(ACTIONS)

    def watched(self) -> AbstractContextManager[Watchdog]:
        """Return the watchdog of a cycle; without custom code, nothing needs to be stopped."""
        return self.watch() if self.bring_any else unwatched()


BUILT_IN = Extensions()
