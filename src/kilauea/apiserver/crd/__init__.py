"""CustomResourceDefinitions: what may be in them, and the rules that they set for objects.

`definition_strategy` has the rules of the definitions themselves (`structural` those of their schemas), `rules` are the
CEL rules of objects (in the language of `kilauea.api.cel`), `columns` and `jsonpath` their tables. What the server does
with the kinds is in `kilauea.apiserver.custom_resources`.
"""
