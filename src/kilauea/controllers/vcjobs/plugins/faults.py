"""How a plugin of a job says that it cannot do what the job asks."""

from __future__ import annotations


class PluginFault(Exception):
    """A plugin that does not exist, or that cannot use its arguments or the job.

    Attributes:
        plugin: its name.
        why: what is wrong and what to do, in words.
    """

    def __init__(self, plugin: str, why: str) -> None:
        super().__init__(f"plugin {plugin}: {why}")
        self.plugin = plugin
        self.why = why
