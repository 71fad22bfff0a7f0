"""CustomResourceDefinitions: validating them, serving the kinds that they define, and removing these again.

`definition_strategy` has the rules of the definitions themselves (`structural` those of their schemas), `controller`
keeps the served kinds in step with them, `custom` is what the server does with objects of such a kind: validation,
CEL rules (`rules`, in the language of `kilauea.api.cel`), tables (`columns`, `jsonpath`). `bundled` installs the
Volcano kinds.
"""
