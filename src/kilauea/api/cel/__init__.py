"""CEL, the Common Expression Language, with the extensions of Kubernetes.

`syntax` parses and `program` compiles, with `steps` for operators and `loops` for macros; `frames` are evaluations with
a counted cost. `operators`, `functions`, `texts`, `times`, `network`, `quantities` and `semver` implement operations;
`values` has the types. Compilation checks only the names of variables and functions and the number of arguments;
`typing` checks types.
Device selectors are in `kilauea.api.device_selectors`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from kilauea.api.cel.quantities import Quantity
from kilauea.api.cel.semver import is_semver, semver
from kilauea.api.cel.values import NONE, CelCostError, CelError, Optional

if TYPE_CHECKING:
    from kilauea.api.cel.program import Program

__all__ = ["NONE", "CelCostError", "CelError", "Optional", "Quantity", "compiled", "is_semver", "semver"]


@lru_cache(maxsize=1024)
def compiled(expression: str, variables: frozenset[str] | None = None) -> Program:
    """Return the program of an expression; `variables` are the allowed names, None for any.

    Raises:
        CelError: it cannot be compiled.
    """
    from kilauea.api.cel.program import compile_expression  # noqa: PLC0415 - most clusters have no expressions

    return compile_expression(expression, variables)
