"""What the server does with objects of each kind beyond what all kinds share: defaults, preparation and checks."""

from __future__ import annotations

from collections.abc import Mapping

from kilauea.apiserver.strategies.base import Strategy

STRATEGIES: Mapping[tuple[str, str], Strategy] = {}
"""By group and plural; kinds that are not here have no rules of their own."""
