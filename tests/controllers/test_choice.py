"""Which controllers are run."""

from __future__ import annotations

import pytest

from kilauea.controllers.registry import chosen, kubernetes_controllers, volcano_controllers

VOLCANO = [each.name for each in volcano_controllers()]


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (["*"], VOLCANO),
        ([], []),
        (["queue-controller"], ["queue-controller"]),
        (["+queue-controller"], ["queue-controller"]),
        (["*", "-pg-controller"], [name for name in VOLCANO if name != "pg-controller"]),
        (["-pg-controller", "*"], [name for name in VOLCANO if name != "pg-controller"]),
        (["vcjob-controller"], ["vcjob-controller"]),
        (["job-controller", "cronjob-controller"], ["vcjob-controller", "vccronjob-controller"]),
        (["*", "-job-controller"], [name for name in VOLCANO if name != "vcjob-controller"]),
        (["pg-controller"], ["pg-controller"] * 3),
    ],
)
def test_a_list_chooses_controllers(wanted: list[str], names: list[str]) -> None:
    assert [each.name for each in chosen(volcano_controllers(), wanted)] == names


def test_a_name_with_both_signs_is_refused() -> None:
    with pytest.raises(ValueError, match="controllers option queue-controller cannot have both '-' and '\\+' prefixes"):
        chosen(volcano_controllers(), ["queue-controller", "-queue-controller"])


def test_a_name_that_is_none_is_refused_with_those_that_are() -> None:
    with pytest.raises(ValueError, match=r'invalid controller "queue": use \* or .*pg-controller, queue-controller, '):
        chosen(volcano_controllers(), ["queue"])


def test_every_controller_has_a_name_and_sees_something() -> None:
    for each in [*volcano_controllers(), *kubernetes_controllers()]:
        assert each.name.endswith("-controller")
        assert each.interests


def test_no_controller_of_volcano_has_the_name_of_one_of_kubernetes() -> None:
    kubernetes = [each.name for each in kubernetes_controllers()]
    assert len(set(kubernetes)) == len(kubernetes)
    assert not set(VOLCANO) & set(kubernetes)


def test_the_name_of_a_controller_of_kubernetes_means_that_one_among_those() -> None:
    assert [each.name for each in chosen(kubernetes_controllers(), ["job-controller"])] == ["job-controller"]
