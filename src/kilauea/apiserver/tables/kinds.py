"""The tables of the built-in kinds: cells under the columns that the real server has."""

from __future__ import annotations

from collections.abc import Mapping

from kilauea.apiserver.tables.columns import AGE, TableForm, age, simple

DEFAULT = simple([AGE], lambda obj, now: [age(obj, now)])
"""For kinds without a form of their own."""

FORMS: Mapping[tuple[str, str], TableForm] = {}
"""By group and plural."""
