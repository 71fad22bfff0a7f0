"""Evictions: which pods may be evicted and why, and plans of evictions that are kept or dropped as a unit."""
