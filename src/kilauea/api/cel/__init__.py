"""CEL, the Common Expression Language, with what Kubernetes adds to it.

`syntax` parses, `program` compiles, with `steps` for operators and `loops` for macros; `frames` are runs with a counted
cost. `operators` and `functions` are what expressions use, with `texts`, `times`, `network`, `quantities` and `semver`
beside them; `values` are the types. There is no type check
before an expression runs: names of variables and functions are checked, and how many arguments a function takes.
Selectors of devices are in `kilauea.api.device_selectors`.
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
    """The program of an expression; `variables` are the names that it may use, None if any.

    Raises:
        CelError: it cannot be compiled.
    """
    from kilauea.api.cel.program import compile_expression  # noqa: PLC0415 - most clusters have no expressions

    return compile_expression(expression, variables)
