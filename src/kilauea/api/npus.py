"""Ascend 310P chips that are split on demand (MindCluster): nodes that have them, templates, and records of pods."""

from __future__ import annotations

from typing import NamedTuple

from kilauea.api.devices import LONGEST

SERVER = "servertype"
"""Label of nodes: the kind of chip and its cores, such as `Ascend310P-8`."""
MOST_CHIPS = 128
CHIP_PROCESSORS, CHIP_IMAGES = 7, 8


class Split(NamedTuple):
    """A template: the name by which the device plugin knows it, and what it takes of a chip."""

    name: str
    cores: int
    processors: int
    images: int
    """Units that decode and scale images (dvpp); in eighths of the chip's."""


SPLITS = {
    split.name: split
    for split in (
        Split("vir01", 1, 1, 1),
        Split("vir02", 2, 2, 2),
        Split("vir02_1c", 2, 1, 2),
        Split("vir04", 4, 4, 4),
        Split("vir04_3c", 4, 3, 4),
        Split("vir04_3c_ndvpp", 4, 3, 0),
        Split("vir04_4c_dvpp", 4, 4, CHIP_IMAGES),
    )
}


class Given(NamedTuple):
    """Chips that a pod has, by their numbers on the node."""

    chips: tuple[int, ...]
    split: Split | None
    """The template of the one chip; None for whole chips."""


def chip_count(server: str, cores: int) -> tuple[int, int]:
    """Return the number of chips of a node and the cores of each; zeros if it has none that can be split.

    Args:
        server: label `servertype` of the node.
        cores: that it offers in all.
    """
    parts = server.split("-")
    each = int(parts[1]) if len(parts) > 1 and parts[1] in ("8", "10") else 0
    return (min(max(cores, 0) // each, MOST_CHIPS), each) if each and parts[0].startswith("Ascend310P") else (0, 0)


def read_given(text: str, count: int) -> Given | None:
    """Read the chips in a pod's annotation: `0,1`, or `0-vir02`; None if it names none of a node's `count` chips."""
    numbers, _, name = text[:LONGEST].partition("-")
    split, parts = SPLITS.get(name), numbers.split(",")
    if (name and split is None) or not all(part.isascii() and part.isdigit() and len(part) < 4 for part in parts):
        return None
    chips = tuple(sorted({int(part) for part in parts}))
    return Given(chips, split) if chips[-1] < count else None
