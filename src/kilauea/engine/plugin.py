"""The base of plugins: a plugin is created for each session, and registers its functions when the session opens."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from kilauea.engine.conf import PluginConf
from kilauea.engine.session import Session


@dataclasses.dataclass(frozen=True)
class NoArguments:
    """Arguments of a plugin that takes none."""


class Plugin:
    """Base of all plugins.

    Class attributes:
        name: as it stands in the configuration.
        Arguments: dataclass of the arguments, each field made by `kilauea.engine.conf.argument`.
        depends_on_time: whether it may want something although nothing has changed and nothing waits, such as evictions
            at a time of the day. If not, no cycle is done then. True unless a plugin says otherwise.
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
        """Add what the plugin has to say about the outcome."""
