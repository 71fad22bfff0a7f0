"""Schemas of all kinds, and the operations based on them: defaults, unknown fields, pruning, validation.

`nodes` has the schema itself, `builtin` the kinds of Kubernetes and `custom` those of custom resources. `read_builtin`
reduces an object of a built-in kind to the values of Go's types, then `apply_defaults` sets defaults. A custom resource
is pruned by `read_custom`, gets defaults, and is then validated.
"""

from kilauea.apiserver.schema.builtin import (
    builtin_resources,
    builtin_schema,
    definition,
    definition_name,
    descriptions,
    is_known_kind,
    kubernetes_version,
    openapi_definitions,
)
from kilauea.apiserver.schema.custom import from_openapi, read_custom
from kilauea.apiserver.schema.defaults import apply_defaults, has_defaults
from kilauea.apiserver.schema.nodes import Schema
from kilauea.apiserver.schema.reading import DecodeError, forget_empty, read_builtin
from kilauea.apiserver.schema.repeated import fields_in_order, repeated_fields
from kilauea.apiserver.schema.unknown import prune, unknown_field, unknown_fields
from kilauea.apiserver.schema.validation import validate, violations

__all__ = [
    "DecodeError",
    "Schema",
    "apply_defaults",
    "builtin_resources",
    "builtin_schema",
    "definition",
    "definition_name",
    "descriptions",
    "fields_in_order",
    "forget_empty",
    "from_openapi",
    "has_defaults",
    "is_known_kind",
    "kubernetes_version",
    "openapi_definitions",
    "prune",
    "read_builtin",
    "read_custom",
    "repeated_fields",
    "unknown_field",
    "unknown_fields",
    "validate",
    "violations",
]
