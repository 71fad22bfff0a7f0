"""Evictions: rules for victims, and plans of evictions that are kept or dropped as a unit."""
