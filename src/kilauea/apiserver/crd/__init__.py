"""CustomResourceDefinitions: their validation, and the rules that they set for objects.

`definition_strategy` has the rules of the definitions themselves (`structural` those of their schemas), `rules` the CEL
rules of objects (in the language of `kilauea.api.cel`), `columns` and `jsonpath` their tables. The kinds are served by
`kilauea.apiserver.custom_resources`.
"""
