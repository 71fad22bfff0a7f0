"""How a configuration is read: what is understood, what is passed over with a warning, what is an error."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.engine.actions import ACTIONS
from kilauea.engine.conf import ConfError, inspect_conf, parse_conf
from kilauea.engine.conf.lacking import LACKING_ACTIONS, LACKING_PLUGINS
from kilauea.engine.cycle import cycle
from kilauea.engine.opening import open_plugins
from kilauea.engine.plugins import PLUGINS
from kilauea.engine.session import Session
from kilauea.engine.state import ClusterState
from support.builders import NOW, Entry, Objects, conf, group, node, parsed, plan_of, pod, queue, state_of

GANG = [node("n1", cpu=1), group("g", minimum=2), pod("a", "g"), pod("b", "g")]
"""Two pods that are to start together, and room for one."""


def placed(gang: dict[str, Any]) -> int:
    return len(plan_of(GANG, conf=conf("allocate", [{"name": "gang", **gang}], ["predicates"])).binds)


@pytest.mark.parametrize(
    ("flags", "bound"),
    [
        pytest.param({}, 0, id="a gang waits by default"),
        pytest.param({"enableJobReady": False, "enableJobPipelined": False}, 1, id="as Volcano spells them"),
        pytest.param({"enabledJobReady": False, "enabledJobPipelined": False}, 1, id="with a d more"),
        pytest.param({"ENABLEJOBREADY": False, "enablejobpipelined": False}, 1, id="in any case"),
        pytest.param({"enableJobReady": True}, 0, id="switched on"),
    ],
)
def test_enable_flags_count_in_every_spelling(flags: dict[str, bool], bound: int) -> None:
    assert placed(flags) == bound


@pytest.mark.parametrize("spelling", ["network-topology-aware", "Network-Topology-Aware", "capacity_card", "Gang"])
def test_plugins_are_found_in_any_case_and_by_their_other_names(spelling: str) -> None:
    found = parsed(conf("allocate", [spelling]))[0]
    assert [[p.name for p in tier] for tier in found.tiers] == [[spelling.lower().replace("_", "-")]]


def test_plugins_and_actions_of_volcano_that_there_are_not_are_left_out_with_a_warning() -> None:
    found = parsed(conf("enqueue, elect, allocate, reserve", ["gang", "crossquota", "reservation"]))[0]
    assert found.actions == ("enqueue", "allocate")
    assert [[plugin.name for plugin in tier] for tier in found.tiers] == [["gang"]]
    assert [str(each).split(" is left out: ")[0] for each in found.findings] == [
        "actions: action elect",
        "actions: action reserve",
        "tiers[0].plugins[1]: plugin crossquota",
        "tiers[0].plugins[2]: plugin reservation",
    ]


def test_what_is_left_out_may_come_from_a_plugins_directory() -> None:
    plugins = {**PLUGINS, "crossquota": PLUGINS["gang"]}
    found = inspect_conf(conf("allocate", ["crossquota"]), plugins, ACTIONS)
    assert not found.findings
    assert found.plugins == {"crossquota"}


def test_what_is_left_out_is_what_there_is_not() -> None:
    assert not LACKING_PLUGINS.keys() & PLUGINS.keys()
    assert not LACKING_ACTIONS.keys() & ACTIONS.keys()


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param(
            conf("allocate", ["gang", "priorty"]), "unknown plugin 'priorty'; did you mean 'priority'", id="plugin"
        ),
        pytest.param(
            conf("allocate", ["volcano-npu_v6.0.0_linux-x86_64"]),
            "remove one built for Volcano",
            id="a plugin of others",
        ),
        pytest.param(conf("alocate", ["gang"]), "unknown action 'alocate'; did you mean 'allocate'", id="action"),
        pytest.param(conf("allocate,", ["gang"]), "a comma too many", id="comma"),
        pytest.param({"actions": ["allocate"], "tiers": []}, "expected names separated by commas", id="list"),
        pytest.param(
            conf("allocate", [{"name": "drf", "enableHierarchy": True}, "proportion"]),
            "proportion and drf with hierarchy enabled conflicts",
            id="rivals",
        ),
        pytest.param("actions", "is a map with actions and tiers", id="no map"),
    ],
)
def test_errors_say_what_is_wrong_and_what_was_meant(document: Any, expected: str) -> None:
    with pytest.raises(ConfError) as caught:
        parsed(document)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param(conf("allocate", [{"name": "gang", "enableJobRedy": False}]), "did you mean", id="flag"),
        pytest.param(conf("allocate", [{"name": "gang", "enableJobReady": "no"}]), "takes true or false", id="value"),
        pytest.param(conf("allocate", ["proportion", "capacity"]), "both decide what queues get", id="two of a kind"),
        pytest.param(conf("allocate", ["gang"], prempt={}), "unknown action 'prempt'", id="arguments of no action"),
    ],
)
def test_what_can_be_done_without_is_a_warning(document: Any, expected: str) -> None:
    findings = [str(f) for f in parsed(document)[0].findings]
    assert [expected in text for text in findings] == [True]


def test_an_unknown_argument_is_a_warning_with_the_nearest_name() -> None:
    chosen = conf("allocate", [("binpack", {"binpack.weigth": 5})])
    warnings = [str(finding) for finding in cycle(ClusterState(), parsed(chosen)[0], NOW).findings]
    assert [("binpack.weigth" in text, "binpack.weight" in text) for text in warnings] == [(True, True)]


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("binpack", "binpack.resources.example.com/fpga"),
        ("network-topology-aware", "hypernode.binpack.resources.example.com/fpga"),
    ],
)
def test_a_negative_weight_of_a_resource_is_a_warning(name: str, key: str) -> None:
    listed = key.removesuffix(".example.com/fpga")
    chosen = conf("allocate", [(name, {listed: "example.com/fpga", key: -2})])
    findings = cycle(ClusterState(), parsed(chosen)[0], NOW).findings
    assert [str(f) for f in findings] == [f"plugin {name}: {key} cannot be less than 0, but is -2; its default is kept"]


def test_all_errors_are_told_at_once() -> None:
    with pytest.raises(ConfError) as caught:
        parse_conf(conf("alocate", ["gnag"]), ["gang"], ["allocate"])
    assert len(caught.value.findings) == 2


def test_without_leaves_out_one_plugin_or_one_action() -> None:
    whole = parsed(conf("enqueue, allocate", ["gang"], ["drf", "gang"]))[0]
    assert [[p.name for p in tier] for tier in whole.without(plugin="gang").tiers] == [[], ["drf"]]
    assert whole.without(action="enqueue").actions == ("allocate",)


@pytest.mark.parametrize(
    ("tiers", "where", "also"),
    [
        (["gang", "gang"], "tiers[1]", "tiers[0].plugins[0]"),
        (["gang priority", "drf", "gang", "gang"], "tiers[2]", "tiers[0].plugins[0], tiers[3].plugins[0]"),
        (["gang"] * 300, "tiers[1]", "tiers[0].plugins[0] and 298 more, up to tiers[299].plugins[0]"),
    ],
)
def test_a_plugin_in_several_tiers_is_warned_of_once(tiers: list[str], where: str, also: str) -> None:
    document = {"actions": "allocate", "tiers": [{"plugins": [{"name": n} for n in t.split()]} for t in tiers]}
    (finding,) = inspect_conf(document, PLUGINS, ACTIONS).findings
    assert (finding.where, finding.code, finding.error) == (f"{where}.plugins[0] (gang)", "duplicate-plugin", False)
    assert finding.message == f"plugin gang is also at {also}: keep one of them"


def test_a_plugin_in_several_tiers_is_opened_once_with_its_last_arguments() -> None:
    tree: dict[str, Any] = {"name": "capacity", "enableHierarchy": True}
    often: list[list[Entry]] = [["gang"], [{"name": "capacity"}], [tree], ["predicates"], [tree]]
    queues = [queue("root"), queue("p", parent="root"), queue("q", parent="p")]
    objects: list[Objects] = [node("n1"), queues, group(), pod("a", cpu=2), group("r"), pod("r", "r", cpu=1, node="n1")]
    held = [
        plan_of(objects, conf=conf("allocate", *tiers)).queues["p"].allocated
        for tiers in (often, often[:1] + often[2:4])
    ]
    assert held[0] == held[1]
    assert held[0]["cpu"] == 3000


def test_a_predicate_of_a_plugin_in_several_tiers_is_asked_once() -> None:
    state = state_of(node("n1"), group(), pod("a"))
    once, often = (parsed(conf("allocate", *[["predicates"]] * times))[0] for times in (1, 9))
    predicates = []
    for usable in (once, often):
        session = Session(state, usable, NOW, None)
        open_plugins(session, usable, PLUGINS)
        predicates.append(len(session.points.predicates()))
        session.close()
    assert predicates[0] == predicates[1] > 0
