"""Clusters that do not exist: what would happen after a plan."""
