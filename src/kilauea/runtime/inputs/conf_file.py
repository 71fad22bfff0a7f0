"""A scheduler configuration in a file, with the lines that its parts stand on."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kilauea.api.yamltext import YamlError, load_yaml_with_lines
from kilauea.engine.conf import Path
from kilauea.runtime.inputs.files import SourceError

STANDARD_INPUT = "-"


@dataclass(frozen=True)
class ConfFile:
    """What YAML made of a file."""

    name: str
    """The path, or `standard input`."""
    document: Any = None
    places: Mapping[Path, tuple[int, int]] = field(default_factory=dict)
    fault: YamlError | None = None
    """Why it is no YAML; then there is no document."""

    def place(self, path: Path) -> tuple[int, int]:
        """Line and column, from 1, of a part of the document, or of what holds it; zeros if it has none."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.places:
                return self.places[path[:end]]
        return 0, 0

    def at(self, path: Path) -> str:
        """`file:line` of a part of the document."""
        line, _ = self.place(path)
        return f"{self.name}:{line}" if line else self.name


def read_conf_file(path: str) -> ConfFile:
    """Read a configuration file; `-` is standard input.

    Raises:
        SourceError: the file cannot be read.
    """
    name = "standard input" if path == STANDARD_INPUT else path
    try:
        if path == STANDARD_INPUT:
            data = sys.stdin.buffer.read()
        else:
            with open(path, "rb") as file:
                data = file.read()
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror}") from error
    return conf_file(name, data)


def conf_file(name: str, data: bytes) -> ConfFile:
    """A configuration as it is written.

    Args:
        name: of the file, for messages.
        data: its content.
    """
    try:
        document, places = load_yaml_with_lines(data)
    except YamlError as error:
        return ConfFile(name, fault=error)
    return ConfFile(name, document, places)
