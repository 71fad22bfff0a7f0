"""Figures of queues from their scheduler, for samples that are taken before a page is opened."""

from __future__ import annotations

from collections.abc import Mapping

from kilauea.engine.plan import QueueOutcome
from kilauea.runtime.dashboard.watching import figures_of


def queue(parent: str, **allocated: float) -> QueueOutcome:
    return QueueOutcome(parent, None, None, {}, None, allocated, {}, {}, {}, None)


def held(**queues: QueueOutcome) -> dict[str, Mapping[str, float] | None]:
    return {name: figures.allocated for name, figures in figures_of(queues).items()}


def test_a_parent_holds_what_its_children_do_whether_or_not_the_plugin_adds_them() -> None:
    leaves = {"a": queue("ml", cpu=1), "b": queue("ml", cpu=2, gpu=1), "c": queue("", cpu=4)}
    wanted = {"a": {"cpu": 1}, "b": {"cpu": 2, "gpu": 1}, "c": {"cpu": 4}, "ml": {"cpu": 3, "gpu": 1}}
    root = {"cpu": 7, "gpu": 1}
    assert held(**leaves, ml=queue("root")) == wanted | {"root": root}
    assert held(**leaves, ml=queue("root", cpu=3, gpu=1), root=queue("", cpu=7, gpu=1)) == wanted | {"root": root}


def test_queues_that_are_below_themselves_do_no_harm() -> None:
    found = held(a=queue("b", cpu=1), b=queue("a", cpu=1), c=queue("root", cpu=1))
    assert found == {"a": {"cpu": 1}, "b": {"cpu": 1}, "c": {"cpu": 1}, "root": {"cpu": 1}}
