"""The plugin predicates where other pods matter: pod affinity, anti-affinity, and topology spread."""

from __future__ import annotations

from typing import Any

import pytest

from support.builders import (
    HOSTNAME,
    Data,
    Objects,
    away,
    binds,
    conf,
    gang,
    group,
    labels_of,
    namespace,
    near,
    need,
    node,
    node_affinity,
    pending,
    plan_of,
    plugin,
    pod,
    spread,
)

FILTERS = conf("allocate", ["gang"], ["predicates"])
NEAR = "node(s) didn't match pod affinity rules"
AWAY = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"
SKEW = "node(s) didn't match pod topology spread constraints"
NO_LABEL = "node(s) didn't match pod topology spread constraints (missing required label)"

WEB = labels_of({"app": "web"})
EVERYONE: Data = {}


def zones(**cores: int) -> list[Objects]:
    """A node for each keyword `a1=cores`, in zone `a`; zone `x` means no zone."""
    return [node(name, cpu=cpu, labels={} if name[0] == "x" else {"zone": name[0]}) for name, cpu in cores.items()]


def web(name: str, on: str, **more: Any) -> Objects:
    """A running pod with the label app=web, of group `r`."""
    return pod(name, "r", cpu="100m", node=on, labels={"app": "web"}, **more)


def chosen(*objects: Objects, conf: Data = FILTERS, **spec: Any) -> str:
    """The node that pod `p` gets, or the reasons why it gets none."""
    plan = plan_of(group(), group("r", phase="Running"), *objects, pod("p", **spec), conf=conf)
    if "p" in binds(plan):
        return binds(plan)["p"]
    return pending(plan)["p"].message.split(": ", 1)[-1].removesuffix(".")


THREE = zones(a1=4, b1=4, x1=4)


# --- affinity


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"affinity": near(WEB)}, "b1", id="the node of a matching pod"),
        pytest.param({"affinity": near(WEB, "zone")}, "b1", id="the zone of a matching pod"),
        pytest.param({"affinity": near(labels_of({"app": "db"}))}, f"3 {NEAR}", id="no pod matches"),
        pytest.param({"affinity": near(EVERYONE)}, "b1", id="an empty selector matches all pods"),
        pytest.param({"affinity": near(None)}, f"3 {NEAR}", id="no selector matches none"),
        pytest.param({"affinity": near(WEB, "rack")}, f"3 {NEAR}", id="no node has the label"),
        pytest.param({"affinity": near(WEB, namespaces=["other"])}, f"3 {NEAR}", id="pods of another namespace"),
        pytest.param({"affinity": near(WEB, namespaces=["other", "ns"])}, "b1", id="pods of several namespaces"),
    ],
)
def test_affinity(spec: Data, expected: str) -> None:
    assert chosen(THREE, web("r-0", "b1"), **spec) == expected


def test_affinity_reaches_the_whole_zone() -> None:
    assert chosen(zones(a1=4, b1=1, b2=4), web("r-0", "b1"), affinity=near(WEB, "zone")) == "b2"


def test_all_terms_of_affinity_want_one_pod_that_matches_them_all() -> None:
    db, both = labels_of({"tier": "db"}), near(WEB, "zone")
    both["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] += near(db, HOSTNAME)["podAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    apart = [web("r-0", "a1"), pod("r-1", "r", cpu="100m", node="a1", labels={"tier": "db"})]
    assert chosen(THREE, apart, affinity=both) == f"3 {NEAR}"
    one = pod("r-1", "r", cpu="100m", node="b1", labels={"tier": "db", "app": "web"})
    assert chosen(THREE, web("r-0", "a1"), one, affinity=both) == "b1"


@pytest.mark.parametrize(
    ("labels", "running", "expected"),
    [
        pytest.param({"app": "web"}, [], "a1", id="the first of a group may go where the label is"),
        pytest.param({"app": "db"}, [], f"3 {NEAR}", id="but only if it matches its own term"),
        pytest.param({"app": "web"}, ["b1"], "b1", id="the second goes to the first"),
        pytest.param({"app": "web"}, ["x1"], "a1", id="one on a node without the label does not count"),
    ],
)
def test_first_of_its_group(labels: dict[str, str], running: list[str], expected: str) -> None:
    held = [web(f"r-{i}", on) for i, on in enumerate(running)]
    assert chosen(THREE, held, labels=labels, affinity=near(WEB, "zone")) == expected


def test_the_first_of_a_group_in_another_namespace_is_not_helped_by_its_own_labels() -> None:
    assert chosen(THREE, labels={"app": "web"}, affinity=near(WEB, "zone", namespaces=["other"])) == f"3 {NEAR}"


def test_a_group_gathers_around_its_first_pod_within_the_cycle() -> None:
    nodes = zones(a1=1, b1=2, b2=2, c1=4)
    objects: list[Objects] = [nodes, gang("g", 4, 1, labels={"app": "web"}, affinity=near(WEB, "zone"))]
    assert set(binds(plan_of(*objects, conf=FILTERS)).values()) == {"a1"}
    least = conf("allocate", ["gang"], ["predicates", "nodeorder"])
    assert set(binds(plan_of(*objects, conf=least)).values()) == {"c1"}


def test_pods_that_are_being_deleted_still_attract() -> None:
    assert chosen(THREE, web("r-0", "b1", deleting=True), affinity=near(WEB)) == "b1"


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_pods_that_have_ended_attract_no_one(phase: str) -> None:
    assert chosen(THREE, web("r-0", "b1", phase=phase), affinity=near(WEB)) == f"3 {NEAR}"


def test_pods_of_other_schedulers_count() -> None:
    theirs = web("r-0", "b1", schedulerName="default-scheduler")
    assert chosen(THREE, theirs, affinity=near(WEB)) == "b1"


# --- anti-affinity


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"affinity": away(WEB)}, "b1", id="not on the node of a matching pod"),
        pytest.param({"affinity": away(WEB, "zone")}, "b1", id="not in the zone of a matching pod"),
        pytest.param({"affinity": away(labels_of({"app": "db"}))}, "a1", id="no one to avoid"),
        pytest.param({"affinity": away(None)}, "a1", id="no selector avoids no one"),
        pytest.param({"affinity": away(WEB, "rack")}, "a1", id="without the label there is nothing to avoid"),
        pytest.param({"affinity": away(WEB, namespaces=["other"])}, "a1", id="pods of another namespace"),
    ],
)
def test_anti_affinity(spec: Data, expected: str) -> None:
    assert chosen(THREE, web("r-0", "a1"), **spec) == expected


def test_anti_affinity_against_all() -> None:
    held = [web("r-0", "a1"), web("r-1", "b1"), web("r-2", "x1")]
    assert chosen(THREE, held, affinity=away(WEB)) == f"3 {AWAY}"
    assert chosen(THREE, held, affinity=away(WEB, "zone")) == "x1"


@pytest.mark.parametrize(
    ("labels", "affinity", "expected"),
    [
        pytest.param({"app": "api"}, away(labels_of({"app": "api"})), "b1", id="its term means the newcomer"),
        pytest.param({"app": "api"}, away(labels_of({"app": "db"})), "a1", id="its term means other pods"),
        pytest.param({}, away(EVERYONE), "b1", id="its term means everybody"),
        pytest.param({}, away(None), "a1", id="its term means no one"),
        pytest.param({"app": "api"}, near(labels_of({"app": "db"})), "a1", id="affinity binds only its owner"),
        pytest.param({}, away(EVERYONE, namespaces=["other"]), "a1", id="its term means another namespace"),
    ],
)
def test_pods_that_run_repel_newcomers(labels: dict[str, str], affinity: Data, expected: str) -> None:
    assert chosen(THREE, web("r-0", "a1", affinity=affinity), labels=labels) == expected


def test_pods_that_run_repel_from_their_whole_zone() -> None:
    assert chosen(zones(a1=4, a2=4), web("r-0", "a1", affinity=away(EVERYONE, "zone"))) == f"2 {EXISTING}"


def test_pods_placed_in_the_cycle_repel_later_ones_that_say_nothing_themselves() -> None:
    first = [group("a", created=0), pod("a-0", "a", labels={"app": "web"}, affinity=away(labels_of({"app": "db"})))]
    later = [group("b", created=1), pod("b-0", "b", labels={"app": "db"})]
    assert binds(plan_of(node("n1"), node("n2"), first, later, conf=FILTERS)) == {"a-0": "n1", "b-0": "n2"}


def test_a_gang_that_repels_itself_takes_one_node_each() -> None:
    members = gang("g", 4, 1, labels={"app": "web"}, affinity=away(WEB))
    plan = plan_of(zones(a1=4, b1=4, x1=4), members, conf=FILTERS)
    assert binds(plan) == {"g-w-0": "a1", "g-w-1": "b1", "g-w-2": "x1"}
    assert pending(plan)["g-w-3"].message == f"0/3 nodes are unavailable: 3 {AWAY}."


def test_a_gang_that_is_undone_repels_no_one() -> None:
    too_many = [group("a", minimum=4, created=0)]
    too_many += [pod(f"a-w-{i}", "a", labels={"app": "web"}, affinity=away(EVERYONE)) for i in range(4)]
    plan = plan_of(zones(a1=4, b1=4, x1=4), too_many, gang("b", 1, created=1), conf=FILTERS)
    assert binds(plan) == {"b-w-0": "a1"}


# --- namespaces


TEAM: dict[str, Any] = {"namespaceSelector": labels_of({"team": "red"})}


@pytest.mark.parametrize(
    ("objects", "affinity", "expected"),
    [
        pytest.param(
            [namespace("other", {"team": "red"})], near(WEB, **TEAM), "b1", id="the selector finds pods of a namespace"
        ),
        pytest.param([namespace("other", {"team": "blue"})], near(WEB, **TEAM), f"3 {NEAR}", id="of another team"),
        pytest.param([], near(WEB, **TEAM), f"3 {NEAR}", id="a namespace that is missing has no labels"),
        pytest.param([], near(WEB, namespaceSelector={}), f"3 {NEAR}", id="and is in no list of all namespaces"),
        pytest.param([namespace("other")], near(WEB, namespaceSelector={}), "b1", id="an empty selector means all"),
        pytest.param(
            [namespace("other", {"team": "blue"})],
            near(WEB, namespaces=["other"], **TEAM),
            "b1",
            id="listed and selected namespaces add up",
        ),
        pytest.param([namespace("ns"), namespace("other")], near(WEB), f"3 {NEAR}", id="without both it is its own"),
    ],
)
def test_namespaces_of_the_pods_that_a_newcomer_looks_for(
    objects: list[Objects], affinity: Data, expected: str
) -> None:
    held = pod("r-0", "", namespace="other", cpu="100m", node="b1", labels={"app": "web"})
    assert chosen(THREE, held, objects, affinity=affinity) == expected


@pytest.mark.parametrize(
    ("objects", "affinity", "expected"),
    [
        pytest.param([namespace("ns", {"team": "red"})], away(EVERYONE, **TEAM), "b1", id="it selects the newcomer's"),
        pytest.param([namespace("ns", {"team": "blue"})], away(EVERYONE, **TEAM), "a1", id="it selects another"),
        pytest.param([], away(EVERYONE, **TEAM), "a1", id="a namespace that is missing has no labels"),
        pytest.param([], away(EVERYONE, namespaceSelector={}), "b1", id="and an empty selector means it all the same"),
        pytest.param([], away(EVERYONE), "a1", id="without a selector it is the one of the pod that runs"),
    ],
)
def test_namespaces_that_pods_that_run_look_for(objects: list[Objects], affinity: Data, expected: str) -> None:
    held = pod("r-0", "", namespace="other", cpu="100m", node="a1", affinity=affinity)
    assert chosen(THREE, held, objects) == expected


# --- keys of the newcomer's own labels


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param({"matchLabelKeys": ["rev"]}, "b1", id="only pods with its own value"),
        pytest.param({"mismatchLabelKeys": ["rev"]}, "a1", id="only pods with another value"),
        pytest.param({"matchLabelKeys": ["none"]}, "a1", id="a key that it does not have is left out"),
    ],
)
def test_label_keys_of_an_affinity_term(more: Data, expected: str) -> None:
    held = [
        pod(f"r-{on}", "r", cpu="100m", node=on, labels={"app": "web", "rev": rev})
        for on, rev in (("a1", "1"), ("b1", "2"))
    ]
    assert chosen(THREE, held, labels={"rev": "2"}, affinity=near(WEB, **more)) == expected


# --- topology spread


def counts(a: int, b: int, **more: Any) -> list[Objects]:
    """So many pods with app=web in zones `a` and `b`."""
    held = [web(f"r-a-{i}", "a1", **more) for i in range(a)]
    return [zones(a1=4, b1=4), held, [web(f"r-b-{i}", "b1", **more) for i in range(b)]]


MINE = {"app": "web"}


@pytest.mark.parametrize(
    ("held", "spec", "expected"),
    [
        pytest.param((2, 1), spread("zone", WEB), "b1", id="the zone with fewer pods"),
        pytest.param((2, 1), spread("zone", WEB, 2), "a1", id="a larger skew allows the other"),
        pytest.param((2, 1), spread("zone", WEB, minDomains=3), f"2 {SKEW}", id="too few zones: the minimum is zero"),
        pytest.param((0, 0), spread("zone", WEB, minDomains=3), "a1", id="which empty zones do not mind"),
        pytest.param((2, 1), spread("zone", WEB, minDomains=2), "b1", id="as many zones as wanted"),
        pytest.param((2, 0), spread("zone", WEB, 1, soft=True), "a1", id="a soft constraint rules nothing out"),
        pytest.param((2, 1), spread("zone", None), "a1", id="no selector counts no pods"),
        pytest.param((2, 1), spread("zone", EVERYONE), "a1", id="an empty selector counts no pods"),
        pytest.param((2, 1), spread("rack", WEB), f"2 {NO_LABEL}", id="no node has the label"),
        pytest.param((2, 1), spread("zone", WEB) + spread("rack", WEB), f"2 {NO_LABEL}", id="every key is needed"),
    ],
)
def test_spread(held: tuple[int, int], spec: list[Data], expected: str) -> None:
    assert chosen(counts(*held), labels=MINE, topologySpreadConstraints=spec) == expected


def test_a_pod_that_does_not_match_its_own_constraint_adds_nothing() -> None:
    assert chosen(counts(1, 0), topologySpreadConstraints=spread("zone", WEB)) == "a1"
    assert chosen(counts(1, 0), labels=MINE, topologySpreadConstraints=spread("zone", WEB)) == "b1"


def test_nodes_without_the_label_are_ruled_out_and_not_counted() -> None:
    held = [web("r-0", "x1"), web("r-1", "x1"), web("r-2", "a1")]
    spec = spread("zone", WEB)
    assert chosen(zones(a1=4, b1=4, x1=4), held, labels=MINE, topologySpreadConstraints=spec) == "b1"
    full = [web("r-0", "a1"), pod("r-1", "r", cpu=4, node="b1")]
    found = chosen(zones(a1=4, b1=4, x1=4), full, labels=MINE, topologySpreadConstraints=spec)
    assert found == f"1 Insufficient cpu, 1 {SKEW}, 1 {NO_LABEL}"


def test_pods_of_other_namespaces_and_pods_that_go_away_do_not_count() -> None:
    others = [pod(f"o-{i}", "", namespace="other", cpu="100m", node="a1", labels=MINE) for i in range(2)]
    leaving = [web(f"l-{i}", "a1", deleting=True) for i in range(2)]
    spec = spread("zone", WEB)
    assert chosen(counts(0, 1), others, leaving, labels=MINE, topologySpreadConstraints=spec) == "a1"


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param({}, "a1", id="by default zones that the pod cannot use do not count"),
        pytest.param({"nodeAffinityPolicy": "Honor"}, "a1", id="Honor says so"),
        pytest.param(
            {"nodeAffinityPolicy": "Ignore"},
            f"1 node(s) didn't match Pod's node affinity/selector, 1 {SKEW}",
            id="Ignore counts them",
        ),
    ],
)
def test_node_affinity_policy(policy: Data, expected: str) -> None:
    spec: dict[str, Any] = {
        "topologySpreadConstraints": spread("zone", WEB, **policy),
        "affinity": node_affinity([need("zone", "In", "a")]),
    }
    assert chosen(counts(1, 0), labels=MINE, **spec) == expected


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param({}, f"1 {SKEW}, 1 node(s) had untolerated taint(s)", id="by default tainted zones count"),
        pytest.param(
            {"nodeTaintsPolicy": "Ignore"}, f"1 {SKEW}, 1 node(s) had untolerated taint(s)", id="Ignore says so"
        ),
        pytest.param({"nodeTaintsPolicy": "Honor"}, "a1", id="with Honor they do not"),
    ],
)
def test_node_taints_policy(policy: Data, expected: str) -> None:
    nodes = [node("a1", labels={"zone": "a"}), node("b1", labels={"zone": "b"}, taints=["a=b:NoSchedule"])]
    spec = spread("zone", WEB, **policy)
    assert chosen(nodes, web("r-0", "a1"), labels=MINE, topologySpreadConstraints=spec) == expected


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        pytest.param([], "b1", id="without keys all revisions count"),
        pytest.param(["rev"], "a1", id="with the key only its own"),
        pytest.param(["none"], "b1", id="a key that it does not have is left out"),
    ],
)
def test_label_keys_of_a_spread_constraint(keys: list[str], expected: str) -> None:
    old = [pod(f"r-{i}", "r", cpu="100m", node="a1", labels={"app": "web", "rev": "1"}) for i in range(2)]
    new = [pod("r-9", "r", cpu="100m", node="b1", labels={"app": "web", "rev": "2"})]
    spec = spread("zone", WEB, matchLabelKeys=keys)
    assert chosen(zones(a1=4, b1=4), old, new, labels=MINE | {"rev": "2"}, topologySpreadConstraints=spec) == expected


def test_two_constraints_must_both_hold() -> None:
    nodes = zones(a1=4, a2=4, b1=4)
    held = [web("r-0", "a1"), web("r-1", "b1")]
    spec = spread("zone", WEB) + spread(HOSTNAME, WEB)
    assert chosen(nodes, held, labels=MINE, topologySpreadConstraints=spec) == "a2"


def test_a_gang_is_spread_as_it_is_placed() -> None:
    members = gang("g", 5, 1, labels=MINE, topologySpreadConstraints=spread("zone", WEB))
    plan = plan_of(zones(a1=9, b1=2), members, conf=FILTERS)
    assert binds(plan) == {"g-w-0": "a1", "g-w-1": "b1", "g-w-2": "a1", "g-w-3": "b1", "g-w-4": "a1"}


# --- switches


@pytest.mark.parametrize(
    ("key", "spec"),
    [
        pytest.param("predicate.PodAffinityEnable", {"affinity": near(WEB)}, id="pod affinity"),
        pytest.param("predicate.PodAffinityEnable", {"affinity": away(labels_of({"app": "r"}))}, id="anti-affinity"),
        pytest.param(
            "predicate.PodTopologySpreadEnable",
            {"topologySpreadConstraints": spread("rack", WEB)},
            id="topology spread",
        ),
    ],
)
def test_switches(key: str, spec: Data) -> None:
    held = pod("r-0", "r", cpu="100m", node="n1", labels={"app": "r"})
    assert chosen(node("n1"), held, **spec) != "n1"
    off = conf("allocate", ["gang"], [plugin("predicates", {key: False})])
    assert chosen(node("n1"), held, conf=off, **spec) == "n1"
