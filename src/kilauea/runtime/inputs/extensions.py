"""Custom plugins and actions, from folders (`--plugins-dir`) and installed packages.

Every `*.py` in a folder is loaded, except files whose name begins with `_`: those hold shared code and are imported as
`from ._name import ...`. Only classes that a file defines itself count. An installed package names classes or modules
under the entry point group `kilauea.plugins`. A problem in a folder is an error, because the user asked for the folder;
a problem in an installed package is a warning.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import inspect
import re
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from kilauea.engine.action import Action
from kilauea.engine.actions import ACTIONS
from kilauea.engine.conf import ALIASES
from kilauea.engine.extension.guard import describe
from kilauea.engine.plugin import Plugin
from kilauea.engine.plugins import PLUGINS
from kilauea.runtime.requests import HttpRequests
from kilauea.runtime.watchdog import watchdog
from kilauea.simulator.extensions import Extensions

ENTRY_POINTS = "kilauea.plugins"
"""The entry point group of installed packages."""
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")


class ExtensionError(Exception):
    """Plugins or actions of the user cannot be used; `problems` lists each with the reason and the fix."""

    def __init__(self, problems: Sequence[str]) -> None:
        several = "\n  ".join(["custom plugins and actions that cannot be used:", *problems])
        super().__init__(problems[0] if len(problems) == 1 else several)
        self.problems = tuple(problems)


def load_extensions(folders: Iterable[str], *, installed: bool = True) -> Extensions:
    """All plugins and actions: of this package, of the folders in order, and of installed packages if asked for.

    Raises:
        ExtensionError: something in a folder cannot be used.
    """
    collector = _Collector()
    problems: list[str] = []
    for folder in folders:
        package = _package_of(Path(folder))
        for file in _files(Path(folder), problems):
            problems.extend(collector.take_file(file, package))
    if problems:
        raise ExtensionError(problems)
    warnings: list[str] = list(collector.warnings)
    if installed:
        found = entry_points(group=ENTRY_POINTS)
        for entry in sorted(found, key=lambda e: (e.name, e.value)):
            warnings.extend(f"{problem}; it is left out" for problem in collector.take_entry_point(entry))
    return Extensions(collector.plugins, collector.actions, tuple(warnings), watchdog, HttpRequests())


def _files(folder: Path, problems: list[str]) -> Iterator[Path]:
    if not folder.is_dir():
        what = "is a file: specify the folder that contains it" if folder.exists() else "does not exist"
        problems.append(f"plugins folder {folder} {what}")
        return
    files = sorted(f for f in folder.glob("*.py") if not f.name.startswith("_"))
    if not files:
        problems.append(f"plugins folder {folder} contains no .py files: put one plugin or action into each file")
    yield from files


class _Collector:
    """Plugins and actions by name, with their sources."""

    def __init__(self) -> None:
        self.plugins: dict[str, type[Plugin]] = dict(PLUGINS)
        self.actions: dict[str, type[Action]] = dict(ACTIONS)
        self.warnings: list[str] = []
        self._sources: dict[tuple[type[Any], str], str] = {}

    def take_file(self, file: Path, package: str) -> list[str]:
        """Add the classes of a file, which is imported as part of a package; return the problems."""
        try:
            module = _import_file(file, package)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a file may do anything, even sys.exit()
            return [f"{file}{_line_of(error, file)} cannot be imported: {describe(error)}{_advice(error)}"]
        classes = _classes_of(module)
        if not classes:
            how = "derive a class from Plugin or Action of kilauea.engine, or let the file's name begin with _"
            self.warnings.append(f"{file} defines no plugin and no action: {how}")
        return [problem for found in classes for problem in self._take(found, str(file))]

    def take_entry_point(self, entry: EntryPoint) -> list[str]:
        """Add the classes that an installed package names; return the problems."""
        package = entry.dist.name if entry.dist is not None else "unknown"
        source = f"entry point {entry.name} = {entry.value} of package {package}"
        try:
            found = entry.load()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return [f"{source} cannot be loaded: {describe(error)}"]
        classes = _classes_of(found) if isinstance(found, ModuleType) else [found]
        if not classes or not all(inspect.isclass(c) and issubclass(c, (Plugin, Action)) for c in classes):
            return [
                f"{source} is neither a plugin nor an action: name a class derived from Plugin or Action, or its module"
            ]
        return [problem for c in classes for problem in self._take(c, source)]

    def _take(self, found: type[Any], source: str) -> list[str]:
        base, article = (Plugin, "a plugin") if issubclass(found, Plugin) else (Action, "an action")
        label = f"{source}: class {found.__name__}"
        name = found.name
        if not isinstance(name, str) or not name:
            return [f'{label} has no name: write name = "..." in it, or let its name begin with _ if it is only a base']
        if not _NAME.fullmatch(name):
            return [f"{label} has the name {name!r}: use letters, digits, dots and dashes"]
        if name in ALIASES:
            return [f"{label}: {name} is an alias of plugin {ALIASES[name]}: choose a different name"]
        taken: Mapping[str, type[Any]] = self.plugins if base is Plugin else self.actions
        if name in taken:
            by = self._sources.get((base, name), "kilauea itself")
            return [f"{label}: there is already {article} {name} in {by}: choose a different name"]
        problem = _arguments_problem(found.Arguments)
        if problem:
            return [f"{label}: {problem}"]
        if base is Plugin:
            self.plugins[name] = found
        else:
            self.actions[name] = found
        self._sources[base, name] = source
        return []


def _classes_of(module: ModuleType) -> list[type[Any]]:
    """Plugins and actions that a module defines, in its order; classes named `_...` are bases of others."""
    return [
        found
        for found in dict.fromkeys(filter(inspect.isclass, vars(module).values()))
        if issubclass(found, (Plugin, Action))
        and found.__module__ == module.__name__
        and not found.__name__.startswith("_")
    ]


def _arguments_problem(arguments: object) -> str:
    if not inspect.isclass(arguments) or not dataclasses.is_dataclass(arguments):
        return "Arguments is not a dataclass: add @dataclass(frozen=True) above it"
    loose = [f.name for f in dataclasses.fields(arguments) if "key" not in f.metadata]
    how = 'write it as argument("key", default, "what it is for"), from kilauea.engine.conf'
    return f"field {loose[0]} of Arguments has no key: {how}" if loose else ""


# --- importing


def _package_of(folder: Path) -> str:
    """Name of a package for the folder; earlier imports from it are dropped."""
    path = str(folder.resolve())
    name = f"kilauea_plugins_{hashlib.sha256(path.encode()).hexdigest()[:12]}"
    for known in [m for m in sys.modules if m.partition(".")[0] == name]:
        del sys.modules[known]
    package = ModuleType(name)
    package.__path__ = [path]
    sys.modules[name] = package
    importlib.invalidate_caches()
    return name


def _import_file(file: Path, package: str) -> ModuleType:
    """Import a file as part of a package, without writing to its folder."""
    if "." in file.stem:
        raise ImportError("its name contains a dot, so Python cannot import it: rename it")
    writing, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        return importlib.import_module(f"{package}.{file.stem}")
    finally:
        sys.dont_write_bytecode = writing


def _line_of(error: BaseException, file: Path) -> str:
    """The line of the error in the file as `, line 7`; empty if unknown."""
    if isinstance(error, SyntaxError):
        return f", line {error.lineno}" if error.lineno else ""
    own = file.resolve()
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).resolve() == own]
    return f", line {lines[-1]}" if lines else ""


def _advice(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"; install {error.name.partition('.')[0]}, or correct the import"
    return ""
