"""The base of actions. An action is one step of a cycle; it uses the session and does not know the plugins."""

from __future__ import annotations

from typing import Any, ClassVar

from kilauea.engine.plugin import NoArguments
from kilauea.engine.session import Session


class Action:
    """Base of all actions.

    Class attributes:
        name: the name in the configuration.
        Arguments: dataclass of the arguments under `configurations`, as for plugins.
        acts_unprompted: True, the default, if the action may act although nothing has changed and nothing waits. If no
            plugin or action does, such cycles are skipped.
    """

    name: ClassVar[str] = ""
    Arguments: ClassVar[type[Any]] = NoArguments
    acts_unprompted: ClassVar[bool] = True

    def __init__(self, arguments: Any) -> None:
        self.arguments = arguments

    def on_start(self, session: Session) -> None:
        """Called before `execute`."""

    def execute(self, session: Session) -> None:
        """Do the action's work on the session."""

    def on_end(self, session: Session) -> None:
        """Called after `execute`."""
