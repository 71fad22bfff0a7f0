"""Errors of work that runs outside the event loop because it can take long: `kilauea.apiserver.heavy`."""

from __future__ import annotations


class TooHeavy(Exception):
    """Work that took longer than it may, or for which too much other work waits."""


class TooManyWaiting(TooHeavy):
    """Work that was not started, as too much other work waits; it may be done later."""
