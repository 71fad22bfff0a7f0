"""What pods ask for is found once for those with the same spec, and is what each would ask for alone."""

from __future__ import annotations

import copy
from itertools import permutations
from typing import Any

import msgspec
import pytest

from kilauea.api import wellknown
from kilauea.api.core import Pod, PodSpec
from kilauea.engine.model import asked
from kilauea.engine.model.asked import READ, AskedTable
from kilauea.engine.model.task_specs import SpecTable
from kilauea.engine.model.tasks import task_of

Data = dict[str, Any]


def pod(name: str, **changes: Any) -> Data:
    """A pod with one container; `meta` and `spec` change fields of these, `container` those of the container."""
    container = {
        "name": "main",
        "image": "work",
        "resources": {"requests": {"cpu": "1"}},
        **changes.get("container", {}),
    }
    spec = {
        "schedulerName": "volcano",
        "nodeName": f"node-{name}",
        "containers": [container],
        **changes.get("spec", {}),
    }
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "a", **changes.get("meta", {})}, "spec": spec}


def marked(name: str, value: str) -> Data:
    """A pod with an annotation."""
    return pod("p", meta={"annotations": {name: value}})


def term(**more: Any) -> Data:
    """A required term of pod affinity."""
    selector = {"matchLabels": {"app": "x"}}
    return {"required": [{"topologyKey": "zone", "labelSelector": selector, **more}]}


GPU = {"resources": {"requests": {"volcano.sh/gpu-memory": "2"}, "limits": {"volcano.sh/gpu-memory": "2"}}}
TERMS = {"requiredDuringSchedulingIgnoredDuringExecution": term()["required"]}
KEYED = {"requiredDuringSchedulingIgnoredDuringExecution": term(matchLabelKeys=["v"])["required"]}
SPREAD = {
    "maxSkew": 1,
    "topologyKey": "zone",
    "labelSelector": {"matchLabels": {"app": "x"}},
    "matchLabelKeys": ["v"],
}
CASES = {
    "plain": [pod("p"), pod("q"), pod("p", meta={"namespace": "b", "labels": {"x": "y"}})],
    "requests": [pod("p"), pod("p", container={"resources": {"requests": {"cpu": "2"}}})],
    "limits": [pod("p"), pod("p", container={"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}})],
    "images": [pod("p"), pod("p", container={"image": "other"}), pod("p", container={"image": "work:v2"})],
    "claims of a namespace": [
        pod(
            "p",
            meta={"namespace": each},
            spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
        )
        for each in ("a", "b")
    ],
    "claims of a pod": [pod(each, spec={"volumes": [{"name": "v", "ephemeral": {}}]}) for each in ("p", "q")],
    "disks": [
        pod("p", spec={"volumes": [{"name": "v", "awsElasticBlockStore": {"volumeID": each}}]}) for each in ("d", "e")
    ],
    "volumes without a part in scheduling": [pod("p", spec={"volumes": [{"name": each}]}) for each in ("v", "w")],
    "affinity in a namespace": [
        pod("p", meta={"namespace": each}, spec={"affinity": {"podAffinity": TERMS}}) for each in ("a", "b")
    ],
    "affinity by a label of the pod": [
        pod("p", meta={"labels": {"v": each}}, spec={"affinity": {"podAntiAffinity": KEYED}}) for each in ("1", "2")
    ],
    "spread by a label of the pod": [
        pod("p", meta={"labels": {"v": each}}, spec={"topologySpreadConstraints": [SPREAD]}) for each in ("1", "2")
    ],
    "cards": [pod("p", container=GPU), pod("p", container=GPU, meta={"annotations": {"volcano.sh/vgpu-mode": "mig"}})],
    "card names": [pod("p"), marked(wellknown.CARD_NAME, "NVIDIA-H200"), marked(wellknown.CARD_NAME, "NVIDIA-A100")],
    "level of service": [pod("p"), marked(wellknown.QOS_LEVEL, "BE"), marked(wellknown.QOS_LEVEL, "LC")],
    "zones": [pod("p"), marked(wellknown.REVOCABLE_ZONE, "*"), marked(wellknown.PREEMPTABLE, "true")],
    "strategy": [pod("p"), marked(wellknown.SCORING_TYPE, "binpack"), marked(wellknown.SCORING_TYPE, "spread")],
    "a number beyond JSON": [pod("p"), pod("p", spec={"priority": 1 << 70})],
}


def decoded(data: Data) -> Pod:
    """A pod as it is read from a file."""
    return msgspec.convert({"apiVersion": "v1", **copy.deepcopy(data)}, Pod)


def note_looks(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The nodes of the pods whose specs are looked at from now on."""
    looked: list[str | None] = []

    def look(spec: PodSpec) -> int:
        looked.append(spec.node_name)
        return 0

    monkeypatch.setattr(asked, "qos_of", look)
    return looked


@pytest.mark.parametrize("case", CASES)
def test_each_pod_asks_for_what_it_would_ask_for_alone_in_whatever_order_they_come(case: str) -> None:
    specs = SpecTable()
    pods = [decoded(each) for each in CASES[case]]
    alone = [AskedTable(specs).of(each) for each in pods]
    for order in permutations(range(len(pods))):
        table = AskedTable(specs)
        for number in (*order, *order):
            assert table.of(pods[number]) == alone[number], CASES[case][number]


def test_pods_of_a_gang_on_different_nodes_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = note_looks(monkeypatch)
    table = AskedTable(SpecTable())
    for number in range(5):
        table.of(decoded(pod(f"p-{number}", spec={"volumes": [{"name": f"kube-api-access-{number}"}]})))
    assert looked == ["node-p-0"]


def test_only_so_many_specs_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked, "MOST", 3)
    specs = SpecTable()
    table = AskedTable(specs)
    for number in range(20):
        table.of(decoded(pod("p", container={"resources": {"requests": {"cpu": str(number + 1)}}})))
    assert len(specs._known) <= 3


@pytest.mark.parametrize("name", sorted(READ))
def test_a_pod_with_an_annotation_that_decides_what_it_asks_for_is_looked_at_by_itself(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = note_looks(monkeypatch)
    table = AskedTable(SpecTable())
    for _ in range(2):
        table.of(decoded(marked(name, "1")))
    assert looked == ["node-p"] * 2


@pytest.mark.parametrize(("length", "remembered"), [(1, True), (asked.LONGEST, False)])
def test_what_is_found_of_a_large_pod_is_not_remembered(length: int, remembered: bool) -> None:
    table = AskedTable(SpecTable())
    made = [msgspec.convert(pod(name, container={"image": f"large/{'a' * length}"}), Pod) for name in ("p", "q")]
    first, second = (task_of(each, table) for each in made)
    assert (first.template is second.template, first.template == second.template) == (remembered, True)
    assert (table.of(made[0]) is table.of(made[1])) is remembered
