"""Kilauea: a batch scheduling system for Kubernetes, compatible with Volcano."""

__version__ = "0.1.0"
