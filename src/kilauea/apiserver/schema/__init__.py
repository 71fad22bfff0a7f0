"""What objects of each kind look like, and what follows from it: defaults, unknown fields, pruning, validation.

`nodes` holds the schema itself, `builtin` the kinds of Kubernetes and `custom` those of custom resources.
"""

from kilauea.apiserver.schema.builtin import (
    builtin_resources,
    builtin_schema,
    definition,
    definition_name,
    kubernetes_version,
    openapi_definitions,
)
from kilauea.apiserver.schema.custom import from_openapi
from kilauea.apiserver.schema.nodes import Schema

__all__ = [
    "Schema",
    "builtin_resources",
    "builtin_schema",
    "definition",
    "definition_name",
    "from_openapi",
    "kubernetes_version",
    "openapi_definitions",
]
