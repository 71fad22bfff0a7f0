"""The configuration, reloaded when its file changes; if it is invalid, the previous one remains active.

The file is polled for its inode and modification time instead of watched: this also detects the symbolic link that
Kubernetes replaces when a mounted ConfigMap changes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from kilauea.engine.conf import ConfError, SchedulerConf
from kilauea.engine.cycle import default_conf
from kilauea.runtime.inputs.conf_file import read_conf
from kilauea.runtime.inputs.files import SourceError
from kilauea.simulator.extensions import BUILT_IN, Extensions

Stamp = tuple[int, int, int] | None


@dataclass(frozen=True)
class Reading:
    """The outcome of reading the file."""

    fault: str
    """The reason why it is not used; empty if it is used."""
    warnings: tuple[str, ...] = ()


class ConfReload:
    """The configuration in use.

    Args:
        path: the file; None for the built-in configuration.
        extensions: plugins and actions of the user.
        strict: fail without a valid file (`--disable-default-scheduler-config`).
        stamp: returns the identity of a file; None if it does not exist.
        read: reads a file. Other sources than files have their own functions for both.

    Raises:
        SourceError, ConfError: strict, and the file cannot be used.
    """

    def __init__(
        self,
        path: str | None,
        extensions: Extensions = BUILT_IN,
        *,
        strict: bool = False,
        stamp: Callable[[str], Stamp] | None = None,
        read: Callable[[str, Extensions], SchedulerConf] = read_conf,
    ) -> None:
        self._path = path
        self._extensions = extensions
        self._stamp_of = stamp or stamp_of
        self._conf_of = read
        self._stamp: Stamp = None
        self.conf = default_conf()
        self.fault = ""
        """The reason why the file is not used."""
        self.first = Reading("")
        if path is not None:
            self._stamp = self._stamp_of(path)
            self.first = self._read(path)
        if strict and path is None:
            raise SourceError("--disable-default-scheduler-config needs a file: specify it with --scheduler-conf")
        if strict and self.first.fault:
            raise SourceError(self.first.fault)

    def look(self) -> Reading | None:
        """Read the file if it has changed; None if it has not."""
        if self._path is None:
            return None
        stamp = self._stamp_of(self._path)
        if stamp == self._stamp:
            return None
        self._stamp = stamp
        return self._read(self._path)

    def _read(self, path: str) -> Reading:
        try:
            conf = self._conf_of(path, self._extensions)
        except (SourceError, ConfError) as error:
            self.fault = str(error)
            return Reading(self.fault)
        self.conf, self.fault = conf, ""
        return Reading("", tuple(str(finding) for finding in conf.findings))


def stamp_of(path: str) -> Stamp:
    """Return inode, modification time and size of a file; None if it does not exist."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
