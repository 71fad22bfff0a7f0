"""The dashboard as a website: watches a cluster, authenticates users, and serves the pages of `kilauea.dashboard`."""
