"""The CustomResourceDefinitions of all Volcano kinds, made from the wire types of `kilauea.api`.

`schema` turns types into structural schemas; what types do not say (limits, defaults, words, Kubernetes' own types
within them) is in the tables of `*_facts`. `kinds` has names and columns, `definitions` puts all together.
"""

from kilauea.api.crds.definitions import definition_text, definitions
from kilauea.api.crds.kinds import KINDS, CustomKind

__all__ = ["KINDS", "CustomKind", "definition_text", "definitions"]
