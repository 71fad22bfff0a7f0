"""The base of plugins: a plugin is created for each session, and registers its functions when the session opens."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from kilauea.engine.conf import PluginConf
from kilauea.engine.session import Session


@dataclasses.dataclass(frozen=True)
class NoArguments:
    """No arguments."""


class Plugin:
    """Base of all plugins.

    Class attributes:
        name: the name in the configuration.
        Arguments: dataclass of the arguments; each field is created with `kilauea.engine.conf.argument`.
        depends_on_time: True, the default, if the plugin may act although nothing has changed and nothing waits, for
            example evict pods at a time of day. If no plugin or action does, such cycles are skipped.
    """

    name: ClassVar[str] = ""
    Arguments: ClassVar[type[Any]] = NoArguments
    depends_on_time: ClassVar[bool] = True

    def __init__(self, conf: PluginConf, arguments: Any) -> None:
        self.conf = conf
        self.arguments = arguments

    def on_session_open(self, session: Session) -> None:
        """Register functions at the extension points of the session."""

    def on_session_close(self, session: Session) -> None:
        """Add the plugin's findings about the cycle."""
