"""Types of CEL expressions, and their maximum cost, before they run.

`types` has the types and their compatibility, `signatures` the signatures of functions, `expansion` replaces macros by
folds, `checker` finds the type of each part of an expression and its errors, and `costs` estimates the maximum cost
from the sizes that the types of the variables allow. Limits and messages are those of Kubernetes.
"""

from __future__ import annotations

from kilauea.api.cel.typing.checker import Checked, check_expression
from kilauea.api.cel.typing.costs import estimated_cost
from kilauea.api.cel.typing.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    Type,
    list_of,
    map_of,
    object_of,
    opaque,
    optional_of,
)

__all__ = [
    "BOOL", "BYTES", "DOUBLE", "DURATION", "DYN", "INT", "STRING", "TIMESTAMP", "Checked", "Type",
    "check_expression", "estimated_cost", "list_of", "map_of", "object_of", "opaque", "optional_of",
]  # fmt: skip
