"""The plugin pdb: which pods disruption budgets allow to lose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import pytest

from kilauea.api import scheduling
from kilauea.api.meta import Object
from kilauea.engine.events import Changed, Gone
from kilauea.engine.eviction.budgets import allowances
from kilauea.engine.model.tasks import Task
from kilauea.engine.session import Session
from support.builders import Data, Objects, conf, group, labels_of, need, node, plan_of, plugin, pod, state_of
from support.probes import action_called, inside

PDB = conf("", ["pdb"])
WEB = labels_of({"app": "web"})


def budget(
    selector: Data | None = WEB,
    allowed: int | None = 1,
    name: str = "b",
    *,
    namespace: str = "ns",
    desired: int = 0,
    disrupted: Iterable[str] = (),
) -> Object:
    """A budget; without a number of pods that it allows it has no status."""
    metadata = {"name": name, "namespace": namespace}
    data: Data = {"kind": "PodDisruptionBudget", "metadata": metadata, "spec": {}}
    if selector is not None:
        data["spec"]["selector"] = selector
    if allowed is not None:
        times = dict.fromkeys(disrupted, "2026-01-01T00:00:00Z")
        data["status"] = {"disruptionsAllowed": allowed, "desiredHealthy": desired, "disruptedPods": times}
    return msgspec.convert(data, scheduling.PodDisruptionBudget)


def cluster(labels: Mapping[str, Mapping[str, str]]) -> Objects:
    """Running pods with these labels, by name, and one that waits: `mine`."""
    running = [pod(name, "r", node="n1", labels=of, cpu="100m") for name, of in labels.items()]
    return [node("n1"), group("r", phase="Running"), running, group("g"), pod("mine")]


def kept(session: Session, names: Iterable[str], point: str = "preemptable") -> list[str]:
    """Which of these pods may go."""
    tasks = [session.state.tasks[f"ns/{name}"] for name in names]
    arguments = [tasks] if point == "victim_tasks" else [session.state.tasks["ns/mine"], tasks]
    return [task.name for task in getattr(session, point)(*arguments)]


TWO_WEB = {"w1": {"app": "web"}, "w2": {"app": "web"}, "db": {"app": "db"}}


@pytest.mark.parametrize(
    ("budgets", "expected"),
    [
        pytest.param([], ["w1", "w2", "db"], id="without budgets all may go"),
        pytest.param([budget(allowed=1)], ["w1", "db"], id="a budget is spent in the order given"),
        pytest.param([budget(allowed=2)], ["w1", "w2", "db"], id="as far as it goes"),
        pytest.param([budget(allowed=0)], ["db"], id="a budget of nothing"),
        pytest.param([budget(allowed=None)], ["db"], id="a budget without a status allows nothing"),
        pytest.param([budget(allowed=0, namespace="elsewhere")], ["w1", "w2", "db"], id="of another namespace"),
        pytest.param([budget({}, 0)], ["w1", "w2", "db"], id="an empty selector selects no one"),
        pytest.param([budget(None, 0)], ["w1", "w2", "db"], id="nor does none"),
        pytest.param(
            [budget({"matchExpressions": [need("app", "Near", "web")]}, 0)],
            ["w1", "w2", "db"],
            id="a selector that cannot be read selects no one",
        ),
        pytest.param(
            [budget({"matchExpressions": [need("app", "Exists")]}, 2)], ["w1", "w2"], id="expressions are understood"
        ),
        pytest.param(
            [budget(allowed=1, disrupted=["w1"])], ["w1", "w2", "db"], id="a pod that is counted already is not charged"
        ),
        pytest.param(
            [budget(allowed=1), budget({"matchExpressions": [need("app", "Exists")]}, 0, "all")],
            [],
            id="every budget has to allow it",
        ),
    ],
)
@pytest.mark.parametrize("point", ["preemptable", "reclaimable", "victim_tasks"])
def test_which_pods_may_go(point: str, budgets: list[Object], expected: list[str]) -> None:
    assert inside(cluster(TWO_WEB), budgets, do=lambda s: kept(s, ["w1", "w2", "db"], point), conf=PDB) == expected


def test_a_pod_that_one_budget_keeps_is_charged_to_the_others_too() -> None:
    labels = {"a": {"app": "web", "tier": "x"}, "b": {"app": "web"}}
    budgets = [budget(allowed=1), budget(labels_of({"tier": "x"}), 0, "x")]
    assert inside(cluster(labels), budgets, do=lambda s: kept(s, ["a", "b"]), conf=PDB) == []
    assert inside(cluster(labels), budgets, do=lambda s: kept(s, ["b", "a"]), conf=PDB) == ["b"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param({}, ["w"], id="no one may evict them"),
        pytest.param({"pdb.unlabelled-pods": True}, ["bare", "w"], id="unless the argument says so"),
    ],
)
def test_pods_without_labels(arguments: Data, expected: list[str]) -> None:
    objects = cluster({"bare": {}, "w": {"app": "web"}})
    assert inside(objects, do=lambda s: kept(s, ["bare", "w"]), conf=conf("", [plugin("pdb", arguments)])) == expected


# --- budgets in the course of a cycle


def test_evictions_of_the_cycle_are_charged() -> None:
    def evict(session: Session) -> list[list[str]]:
        found, statement = [kept(session, ["w2"])], session.statement()
        statement.evict(session.state.tasks["ns/w1"], "probe")
        found.append(kept(session, ["w2", "db"]))
        statement.discard()
        return [*found, kept(session, ["w2"])]

    assert inside(cluster(TWO_WEB), budget(allowed=1), do=evict, conf=PDB) == [["w2"], ["db"], ["w2"]]


@pytest.mark.parametrize(
    ("allowed", "desired", "disrupted", "expected"),
    [
        pytest.param(1, 2, [], [], id="the status does not count the pod that ends"),
        pytest.param(0, 2, [], [], id="it does"),
        pytest.param(1, 2, ["w0"], [], id="it counts a pod as evicted that still runs"),
        pytest.param(1, 1, [], ["w1"], id="one more may go"),
        pytest.param(2, 1, [], ["w1"], id="one more and no two"),
        pytest.param(2, 0, [], ["w1", "w2"], id="all may go"),
    ],
)
@pytest.mark.parametrize("point", ["preemptable", "victim_tasks"])
def test_evictions_of_earlier_cycles_are_charged(
    point: str, allowed: int, desired: int, disrupted: list[str], expected: list[str]
) -> None:
    """A controller brings the status of a budget in line with the pods a while later, and cycles follow at once."""
    running = cluster({"w1": {"app": "web"}, "w2": {"app": "web"}})
    ends = pod("w0", "r", node="n1", labels={"app": "web"}, deleting=not disrupted)
    late = budget(allowed=allowed, desired=desired, disrupted=disrupted)
    assert inside(running, ends, late, do=lambda s: kept(s, ["w1", "w2"], point), conf=PDB) == expected


def test_a_question_alone_spends_nothing() -> None:
    def ask(session: Session) -> list[list[str]]:
        return [kept(session, ["w1"]), kept(session, ["w2"])]

    assert inside(cluster(TWO_WEB), budget(allowed=1), do=ask, conf=PDB) == [["w1"], ["w2"]]


# --- victims without a preemptor


@pytest.mark.parametrize(
    ("flags", "actions", "expected"),
    [
        pytest.param({}, "", ["w1"], id="named where no one shuffles"),
        pytest.param({}, "shuffle", [], id="not named for shuffle"),
        pytest.param({"enabledVictim": True}, "shuffle", ["w1"], id="unless the flag says so"),
        pytest.param({"enabledVictim": False}, "", [], id="never if the flag forbids it"),
    ],
)
def test_victims_for_shuffle(flags: dict[str, bool], actions: str, expected: list[str]) -> None:
    found: list[list[str]] = []
    probes = [action_called("shuffle", lambda _: None), action_called("look", lambda s: found.append(ask(s)))]

    def ask(session: Session) -> list[str]:
        return kept(session, ["w1", "w2"], "victim_tasks")

    chosen = ", ".join(filter(None, [actions, "look"]))
    document: Any = conf(chosen, [plugin("pdb", **flags)])
    plan_of(cluster(TWO_WEB), budget(), conf=document, actions=probes)
    assert found == [expected]


# --- what budgets allow, counted


def test_what_budgets_allow_follows_the_pods_that_run_without_a_look_at_each(monkeypatch: pytest.MonkeyPatch) -> None:
    def running(name: str, **more: Any) -> Object:
        return pod(name, "r", node="n1", labels={"app": "web"}, **more)

    state = state_of(cluster({}), budget(allowed=9), budget(allowed=9, name="other", namespace="else"))

    def allowed(*gone: str) -> dict[str, int]:
        tasks = [state.tasks[f"ns/{name}"] for name in gone]
        with monkeypatch.context() as patched:
            patched.setattr(state, "tasks", OneByOne(state.tasks))
            return allowances(state, tasks)

    assert allowed() == {"ns/b": 0, "else/other": 0}
    for each in (running("w1"), running("w2"), running("w3"), running("alike", namespace="third")):
        state.apply(Changed(each))
    assert allowed() == {"ns/b": 3, "else/other": 0}
    state.apply(Changed(running("w1", deleting=True)))
    assert (allowed()["ns/b"], allowed("w1")["ns/b"]) == (2, 3), "evicted in this cycle counts as running"
    state.apply(Gone("Pod", "ns/w1"))
    state.apply(Changed(pod("waits", "r", labels={"app": "web"})))
    assert allowed()["ns/b"] == 2, "a pod that waits takes the row of the one that is gone"


class OneByOne(dict[str, Task]):
    """Tasks that can only be found by name."""

    def values(self) -> Any:
        raise AssertionError("all tasks are read")
