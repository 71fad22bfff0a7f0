"""The dashboard as a web site: it watches a cluster, lets its users in, and serves the pages of `kilauea.dashboard`."""
