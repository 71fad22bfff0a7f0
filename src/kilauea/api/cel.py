"""CEL, behind two small protocols: the package `common-expression-language` if it is installed.

Without it (`pip install kilauea[cel]` brings it) the rules of custom resources are not enforced: definitions are
served, and a line in the log names each that has rules. What the package cannot read but Kubernetes can (`self.?field`,
`cel.bind`) is treated alike. Selectors of devices are in `kilauea.api.device_selectors`.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any, Protocol

from kilauea.api.cel_library import FUNCTIONS


class CelError(ValueError):
    """An expression that cannot be compiled, or that fails on values; the message says why."""


class CelUnsupportedError(CelError):
    """An expression that Kubernetes understands, and that is beyond what is installed here."""


Program = Callable[[Mapping[str, Any]], Any]
"""From variables to the value of an expression; raises CelError."""


class Cel(Protocol):
    """Compiles expressions."""

    def compile(self, expression: str) -> Program:
        """The program of an expression; raises CelError."""
        ...


_BEYOND = re.compile(r"\.\?|\[\?|\boptional\.|\bcel\.bind\(|\.(transform\w+|sortBy)\(")
"""Syntax of Kubernetes' CEL that the package does not have."""
_OWN = (
    "all exists exists_one map filter has size contains startsWith endsWith matches int uint double string bytes bool "
    "timestamp duration type dyn getFullYear getMonth getDate getDayOfMonth getDayOfWeek getDayOfYear getHours "
    "getMinutes getSeconds getMilliseconds"
).split()
"""The language's own functions; those of Kubernetes come beside them."""
_ENGLISH = (
    (re.compile(r"^'(.*)'$", re.DOTALL), r"no such key: \1"),
    (re.compile(r"^division by zero.*", re.DOTALL), "division by zero"),
    (re.compile(r"^No such overload.*", re.DOTALL), "no such overload"),
)


class RustCel:
    """The package `common-expression-language`."""

    def __init__(self, module: Any, functions: Mapping[str, Callable[..., Any]] = FUNCTIONS) -> None:
        self._module = module
        self._functions = dict(functions)
        self._known = frozenset(_OWN) | frozenset(functions)

    def compile(self, expression: str) -> Program:
        """The program of an expression; raises CelError."""
        if _BEYOND.search(expression):
            raise CelUnsupportedError(f"the installed CEL cannot read this: {expression}")
        try:
            program = self._module.compile(expression)
        except ValueError as error:
            raise CelError(f"compilation failed: {str(error).partition(': ')[2] or error}") from error
        unknown = {name for name in program.functions() if name.isalnum()} - self._known
        if unknown:
            raise CelUnsupportedError(f"the installed CEL has no function {', '.join(sorted(unknown))}: {expression}")

        def run(variables: Mapping[str, Any]) -> Any:
            try:
                return program.execute(self._module.Context(variables=dict(variables), functions=self._functions))
            except (ValueError, TypeError, KeyError, ArithmeticError, RuntimeError, LookupError) as error:
                raise CelError(_words(str(error))) from error

        return run


def _words(text: str) -> str:
    """An error in the words of the real server, as far as they are known."""
    for pattern, words in _ENGLISH:
        text, changed = pattern.subn(words, text)
        if changed:
            break
    return text


@cache
def installed_cel() -> Cel | None:
    """The language, None if it is not installed."""
    return cel_with(FUNCTIONS)


def cel_with(functions: Mapping[str, Callable[..., Any]]) -> Cel | None:
    """The language with these functions beside its own; None if it is not installed."""
    try:
        return RustCel(importlib.import_module("cel"), functions)
    except ImportError:
        return None


@lru_cache(maxsize=1024)
def compiled(expression: str) -> Program | None:
    """The program of an expression; None if the language is not installed.

    Raises:
        CelError: it cannot be compiled.
    """
    language = installed_cel()
    return None if language is None else language.compile(expression)
