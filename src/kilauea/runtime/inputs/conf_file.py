"""Scheduler configurations in files, with the line of each part."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kilauea.api.yamltext import YamlError, load_yaml_with_lines
from kilauea.engine.conf import ConfError, Finding, Path, SchedulerConf, inspect_conf
from kilauea.engine.cycle import default_conf
from kilauea.runtime.inputs.files import SourceError
from kilauea.simulator.extensions import BUILT_IN, Extensions

STANDARD_INPUT = "-"


@dataclass(frozen=True)
class ConfFile:
    """A configuration file after YAML was parsed."""

    name: str
    """The path, or `standard input`."""
    document: Any = None
    places: Mapping[Path, tuple[int, int]] = field(default_factory=dict)
    fault: YamlError | None = None
    """The syntax error if it is not YAML; there is no document then."""

    def place(self, path: Path) -> tuple[int, int]:
        """Return line and column, from 1, of a part of the document or of its parent; zeros if unknown."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.places:
                return self.places[path[:end]]
        return 0, 0

    def at(self, path: Path) -> str:
        """Return `file:line` of a part of the document."""
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
    """Parse a configuration.

    Args:
        name: name of the file, for messages.
        data: content of the file.
    """
    try:
        document, places = load_yaml_with_lines(data)
    except YamlError as error:
        return ConfFile(name, fault=error)
    return ConfFile(name, document, places)


def read_conf(path: str | None, extensions: Extensions = BUILT_IN) -> SchedulerConf:
    """Return the scheduler configuration in a file; the built-in one without a path. Findings begin with file and line.

    Raises:
        SourceError: the file cannot be read, or is not YAML.
        ConfError: the configuration is invalid.
    """
    if path is None:
        return default_conf()
    return conf_in(read_conf_file(path), extensions)


def conf_in(file: ConfFile, extensions: Extensions = BUILT_IN) -> SchedulerConf:
    """Return the scheduler configuration in a file that was read.

    Raises:
        SourceError: it is not YAML.
        ConfError: the configuration is invalid.
    """
    path = file.name
    if file.fault is not None:
        raise SourceError(f"{path}: {file.fault}")
    conf = inspect_conf(file.document, extensions.plugins, extensions.actions)
    findings = [_placed(finding, file) for finding in conf.findings]
    if any(finding.error for finding in findings):
        raise ConfError(findings)
    return dataclasses.replace(conf, findings=tuple(findings))


def _placed(finding: Finding, file: ConfFile) -> Finding:
    where = file.at(finding.path)
    return dataclasses.replace(finding, where=f"{where}: {finding.where}" if finding.where else where)
