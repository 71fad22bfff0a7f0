"""Whatever happens to pods and nodes, the lives of pods keep to the rules."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kilauea.api.kinds import NODES, PODS
from kilauea.api.ports import Delete, Patch
from kilauea.nodes.heartbeats import Heartbeats
from kilauea.nodes.machine import Machine
from kilauea.nodes.pods import Pods
from support.simulated import World, node, pod

ORDER = {"Pending": 0, "Running": 1, "Succeeded": 2, "Failed": 2}
COMMANDS = [None, "sleep 1", "sleep 7", "exit 3", "sleep 2; exit 1", "echo x", "sleep infinity", "false || true", "'"]
NOTES = [
    {},
    {"run_time": "3s"},
    {"exit_code": "1"},
    {"run_time": "nonsense"},
    {"start_delay": "2s"},
    {"stop_time": "4s"},
]

containers = st.lists(
    st.sampled_from(COMMANDS).map(lambda text: {"image": "i", **({"command": ["sh", "-c", text]} if text else {})}),
    min_size=1,
    max_size=3,
)
inits = st.lists(
    st.tuples(st.sampled_from(COMMANDS), st.booleans()).map(
        lambda given: {
            "image": "i",
            **({"command": ["sh", "-c", given[0]]} if given[0] else {}),
            **({"restartPolicy": "Always"} if given[1] else {}),
        }
    ),
    max_size=2,
)


@st.composite
def pods(draw: st.DrawFn, name: str) -> dict[str, Any]:
    mains = [{"name": f"c{number}", **each} for number, each in enumerate(draw(containers))]
    before = [{"name": f"i{number}", **each} for number, each in enumerate(draw(inits))]
    spec: dict[str, Any] = {"initContainers": before} if before else {}
    if draw(st.booleans()):
        spec["activeDeadlineSeconds"] = draw(st.integers(1, 20))
    return pod(
        name,
        node=draw(st.sampled_from(["node-0", "node-1", "unknown"])),
        restart=draw(st.sampled_from(["Always", "OnFailure", "Never"])),
        containers=mains,
        notes_=draw(st.sampled_from(NOTES)),
        metadata={"finalizers": ["x"]} if draw(st.booleans()) else {},
        **spec,
    )


events = st.one_of(
    st.tuples(st.just("wait"), st.floats(0, 30)),
    st.tuples(st.just("delete"), st.sampled_from(["p0", "p1"])),
    st.tuples(st.just("end"), st.sampled_from(["p0", "p1"])),
    st.tuples(st.sampled_from(["silent", "not-ready", "well", "lose"]), st.sampled_from(["node-0", "node-1"])),
)


def happen(w: World, event: str, what: Any) -> None:
    """Let something happen to a world."""
    if event == "wait":
        w.run(what)
    elif event in ("delete", "end"):
        found = [each for each in w.list(PODS) if each["metadata"]["name"] == what]
        if found and event == "delete" and "deletionTimestamp" not in found[0]["metadata"]:
            w.begin_delete(what)
        elif found and event == "end":
            w.change(PODS, what, {"status": {"phase": "Failed", "reason": "Said"}}, "default")
    elif event == "lose":
        w.remove(NODES, what)
    else:
        w.put(NODES, node(what) if event == "well" else node(what, node_state=event))


@settings(max_examples=150, deadline=None)
@given(pods("p0"), pods("p1"), st.lists(events, max_size=8))
def test_phases_only_go_forward_and_what_has_ended_never_changes(
    first: dict[str, Any], second: dict[str, Any], history: list[tuple[str, Any]]
) -> None:
    w = World(Heartbeats(Machine()), Pods())
    for made in (node("node-0"), node("node-1")):
        w.put(NODES, made)
    for given_pod in (first, second):
        w.put(PODS, given_pod)
    for event, what in history:
        w.written.clear()
        ended = {
            each["metadata"]["name"]: each["status"]
            for each in w.list(PODS)
            if each["status"]["phase"] in ("Succeeded", "Failed")
        }
        happen(w, event, what)
        for each in w.list(PODS):
            name = each["metadata"]["name"]
            if event != "end":
                assert each["status"] == ended.get(name, each["status"])
    for name in ("p0", "p1"):
        phases = [phase for phase in w.phases[name] if phase]
        if not any(event == "end" and what == name for event, what in history):
            assert [ORDER[phase] for phase in phases] == sorted({ORDER[phase] for phase in phases}), phases
    check_statuses(w)


def check_statuses(w: World) -> None:
    """Statuses agree with themselves."""
    for each in w.list(PODS):
        status = each["status"]
        if status.get("reason") == "Said" or "containerStatuses" not in status:
            continue
        ready = {cond["type"]: cond["status"] for cond in status["conditions"]}["Ready"] == "True"
        sidecars = {init["name"] for init in each["spec"].get("initContainers", ()) if "restartPolicy" in init}
        beside = [entry for entry in status.get("initContainerStatuses", ()) if entry["name"] in sidecars]
        run = status["phase"] == "Running"
        assert ready == (run and all(entry["ready"] for entry in (*status["containerStatuses"], *beside)))
        if status["phase"] == "Succeeded":
            assert {entry["state"]["terminated"]["exitCode"] for entry in status["containerStatuses"]} == {0}
        if status["phase"] in ("Succeeded", "Failed"):
            assert not any("running" in entry["state"] for entry in status["containerStatuses"])


@settings(max_examples=60, deadline=None)
@given(pods("p0"), st.lists(st.floats(0.1, 20), min_size=1, max_size=6))
def test_looking_more_often_changes_no_outcome(given_pod: dict[str, Any], pauses: list[float]) -> None:
    def run(steps: list[float]) -> Any:
        w = World(Pods())
        w.put(NODES, node("node-0"))
        w.put(NODES, node("node-1"))
        w.put(PODS, {**given_pod, "metadata": {**given_pod["metadata"], "uid": "u"}})
        for seconds in steps:
            w.run(seconds)
        return w.pod("p0")["status"]

    total = sum(int(seconds * 1_000_000) for seconds in pauses) / 1_000_000
    assert run(pauses) == run([total])


@settings(max_examples=60, deadline=None)
@given(pods("p0"), st.floats(0, 100))
def test_a_pod_that_runs_for_long_costs_few_writes(given_pod: dict[str, Any], seconds: float) -> None:
    w = World(Pods())
    w.put(NODES, node("node-0"))
    w.put(PODS, given_pod)
    w.run(seconds)
    containers = [*given_pod["spec"].get("initContainers", ()), *given_pod["spec"]["containers"]]
    # Each container: start, end, and in 100 seconds at most four restarts with a wait before and an end after each.
    assert len(w.written) <= 2 + 15 * len(containers)
    assert all(isinstance(each, Patch | Delete) for each in w.written)
