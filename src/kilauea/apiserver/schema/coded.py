"""Defaults that the real API server applies by code, so that its OpenAPI does not tell them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

CODED_DEFAULTS: Mapping[str, Mapping[str, Any]] = {}
