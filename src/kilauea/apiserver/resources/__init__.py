"""The served kinds, with their names and verbs."""
