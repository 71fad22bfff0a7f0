"""The version of the package, which every part of it may read."""

__version__ = "0.1.0"
