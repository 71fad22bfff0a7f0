"""Counts of accelerator cards by model in annotations of queues and pod groups: JSON objects of integers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

MOST_CARDS = 1 << 32
"""Maximum number of cards in an annotation."""

_LONGEST_TEXT = 64


def parse_card_counts(text: str) -> dict[str, int]:
    """Parse cards by model, such as `{"NVIDIA-H200": 8}`; an empty text has none.

    Raises:
        ValueError: it is not a JSON object, or a count is not an integer from 0 to `MOST_CARDS`.
    """
    if not text:
        return {}
    try:
        found: Any = json.loads(text)
    except RecursionError:
        raise ValueError("it nests too deeply") from None
    if not isinstance(found, Mapping):
        raise ValueError(f"{_shown(found)} is not an object: use one such as " + '{"NVIDIA-H200": 8}')
    for name, count in found.items():
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MOST_CARDS:
            raise ValueError(f"invalid number of cards {_shown(count)} for {_shown(name)}: use an integer such as 8")
    return dict(found)


def _shown(value: Any) -> str:
    text = json.dumps(value) if not isinstance(value, (list, dict)) else "a list" if isinstance(value, list) else "{..}"
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 3] + "..."
