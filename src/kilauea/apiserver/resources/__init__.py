"""The kinds that are served, with their names and verbs."""
