"""Which kinds are served, under which names and verbs."""
