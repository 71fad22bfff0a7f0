"""The scores of nodeorder and binpack, to the number, and how scores decide.

The scores are those that the engine hands to the extension point at which a node is picked, with every other scorer
switched off.
"""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.engine.session import Session
from support.builders import (
    GPU,
    HOSTNAME,
    Data,
    Objects,
    binds,
    build,
    conf,
    gang,
    group,
    labels_of,
    need,
    node,
    node_affinity,
    plan_of,
    plugin,
    pod,
    preferred_nodes,
    rather,
    service,
    spread,
)
from support.probes import only, plugin_called, scores_of

WEB = labels_of({"app": "web"})
LEAST, MOST, BALANCED = "leastrequested.weight", "mostrequested.weight", "balancedresource.weight"
AFFINITY, NEIGHBOURS, TAINTS = "nodeaffinity.weight", "podaffinity.weight", "tainttoleration.weight"
IMAGES, SPREAD = "imagelocality.weight", "podtopologyspread.weight"


def held(on: str, **requests: Any) -> Objects:
    """A running pod of group `r`."""
    return pod(f"r-{on}", "r", requests=requests, node=on)


# --- room


@pytest.mark.parametrize(
    ("weight", "expected"),
    [
        pytest.param(LEAST, 62, id="least: 62 of cpu and 62 of memory"),
        pytest.param(MOST, 37, id="most: 37 of both; the two make 99, for each is cut off"),
    ],
)
def test_worked_example_of_room(weight: str, expected: int) -> None:
    objects = [node("n1", 4, "8Gi"), node("n2", 4, "8Gi"), group("r"), held("n1", cpu="1", memory="2Gi")]
    found = scores_of(objects, group(), pod("p", requests={"cpu": "500m", "memory": "1Gi"}), conf=only(weight))
    assert found["n1"] == expected


@pytest.mark.parametrize(
    ("weight", "offers", "asked", "expected"),
    [
        pytest.param(LEAST, {"cpu": 2, "memory": "1Gi"}, {"cpu": "1", "memory": "1Gi"}, 25, id="least: 50 and 0"),
        pytest.param(MOST, {"cpu": 2, "memory": "1Gi"}, {"cpu": "1", "memory": "1Gi"}, 75, id="most: 50 and 100"),
        pytest.param(
            LEAST, {"cpu": 1, "memory": "1000Mi"}, {"cpu": "0"}, 85, id="least: no request counts 100m and 200Mi"
        ),
        pytest.param(MOST, {"cpu": 1, "memory": "1000Mi"}, {}, 15, id="most: no request counts 100m and 200Mi"),
        pytest.param(LEAST, {"cpu": "3", "memory": "30Gi"}, {"cpu": "1", "memory": "1Gi"}, 81, id="least: 66 and 96"),
    ],
)
def test_room(weight: str, offers: Data, asked: Data, expected: int) -> None:
    objects = [node("n1", **offers), node("n2", **offers), group(), pod("p", requests={**asked, "x.io/y": 0})]
    everything = [pod("q", requests={GPU: 0})]
    found = scores_of(objects, everything, conf={**only(weight), "actions": "allocate, backfill"})
    assert found["n1"] == expected


def test_pods_that_ask_for_nothing_count_a_little_in_what_is_used() -> None:
    objects = [node("n1", 1, "1000Mi"), node("n2", 1, "1000Mi"), group("r"), held("n1"), group()]
    found = scores_of(objects, pod("p", requests={"cpu": "400m", "memory": "400Mi"}), conf=only(LEAST))
    assert found == {"n1": 45, "n2": 60}


def test_a_container_without_requests_counts_a_little_beside_one_with_requests() -> None:
    two = [{"name": "c", "resources": {"requests": {"cpu": "400m", "memory": "400Mi"}}}, {"name": "d"}]
    objects = [node("n1", 1, "1000Mi"), node("n2", 1, "1000Mi"), group()]
    assert scores_of(objects, pod("p", containers=two), conf=only(LEAST)) == {"n1": 45, "n2": 45}


def test_pods_that_are_being_deleted_still_count_and_pods_that_have_ended_do_not() -> None:
    objects = [node(f"n{i}", 4, "8Gi") for i in (1, 2, 3)]
    running = [
        pod("r-1", "r", cpu="1", memory="2Gi", node="n1", deleting=True),
        pod("r-2", "r", cpu="1", memory="2Gi", node="n2", phase="Succeeded"),
    ]
    found = scores_of(objects, group("r"), running, group(), pod("p", cpu="1", memory="2Gi"), conf=only(LEAST))
    assert found == {"n1": 50, "n2": 75, "n3": 75}


# --- balance


@pytest.mark.parametrize(
    ("before", "asked", "expected"),
    [
        pytest.param({"cpu": "2", "memory": "2Gi"}, {"memory": "2Gi"}, 81, id="a half and a quarter become two halves"),
        pytest.param({}, {"cpu": "1", "memory": "2Gi"}, 75, id="what was even stays even"),
        pytest.param({"cpu": "2", "memory": "2Gi"}, {"cpu": "1", "memory": "2Gi"}, 75, id="the gap stays as it was"),
        pytest.param({}, {"cpu": "4"}, 50, id="what was even becomes as uneven as it gets"),
        pytest.param({"cpu": "4"}, {"memory": "8Gi"}, 100, id="what was as uneven as it gets becomes even"),
    ],
)
def test_balance_of_cpu_and_memory(before: Data, asked: Data, expected: int) -> None:
    objects = [node("n1", 4, "8Gi"), node("n2", 4, "8Gi"), group("r"), held("n1", **before), group()]
    assert scores_of(objects, pod("p", requests=asked), conf=only(BALANCED))["n1"] == expected


def test_balance_takes_gpus_in_if_the_pod_asks_for_some() -> None:
    objects = [node("n1", 4, "8Gi", gpu=4), node("n2", 4, "8Gi"), group()]
    asked = {"cpu": "1", "memory": "2Gi", GPU: 4}
    found = scores_of([*objects, node("n3", 4, "8Gi", gpu=8)], pod("p", requests=asked), conf=only(BALANCED))
    assert found == {"n1": 57, "n3": 69}
    del asked[GPU]
    assert scores_of(objects, pod("p", requests=asked), conf=only(BALANCED)) == {"n1": 75, "n2": 75}


def test_balance_leaves_out_what_a_node_does_not_have() -> None:
    objects = [node("n1", 4, None), node("n2", 4, None), group()]
    assert scores_of(objects, pod("p", requests={"cpu": "4"}), conf=only(BALANCED)) == {"n1": 75, "n2": 75}


# --- node affinity and taints


def preferring(*weighted: tuple[int, str]) -> Objects:
    terms = [(weight, need("disk", "In", value)) for weight, value in weighted]
    return [group(), pod("p", affinity=preferred_nodes(*terms))]


def disks(**values: str) -> list[Objects]:
    return [node(name, labels={"disk": value}) for name, value in values.items()]


def test_worked_example_of_preferred_nodes() -> None:
    pods = preferring((40, "ssd"), (10, "hdd"))
    found = scores_of(disks(n1="ssd", n2="hdd", n3="tape"), pods, conf=only(AFFINITY))
    assert found == {"n1": 100, "n2": 25, "n3": 0}


def test_weights_of_all_terms_that_match_add_up() -> None:
    pods = preferring((30, "ssd"), (10, "hdd"), (50, "ssd"))
    assert scores_of(disks(n1="ssd", n2="hdd"), pods, conf=only(AFFINITY)) == {"n1": 100, "n2": 12}


def test_if_no_term_matches_all_are_zero() -> None:
    found = scores_of(disks(n1="ssd", n2="hdd"), preferring((40, "tape")), conf=only(AFFINITY))
    assert found == {"n1": 0, "n2": 0}


def test_scores_are_relative_to_the_nodes_that_fit() -> None:
    nodes = [node("n0", cpu=0, labels={"disk": "ssd"}), *disks(n2="hdd", n3="tape")]
    assert scores_of(nodes, preferring((40, "ssd"), (10, "hdd")), conf=only(AFFINITY)) == {"n2": 100, "n3": 0}


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        pytest.param([], [0, 50, 100], id="two, one, none"),
        pytest.param([{"key": "a", "operator": "Exists"}], [0, 100, 100], id="one of them is tolerated"),
        pytest.param(
            [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}],
            [0, 50, 100],
            id="a toleration of another effect does not help",
        ),
        pytest.param([{"operator": "Exists"}], [100, 100, 100], id="all are tolerated"),
    ],
)
def test_taints_that_are_better_avoided(tolerations: list[Data], expected: list[int]) -> None:
    taints = ["a=1:PreferNoSchedule", "b=1:PreferNoSchedule", "c=1:NoSchedule"]
    nodes = [node("n1", taints=taints[:2]), node("n2", taints=taints[:1]), node("n3"), node("n4", taints=taints[2:])]
    found = scores_of(nodes[:3], group(), pod("p", tolerations=tolerations), conf=only(TAINTS))
    assert list(found.values()) == expected


# --- neighbours


def test_worked_example_of_preferred_neighbours() -> None:
    wishes = rather(5, WEB) | rather(5, labels_of({"app": "db"}), away=True)
    near_web = pod("r-1", "r", node="n1", labels={"app": "web"})
    near_db = pod("r-2", "r", node="n2", labels={"app": "db"})
    objects = [node("n1"), node("n2"), node("n3"), group("r"), near_web, near_db, group(), pod("p", affinity=wishes)]
    assert scores_of(objects, conf=only(NEIGHBOURS)) == {"n1": 100, "n2": 0, "n3": 50}


@pytest.mark.parametrize(
    ("affinity", "labels", "expected"),
    [
        pytest.param(rather(5, WEB), {"app": "web"}, [100, 0], id="a pod that runs would like the newcomer near"),
        pytest.param(rather(5, WEB, away=True), {"app": "web"}, [0, 100], id="or far away"),
        pytest.param(rather(5, WEB), {"app": "db"}, [0, 0], id="its wish is about other pods"),
    ],
)
def test_wishes_of_pods_that_run(affinity: Data, labels: dict[str, str], expected: list[int]) -> None:
    objects = [node("n1"), node("n2"), group("r"), pod("r-0", "r", node="n1", affinity=affinity), group()]
    assert list(scores_of(objects, pod("p", labels=labels), conf=only(NEIGHBOURS)).values()) == expected


def test_required_affinity_of_a_pod_that_runs_is_no_wish() -> None:
    required = {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": HOSTNAME} | {"labelSelector": WEB}]
        }
    }
    objects = [node("n1"), node("n2"), group("r"), pod("r-0", "r", node="n1", labels={"app": "web"}, affinity=required)]
    assert scores_of(objects, group(), pod("p", labels={"app": "web"}), conf=only(NEIGHBOURS)) == {"n1": 0, "n2": 0}


def test_wishes_reach_the_whole_zone_and_add_up_by_pod() -> None:
    nodes = [node(n, labels={"zone": n[0]}) for n in ("a1", "a2", "b1", "c1")]
    running = [pod(f"r-{i}", "r", node=on, labels={"app": "web"}) for i, on in enumerate(["a1", "a2", "a2", "b1"])]
    found = scores_of(
        nodes, group("r"), running, group(), pod("p", affinity=rather(7, WEB, "zone")), conf=only(NEIGHBOURS)
    )
    assert found == {"a1": 100, "a2": 100, "b1": 33, "c1": 0}


# --- spread


def placed(labels: dict[str, str] | None = None, **counts: int) -> list[Objects]:
    """So many pods with app=web on each node."""
    return [
        pod(f"r-{on}-{i}", "r", cpu="1m", memory="1Mi", node=on, labels=labels or {"app": "web"})
        for on, count in counts.items()
        for i in range(count)
    ]


def zoned(*names: str) -> list[Objects]:
    return [node(n, labels={"topology.kubernetes.io/zone": n[0]} if n[0] != "x" else {}) for n in names]


ZONE = "topology.kubernetes.io/zone"


def soft(key: str, selector: Data | None = WEB, skew: int = 1, **more: Any) -> Objects:
    """A pod with a soft constraint."""
    wish = spread(key, selector, skew, soft=True, **more)
    return [group("r"), group(), pod("p", labels={"app": "web"}, topologySpreadConstraints=wish)]


@pytest.mark.parametrize(
    ("nodes", "pods", "wish", "expected"),
    [
        pytest.param(["z1", "y1"], {"z1": 3, "y1": 1}, soft(ZONE), {"y1": 100, "z1": 25}, id="the worked example"),
        pytest.param(["z1", "y1"], {}, soft(ZONE), {"y1": 100, "z1": 100}, id="without pods all are best"),
        pytest.param(
            ["z1", "y1", "x1"],
            {"z1": 3, "y1": 1},
            soft(ZONE),
            {"x1": 0, "y1": 100, "z1": 25},
            id="without the label it is 0",
        ),
        pytest.param(["z1", "z2", "y1"], {"z1": 2, "z2": 1}, soft(ZONE), {"y1": 100, "z1": 0, "z2": 0}, id="by zone"),
        pytest.param(
            ["z1", "z2", "y1"], {"z1": 2, "z2": 1}, soft(HOSTNAME), {"y1": 100, "z1": 0, "z2": 33}, id="by node"
        ),
        pytest.param(["z1", "y1"], {"z1": 3, "y1": 1}, soft(ZONE, skew=5), {"y1": 100, "z1": 62}, id="a larger skew"),
        pytest.param(["z1", "y1"], {"z1": 3, "y1": 1}, soft(ZONE, None), {"y1": 100, "z1": 100}, id="no selector"),
    ],
)
def test_spread_that_is_wished_for(
    nodes: list[str], pods: dict[str, Any], wish: Objects, expected: dict[str, int]
) -> None:
    assert scores_of(zoned(*nodes), placed(**pods), wish, conf=only(SPREAD)) == expected


@pytest.mark.parametrize("key", [ZONE, HOSTNAME])
def test_an_empty_selector_counts_no_pods(key: str) -> None:
    found = scores_of(zoned("z1", "y1"), placed(z1=3, y1=1), soft(key, {}), conf=only(SPREAD))
    assert found == {"y1": 100, "z1": 100}


def test_zones_that_the_pod_cannot_use_count_only_if_the_policy_says_so() -> None:
    closed = node("z2", labels={ZONE: "z", "closed": "yes"})
    wish = spread(ZONE, WEB, soft=True)
    newcomer = [
        group("r"),
        group(),
        pod("p", topologySpreadConstraints=wish, affinity=node_affinity([need("closed", "DoesNotExist")])),
    ]
    found = scores_of(zoned("z1", "y1"), closed, placed(z2=3, y1=1), newcomer, conf=only(SPREAD))
    assert found == {"y1": 0, "z1": 100}
    wish[0]["nodeAffinityPolicy"] = "Ignore"
    newcomer[2] = pod("p", topologySpreadConstraints=wish, affinity=node_affinity([need("closed", "DoesNotExist")]))
    found = scores_of(zoned("z1", "y1"), closed, placed(z2=3, y1=1), newcomer, conf=only(SPREAD))
    assert found == {"y1": 100, "z1": 25}


def test_pods_that_go_away_or_live_elsewhere_are_not_spread() -> None:
    gone = [pod(f"l-{i}", "r", cpu="1m", node="z1", labels={"app": "web"}, deleting=True) for i in range(3)]
    elsewhere = [pod(f"o-{i}", "", namespace="other", cpu="1m", node="z1", labels={"app": "web"}) for i in range(3)]
    found = scores_of(zoned("z1", "y1"), gone, elsewhere, placed(y1=1), soft(ZONE), conf=only(SPREAD))
    assert found == {"y1": 0, "z1": 100}


SELECTING = [
    pytest.param(service("s", {"app": "web"}), id="a service"),
    pytest.param(
        build({"kind": "ReplicaSet", "metadata": {"name": "s", "namespace": "ns"}, "spec": {"selector": WEB}}),
        id="a replica set",
    ),
]


@pytest.mark.parametrize("selecting", SELECTING)
def test_pods_of_a_service_are_spread_by_default(selecting: Objects) -> None:
    newcomer = [group("r"), group(), pod("p", labels={"app": "web"})]
    found = scores_of(zoned("z1", "y1", "x1"), selecting, placed(z1=2, y1=1), newcomer, conf=only(SPREAD))
    assert found == {"x1": 100, "y1": 41, "z1": 16}


@pytest.mark.parametrize(
    ("labels", "more"),
    [
        pytest.param({"app": "db"}, {}, id="that the service does not select"),
        pytest.param(
            {"app": "web"}, {"topologySpreadConstraints": spread(HOSTNAME, WEB, 9)}, id="with constraints of its own"
        ),
    ],
)
def test_pods_that_are_not_spread_by_default(labels: dict[str, str], more: Data) -> None:
    newcomer = [group("r"), group(), pod("p", labels=labels, **more)]
    found = scores_of(zoned("z1", "y1"), service("s", {"app": "web"}), placed(z1=2, y1=1), newcomer, conf=only(SPREAD))
    assert len(set(found.values())) == 1


# --- images


MI = 1 << 20


@pytest.mark.parametrize(
    ("size", "image", "expected"),
    [
        pytest.param(500 * MI, "app:v1", 23, id="the worked example"),
        pytest.param(500 * MI, "app:v2", 0, id="another tag"),
        pytest.param(40 * MI, "app:v1", 0, id="too small to matter"),
        pytest.param(4000 * MI, "app:v1", 100, id="as large as it counts"),
    ],
)
def test_images(size: int, image: str, expected: int) -> None:
    nodes = [node(f"n{i}", images={"app:v1": size} if i < 3 else {}) for i in (1, 2, 3, 4)]
    found = scores_of(nodes, group(), pod("p", image=image), conf=only(IMAGES))
    assert found == {"n1": expected, "n2": expected, "n3": 0, "n4": 0}


def test_an_image_without_a_tag_is_the_latest() -> None:
    nodes = [node("n1", images={"host:5000/app:latest": 1000 * MI}), node("n2")]
    assert scores_of(nodes, group(), pod("p", image="host:5000/app"), conf=only(IMAGES))["n1"] == 48


def test_images_of_all_containers_add_up_against_a_higher_mark() -> None:
    nodes = [node("n1", images={"a:1": 1000 * MI, "b:1": 1000 * MI}), node("n2")]
    two = [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]
    found = scores_of(nodes, group(minimum=0), pod("p", containers=two), conf={**only(IMAGES), "actions": "backfill"})
    assert found["n1"] == 100 * (1000 - 23) // (2000 - 23)


# --- binpack


def packed(**arguments: Any) -> Data:
    given = {key.replace("__", "."): value for key, value in arguments.items()}
    return conf("allocate", ["gang"], ["predicates", plugin("binpack", given)])


EXAMPLE = {
    "binpack.weight": 10,
    "binpack.cpu": 5,
    "binpack.memory": 1,
    "binpack.resources": f"{GPU}, other.io/thing",
    f"binpack.resources.{GPU}": 2,
}


def packing(arguments: Data, **offers: Any) -> float:
    """Score of node `n1` that carries 2 cores, 4Gi and 3 GPUs, for a pod of 2 cores, 4Gi and one GPU."""
    nodes = [node(name, **{"cpu": 8, "memory": "32Gi", "gpu": 8, **offers}) for name in ("n1", "n2")]
    running = held("n1", **{"cpu": "2", "memory": "4Gi", GPU: 3})
    newcomer = pod("p", requests={"cpu": "2", "memory": "4Gi", GPU: 1})
    return scores_of(nodes, group("r"), running, group(), newcomer, conf=packed(**arguments))["n1"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(EXAMPLE, 468.75, id="the worked example"),
        pytest.param({}, 100 * (4 / 8 + 8 / 32) / 2, id="by default cpu and memory weigh one"),
        pytest.param({"binpack.resources": GPU}, 100 * (4 / 8 + 8 / 32 + 4 / 8) / 3, id="a listed resource weighs one"),
        pytest.param({f"binpack.resources.{GPU}": 9}, 37.5, id="one that is not listed does not count"),
        pytest.param({"binpack.memory": 0}, 50, id="a resource with weight zero does not count"),
        pytest.param({"binpack.cpu": -4}, 37.5, id="a negative weight counts as one"),
        pytest.param(
            {"binpack.resources": GPU, f"binpack.resources.{GPU}": -4},
            100 * (4 / 8 + 8 / 32 + 4 / 8) / 3,
            id="also of a listed resource",
        ),
        pytest.param({"binpack.resources": "cpu", "binpack.resources.cpu": 9}, 37.5, id="cpu has its own argument"),
        pytest.param({"binpack.weight": 3}, 112.5, id="the weight of the whole"),
        pytest.param({"binpack.weight": -1}, -37.5, id="a negative one turns it around"),
        pytest.param({"binpack.weight": 0}, 0, id="zero switches it off"),
        pytest.param({"binpack.cpu": 0, "binpack.memory": 0}, 0, id="without any weight it is zero"),
    ],
)
def test_binpack(arguments: Data, expected: float) -> None:
    assert packing(arguments) == pytest.approx(expected, rel=1e-9)


def test_binpack_of_a_node_that_is_being_freed_is_zero() -> None:
    old = [
        group("r"),
        pod("r-1", "r", cpu="2", node="n1", deleting=True),
        pod("r-2", "r", cpu="4", node="n2", deleting=True),
    ]
    nodes = [node("n1", cpu=2), node("n2", cpu=5), group(), pod("p", cpu="2")]
    assert scores_of(nodes, old, conf=packed()) == {"n1": 0, "n2": 0}


# --- how scores decide


def scoring(**scores: float) -> Any:
    """A plugin that gives nodes these scores."""

    def open_session(session: Session) -> None:
        import numpy as np  # noqa: PLC0415 - as a plugin of a user would

        session.add_node_score("mine", lambda _, nodes: np.array([scores.get(n, 0.0) for n in nodes.names]))

    return plugin_called("mine", open_session)


def test_scores_of_plugins_add_up() -> None:
    both = {**only(LEAST), "tiers": [*only(LEAST)["tiers"], {"plugins": [{"name": "mine"}]}]}
    objects: list[Objects] = [node("n1", cpu=64), node("n2"), gang("g", 1)]
    assert binds(plan_of(*objects, conf=both, plugins=[scoring()])) == {"g-w-0": "n1"}
    assert binds(plan_of(*objects, conf=both, plugins=[scoring(n2=50.0)])) == {"g-w-0": "n2"}


def test_a_plugin_may_pick_the_node() -> None:
    asked: list[list[str]] = []

    def pick_last(session: Session) -> None:
        def choose(_: Any, nodes: Any, scores: Any) -> int:
            asked.append(nodes.names)
            return len(scores) - 1

        session.add_best_node("last", choose)

    last = plugin_called("last", pick_last)
    by_last = conf("allocate", ["gang"], ["last", "predicates"])
    objects = [node("n1"), node("n2"), node("n3", cpu=0)]
    assert binds(plan_of(*objects, gang("g", 1), conf=by_last, plugins=[last])) == {"g-w-0": "n2"}
    assert asked == [["n1", "n2"]]


@pytest.mark.parametrize("answer", [-1, 99])
def test_a_plugin_that_picks_no_node_leaves_it_to_the_scores(answer: int) -> None:
    lazy = plugin_called("lazy", lambda session: session.add_best_node("lazy", lambda *_: answer))
    plan = plan_of(node("n1"), node("n2"), gang("g", 1), conf=conf("allocate", ["lazy"]), plugins=[lazy])
    assert binds(plan) == {"g-w-0": "n1"}


def test_scores_of_a_map_are_floored_and_reduced_over_the_candidates() -> None:
    seen: list[list[float]] = []

    def open_session(session: Session) -> None:
        import numpy as np  # noqa: PLC0415 - as a plugin of a user would

        def reduce(_: Any, scores: Any) -> Any:
            seen.append(scores.tolist())
            return scores.max() - scores

        session.add_node_map("map", lambda _, nodes: np.array([1.9, 0.2, 5.5])[: len(nodes)], reduce)

    objects: list[Objects] = [node("n1"), node("n2"), node("n3"), gang("g", 1)]
    plan = plan_of(*objects, conf=conf("allocate", ["map"]), plugins=[plugin_called("map", open_session)])
    assert (binds(plan), seen) == ({"g-w-0": "n2"}, [[1, 0, 5]])


@pytest.mark.parametrize(
    ("flags", "expected"),
    [pytest.param({}, "n2", id="on"), pytest.param({"enableNodeOrder": False}, "n1", id="off")],
)
def test_switch_of_the_scores(flags: dict[str, bool], expected: str) -> None:
    scored = conf("allocate", ["gang"], [plugin("nodeorder", **flags)])
    assert binds(plan_of(node("n1"), node("n2", cpu=64), gang("g", 1), conf=scored)) == {"g-w-0": expected}
