"""What the five seed documents promise of the engine and no other test shows.

`tests/seed-coverage.md` says for every promise where it is shown. A few tests here put together what others show in
parts, with the words and figures of the seeds.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
import yaml

from kilauea.api.decode import decode
from kilauea.engine.action import Action
from kilauea.engine.actions import ACTIONS
from kilauea.engine.conf import ALIASES, DEFAULT_CONF, SchedulerConf, inspect_conf
from kilauea.engine.events import Changed, Gone
from kilauea.engine.extension import FLAGS
from kilauea.engine.model import status
from kilauea.engine.model.jobs import Job
from kilauea.engine.plugin import Plugin
from kilauea.engine.plugins import PLUGINS
from kilauea.engine.plugins.gang import pipelined, ready, valid
from kilauea.engine.plugins.nodeorder import NodeOrder
from kilauea.engine.session import Session
from kilauea.engine.state import ClusterState
from kilauea.runtime.inputs.extensions import load_extensions
from support.builders import (
    GI,
    GPU,
    NOW,
    Data,
    Objects,
    best_effort,
    binds,
    codes,
    conf,
    flat,
    gang,
    group,
    namespace,
    node,
    nominations,
    plan_in,
    plan_of,
    plugin,
    pod,
    priority_class,
    queue,
    state_of,
)
from support.probes import full, inside, open_points, plugin_called, scores_of


def inspected(document: Data) -> SchedulerConf:
    """A configuration with what is found wrong with it."""
    return inspect_conf(document, PLUGINS, ACTIONS)


def errors(document: Data) -> list[str]:
    return [str(finding) for finding in inspected(document).findings if finding.error]


# --- the configuration


SEED_FLAGS = {
    "enableJobOrder": ["job_order"],
    "enableJobReady": ["job_ready"],
    "enableJobPipelined": ["job_pipelined"],
    "enableTaskOrder": ["task_order"],
    "enablePreemptable": ["preemptable"],
    "enableReclaimable": ["reclaimable"],
    "enablePreemptive": ["preemptive"],
    "enableQueueOrder": ["queue_order"],
    "enablePredicate": ["predicate", "pre_predicate"],
    "enableBestNode": ["best_node"],
    "enableNodeOrder": ["node_score", "batch_node_score"],
    "enableTargetJob": ["target_job"],
    "enableReservedNodes": ["reserved_nodes"],
    "enableJobEnqueued": ["job_enqueueable", "job_enqueued"],
    "enableJobStarving": ["job_starving"],
    "enabledVictim": ["victim_tasks"],
    "enabledOverused": ["overused"],
    "enabledAllocatable": ["allocatable"],
    "EnabledClusterOrder": ["cluster_order"],
}
"""Enable flags as the seed spells them, with the extension points that they switch."""


@pytest.mark.parametrize("flag", SEED_FLAGS)
def test_a_flag_as_the_seed_spells_it_switches_its_points(flag: str) -> None:
    def asked(point: str, on: bool) -> bool:
        session = open_points((plugin("a", **{flag: on}),))
        session.points.add(point, "a", lambda *_: None)
        return bool(session.points.tiers_of(point))

    assert {point: (asked(point, True), asked(point, False)) for point in SEED_FLAGS[flag]} == dict.fromkeys(
        SEED_FLAGS[flag], (True, False)
    )
    assert inspected(conf("allocate", [plugin("gang", **{flag: True})])).findings == ()


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        pytest.param({}, {"p": "n1"}, id="without it queues are flat"),
        pytest.param({"enableHierarchy": True}, {}, id="as the walk through spells it"),
        pytest.param({"enabledHierarchy": True}, {}, id="as the text on capacity spells it"),
        pytest.param({"EnabledHierarchy": True}, {}, id="as the text on the tree spells it"),
    ],
)
def test_the_tree_of_queues_is_switched_on_by_any_of_its_spellings(
    flags: dict[str, bool], expected: dict[str, str]
) -> None:
    queues = [queue("root"), queue("team", parent="root"), queue("leaf", parent="team")]
    by_capacity = conf("allocate", [plugin("capacity", **flags)])
    plan = plan_of(node("n1"), queues, group(queue="team"), pod("p"), conf=by_capacity)
    assert binds(plan) == expected
    assert set(codes(plan).values()) <= {"QueueNotLeaf"}


WHOLE = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
- plugins:
  - name: overcommit
    arguments:
      overcommit-factor: 1.0
  - name: sla
    arguments:
      sla-waiting-time: 1h2m3s4ms5µs6ns
"""


def test_a_configuration_is_actions_tiers_of_plugins_and_their_arguments() -> None:
    read = inspected(yaml.safe_load(WHOLE))
    assert read.findings == ()
    assert read.actions == ("enqueue", "allocate", "backfill")
    assert [[entry.name for entry in tier] for tier in read.tiers] == [["priority", "gang"], ["overcommit", "sla"]]
    assert not read.tiers[0][1].is_enabled("preemptable")
    assert read.tiers[1][0].arguments == {"overcommit-factor": 1.0}
    assert plan_of(node("n1"), gang("g", 1, phase="Pending"), conf=yaml.safe_load(WHOLE)).findings == ()


def test_all_five_actions_can_be_configured_and_three_of_them_are_the_default() -> None:
    five = {**DEFAULT_CONF, "actions": "enqueue, allocate, preempt, reclaim, backfill"}
    assert inspected(five).findings == ()
    assert inspected(five).actions == ("enqueue", "allocate", "preempt", "reclaim", "backfill")
    assert DEFAULT_CONF["actions"] == "enqueue, allocate, backfill"


def test_queues_share_by_weight_and_jobs_by_dominant_share_by_default() -> None:
    named = {entry["name"] for tier in DEFAULT_CONF["tiers"] for entry in tier["plugins"]}
    assert {"proportion", "drf"} <= named
    assert "capacity" not in named


SEED_PLUGINS = (
    "drf gang deviceshare predicates priority nodeorder conformance binpack resource-strategy-fit tdm overcommit sla "
    "task-topology numaaware cdp rescheduling usage pdb nodegroup network-topology-aware proportion capacity extender "
    "resourcequota"
).split()


@pytest.mark.parametrize("name", [*SEED_PLUGINS, "topology", "numa-aware"])
def test_a_plugin_that_a_seed_names_is_known(name: str) -> None:
    assert list(inspected(conf("allocate", [name])).findings) == []
    assert ALIASES.get(name, name) in PLUGINS


def test_capacity_beside_proportion_is_found_by_the_check() -> None:
    found = inspected(conf("allocate", ["proportion"], ["capacity"])).findings
    assert [finding.code for finding in found] == ["rival-plugins"]


SWITCHES = (
    "NodeAffinityEnable NodePortsEnable TaintTolerationEnable PodAffinityEnable NodeVolumeLimitsEnable "
    "VolumeZoneEnable PodTopologySpreadEnable CacheEnable"
).split()


@pytest.mark.parametrize("on", [True, False])
def test_the_eight_switches_of_predicates_are_read_without_a_warning(on: bool) -> None:
    switches = {f"predicate.{name}": on for name in SWITCHES}
    plan = plan_of(node("n1"), gang("g", 1), conf=conf("allocate", ["gang"], [plugin("predicates", switches)]))
    assert (binds(plan), plan.findings) == ({"g-w-0": "n1"}, ())


def test_the_eight_weights_of_nodeorder() -> None:
    fields = NodeOrder.Arguments.__dataclass_fields__.values()
    assert {field.metadata["key"]: field.default for field in fields} == {
        "leastrequested.weight": 1,
        "mostrequested.weight": 0,
        "nodeaffinity.weight": 2,
        "podaffinity.weight": 2,
        "balancedresource.weight": 1,
        "tainttoleration.weight": 3,
        "imagelocality.weight": 1,
        "podtopologyspread.weight": 2,
    }


def test_binpack_with_the_weights_of_the_seed() -> None:
    weights = {
        "binpack.weight": 10,
        "binpack.cpu": 5,
        "binpack.memory": 1,
        "binpack.resources": "nvidia.com/gpu, example.com/foo",
        "binpack.resources.nvidia.com/gpu": 2,
        "binpack.resources.example.com/foo": 3,
    }
    nodes = [node(name, 8, "32Gi", gpu=8, resources={"example.com/foo": 4}) for name in ("n1", "n2")]
    held = pod("r", "r", node="n1", requests={"cpu": 2, "memory": "4Gi", GPU: 3, "example.com/foo": 1})
    asked = pod("p", requests={"cpu": 2, "memory": "4Gi", GPU: 1, "example.com/foo": 1})
    found = scores_of(nodes, group("r"), held, group(), asked, conf=conf("allocate", [plugin("binpack", weights)]))
    parts = {5: (4 / 8, 2 / 8), 1: (8 / 32, 4 / 32), 2: (4 / 8, 1 / 8), 3: (2 / 4, 1 / 4)}
    full_score, empty_score = (
        sum(weight * uses[at] for weight, uses in parts.items()) / 11 * 100 * 10 for at in (0, 1)
    )
    assert found == pytest.approx({"n1": full_score, "n2": empty_score})


@pytest.mark.parametrize("point", ["preemptable", "reclaimable"])
def test_gang_with_its_flag_off_has_no_say_in_preemption_but_in_reclaim(point: str) -> None:
    def names(session: Session) -> list[str]:
        return [name for name, _ in session.points.walk(point)]

    off = conf("", [plugin("gang", enablePreemptable=False)])
    assert inside(node("n1"), gang("t", 2, node="n1"), do=names, conf=off) == ["gang"] * (point == "reclaimable")


# --- what plugins and actions are


def test_actions_run_in_their_order_between_the_opening_and_the_closing_of_the_plugins() -> None:
    heard: list[str] = []

    class Told(Plugin):
        name = "told"

        def on_session_open(self, session: Session) -> None:
            heard.append("open")

        def on_session_close(self, session: Session) -> None:
            heard.append("close")

    def steps(called: str) -> type[Action]:
        class Steps(Action):
            name = called

            def on_start(self, session: Session) -> None:
                heard.append(f"{called} starts")

            def execute(self, session: Session) -> None:
                heard.append(called)

            def on_end(self, session: Session) -> None:
                heard.append(f"{called} ends")

        return Steps

    plan_of(conf=conf("two, one", ["told"]), plugins=[Told], actions=[steps("one"), steps("two")])
    assert heard == ["open", "two starts", "two", "two ends", "one starts", "one", "one ends", "close"]


def test_a_session_holds_the_cluster_its_total_and_the_plugins_with_what_they_registered() -> None:
    def look(session: Session) -> None:
        assert list(session.state.jobs) == [full("g")]
        assert session.nodes.names == ["n1", "n2"]
        assert list(session.queues) == ["q"]
        assert session.state.namespaces == {"ns": {"team": "red"}}
        assert session.total == {"cpu": 12000, "memory": 32 * GI, "pods": 220}
        assert [name for name, _ in session.points.walk("job_order")] == ["gang", "priority"]
        assert session.now == NOW

    objects: list[Objects] = [node("n1", cpu=8), node("n2"), namespace("ns", {"team": "red"}), gang("g", 2)]
    inside(*objects, do=look, conf=conf("", ["gang"], ["priority"]))


PROVIDERS = {
    "job_valid": "gang",
    "job_order": "sla drf gang priority tdm",
    "queue_order": "capacity drf proportion",
    "task_order": "priority task-topology",
    "job_enqueueable": "overcommit capacity extender proportion resourcequota sla",
    "overused": "proportion",
    "allocatable": "capacity proportion",
    "pre_predicate": "predicates",
    "predicate": "deviceshare extender nodegroup numa-aware predicates tdm usage",
    "node_score": "binpack deviceshare nodegroup nodeorder tdm usage",
    "batch_node_score": "nodeorder numa-aware task-topology",
    "job_ready": "gang",
    "job_pipelined": "gang sla tdm",
    "job_starving": "tdm gang priority",
    "preemptable": "cdp conformance drf extender gang pdb priority tdm",
    "reclaimable": "capacity cdp conformance drf extender gang pdb proportion",
}
"""Which plugins have a say where, as the walk through tells it; cdp has a say in reclaim since.

The scores of task-topology depend on where else its tasks are, so they are batch scores here.
"""


SAMPLE_ARGUMENTS = {
    "extender": {f"extender.{verb}Verb": verb for verb in ("predicate", "preemptable", "reclaimable", "jobEnqueueable")}
}
"""An extender has its say only where a verb is configured: here, where the walk through lists it."""

SHARED_CARDS = {
    "deviceshare.GPUSharingEnable": True,
    "deviceshare.SchedulePolicy": "binpack",
    "deviceshare.ScheduleWeight": 1,
}
"""Arguments with which deviceshare gives out cards and scores nodes."""


@functools.cache
def registered() -> dict[str, set[str]]:
    """By extension point, the plugins that register there; each is asked alone, with its tree if it has one."""
    out: dict[str, set[str]] = {point: set() for point in FLAGS}

    def note(session: Session) -> None:
        for point, found in out.items():
            found.update(name for name, _ in session.points.walk(point))

    for name in sorted(PLUGINS.keys() & {n for names in PROVIDERS.values() for n in names.split()}):
        given = SHARED_CARDS if name == "deviceshare" else SAMPLE_ARGUMENTS.get(name, {})
        shares = pod("p", requests={"volcano.sh/gpu-memory": 1})
        inside(queue("root"), queue("q"), shares, do=note, conf=conf("", [plugin(name, given, enableHierarchy=True)]))
    return out


@pytest.mark.parametrize("point", PROVIDERS)
def test_plugins_have_their_say_where_the_seed_tells(point: str) -> None:
    assert registered()[point] == PLUGINS.keys() & set(PROVIDERS[point].split())


FEWEST = '''
from kilauea.engine.plugin import Plugin


class FewestPods(Plugin):
    """Prefers the node that runs the fewest pods."""

    name = "fewest-pods"

    def on_session_open(self, session):
        session.add_node_score(self.name, lambda shape, nodes: -nodes.pod_count.astype(float))
'''


def test_a_plugin_in_a_folder_of_the_user_is_used_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "fewest.py").write_text(FEWEST)
    mine = load_extensions([str(tmp_path)], installed=False).plugins["fewest-pods"]
    objects: list[Objects] = [node("n1"), node("n2"), group("r"), pod("r", "r", node="n1"), gang("g", 1)]
    assert binds(plan_of(*objects, conf=conf("allocate", ["fewest-pods"]), plugins=[mine])) == {"g-w-0": "n2"}


# --- the action of the walk through


class Launch(Action):
    """Each pod goes to the node that has the fewest pods then."""

    name = "launch"

    def execute(self, session: Session) -> None:
        statement = session.statement()
        for job in session.waiting_jobs():
            if session.job_valid(job) is not None:
                continue
            for task in session.in_order(task for task in job.pending() if not task.gated):
                statement.allocate(task, int(session.nodes.all().task_count.argmin()))
            if session.job_ready(job):
                statement.commit()


LAUNCH = conf("enqueue, launch", ["proportion"])


def three_nodes() -> list[Objects]:
    """Three equal nodes; the first runs two pods without a controller, the others one each."""
    on = {"a": "n1", "b": "n1", "c": "n2", "d": "n3"}
    system: dict[str, Any] = {"namespace": "kube-system", "schedulerName": "default-scheduler"}
    return [queue("q"), *(node(f"n{i}") for i in (1, 2, 3)), *(pod(p, "", node=n, **system) for p, n in on.items())]


def nginx(number: int, port: int) -> list[Objects]:
    """What is made of the Deployment `nginx-1` or `nginx-2`."""
    name = f"nginx-{number}"
    served: dict[str, Any] = {"image": "nginx:1.25", "ports": [{"containerPort": port}]}
    return [group(name, phase="Pending", created=number), pod(f"{name}-x", name, cpu=None, memory=None, **served)]


def test_nginx_1_is_launched_on_the_node_with_the_fewest_pods_and_nginx_2_on_another() -> None:
    state = state_of(three_nodes(), nginx(1, 81))
    assert binds(plan_in(state, LAUNCH, actions=[Launch])) == {"nginx-1-x": "n2"}
    for obj in flat([pod("nginx-1-x", "nginx-1", cpu=None, memory=None, node="n2"), nginx(2, 82)]):
        state.apply(Changed(obj))
    assert binds(plan_in(state, LAUNCH, actions=[Launch])) == {"nginx-2-x": "n3"}


def test_launch_counts_its_own_pods_and_asks_for_no_filter() -> None:
    cordoned = [node("n1", unschedulable=True), node("n2", taints=["a=b:NoSchedule"])]
    plan = plan_of(cordoned, gang("g", 4, phase="Pending"), conf=LAUNCH, actions=[Launch])
    assert list(binds(plan).values()) == ["n1", "n2", "n1", "n2"]


@pytest.mark.parametrize(
    ("objects", "bound"),
    [
        pytest.param([group(minimum=2, phase="Pending"), pod("a"), pod("b")], 2, id="a gang that is whole"),
        pytest.param([group(minimum=3, phase="Pending"), pod("a"), pod("b")], 0, id="a gang with too few pods"),
        pytest.param(
            [group(minimum=2, phase="Pending"), pod("a"), pod("b", schedulingGates=[{"name": "example.com/wait"}])],
            0,
            id="a gang that is not ready in the end",
        ),
    ],
)
def test_launch_asks_whether_a_job_is_valid_and_starts_it_when_it_is_ready(objects: list[Objects], bound: int) -> None:
    with_gang = conf("enqueue, launch", ["gang"], ["proportion"])
    assert len(binds(plan_of(node("n1"), objects, conf=with_gang, actions=[Launch]))) == bound


# --- tasks, jobs, queues and nodes


def test_the_ten_states_of_a_task_are_the_bits_of_the_seed() -> None:
    assert {name: 1 << number for number, name in enumerate(status.NAMES)} == {
        "Pending": 1,
        "Allocated": 2,
        "Pipelined": 4,
        "Binding": 8,
        "Bound": 16,
        "Running": 32,
        "Releasing": 64,
        "Succeeded": 128,
        "Failed": 256,
        "Unknown": 512,
    }


@pytest.mark.parametrize(
    ("stands", "expected"),
    [
        pytest.param({"phase": "Pending"}, "Pending", id="it waits"),
        pytest.param({"phase": "Pending", "node": "n1"}, "Bound", id="it has a node and does not run yet"),
        pytest.param({"node": "n1"}, "Running", id="it runs"),
        pytest.param({"node": "n1", "deleting": True}, "Releasing", id="it runs and is being deleted"),
        pytest.param({"deleting": True}, "Releasing", id="it waits and is being deleted"),
        pytest.param({"node": "n1", "phase": "Succeeded"}, "Succeeded", id="all its containers ended with 0"),
        pytest.param({"node": "n1", "phase": "Failed"}, "Failed", id="one of its containers did not"),
        pytest.param({"node": "n1", "phase": "Unknown"}, "Unknown", id="no one knows"),
    ],
)
def test_state_of_a_pod(stands: Data, expected: str) -> None:
    assert status.NAMES[state_of(group(), pod("p", **stands)).tasks[full("p")].status] == expected


def job_with(state: str, *, asks: bool = True, **of_group: Any) -> Job:
    """A job of which one task, of role `a`, is in this state."""
    task = pod("a", role="a") if asks else best_effort("a", role="a")
    job = state_of(group(**of_group), task, pod("b", role="b")).jobs[full("g")]
    job.move(job.tasks[full("a")], status.NAMES.index(state))
    return job


PLACED = ("Allocated", "Binding", "Bound", "Running", "Succeeded")


@pytest.mark.parametrize("state", status.NAMES)
def test_how_a_state_counts_towards_the_minimum_of_a_gang(state: str) -> None:
    placed, promised = state in PLACED, state == "Pipelined"
    job = job_with(state, minimum=1)
    assert job.ready_count == placed
    assert job.counts[status.PIPELINED] == promised
    assert job.valid_count - 1 == (placed or promised or state == "Pending")
    assert (job.is_ready, job.is_pipelined, job.is_starving) == (placed, placed or promised, not (placed or promised))
    assert job.pending_best_effort == 0


@pytest.mark.parametrize("state", status.NAMES)
def test_how_a_state_counts_towards_the_minimum_of_a_role(state: str) -> None:
    placed, promised = state in PLACED, state == "Pipelined"
    job = job_with(state, minimum=2, roles={"a": 1, "b": 1})
    job.move(job.tasks[full("b")], status.RUNNING)
    assert (valid(job) is None) is (placed or promised or state == "Pending")
    assert (ready(job), pipelined(job)) == (placed, placed or promised)
    assert job.roles_have((*status.READY, status.PIPELINED)) is (placed or promised)


def test_a_task_that_waits_and_asks_for_nothing_counts_as_placed_but_still_starves() -> None:
    job = job_with("Pending", asks=False, minimum=2, roles={"a": 1, "b": 1})
    job.move(job.tasks[full("b")], status.RUNNING)
    assert job.pending_best_effort == 1
    assert (ready(job), pipelined(job), job.is_starving) == (True, True, True)
    assert not job.roles_have((*status.READY, status.PIPELINED))


@pytest.mark.parametrize(
    ("stands", "counts"),
    [
        pytest.param({"phase": "Pending", "node": "n1"}, True, id="Bound"),
        pytest.param({"node": "n1"}, True, id="Running"),
        pytest.param({}, False, id="Pending"),
        pytest.param({"node": "n1", "deleting": True}, False, id="Releasing"),
        pytest.param({"node": "n1", "phase": "Succeeded"}, False, id="Succeeded"),
        pytest.param({"node": "n1", "phase": "Failed"}, False, id="Failed"),
    ],
)
def test_what_counts_as_allocated_to_a_job_and_its_queue(stands: Data, counts: bool) -> None:
    def held(session: Session) -> tuple[float, float]:
        return session.state.jobs[full("g")].allocated.get("cpu", 0), session.queues["q"].allocated.get("cpu", 0)

    assert inside(node("n1"), group(), pod("p", **stands), do=held, conf=conf("", ["gang"])) == (1000 * counts,) * 2
    assert {status.NAMES[s] for s in status.HOLDING} == {"Bound", "Binding", "Running", "Allocated"}


def test_what_the_engine_knows_of_a_pod() -> None:
    marks = {"volcano.sh/preemptable": "false"}
    task = state_of(
        group(), pod("p", uid="u", role="worker", cpu="2", gpu=1, priority=7, node="n1", annotations=marks)
    ).tasks[full("p")]
    assert (task.uid, task.group, task.name, task.namespace, task.role) == ("u", full("g"), "p", "ns", "worker")
    assert (task.priority, task.preemptable, task.spec.best_effort) == (7, False, False)
    assert (task.node, status.NAMES[task.status]) == ("n1", "Running")
    assert task.spec.requests == {"cpu": 2000, "memory": GI, GPU: 1000, "pods": 1}


def test_what_a_pod_asks_for_at_its_start_is_what_it_counts_for_while_it_runs() -> None:
    starts_big = [{"name": "i", "resources": {"requests": {"cpu": "3"}}}]
    running = pod("r", "r", cpu="1", node="n1", initContainers=starts_big)
    plan = plan_of(node("n1"), group("r", phase="Running"), running, gang("g", 2), conf=conf("allocate", ["gang"]))
    assert plan.queues["q"].allocated["cpu"] == 3000
    assert binds(plan) == {}


def test_what_the_engine_knows_of_a_job() -> None:
    annotated = group("train", "q", 2, created=5, priority="high", resources={"cpu": 3}, roles={"master": 1})
    annotated.metadata.annotations = {"sla-waiting-time": "1h2m3s4ms5us6ns"}
    pods = [pod("m", "train", role="master", node="n1"), pod("w", "train", role="worker", uid="worker-uid")]
    state = state_of(node("n1"), priority_class("high", 1000), annotated, pods)
    state.settle()
    job = state.jobs["ns/train"]
    assert (job.key, job.queue, job.priority, job.min_available) == ("ns/train", "q", 1000, 2)
    assert (job.creation, job.waiting_time) == (NOW + 5_000_000, 3_723_004_005)
    assert (job.role_minimum, job.min_resources) == ({"master": 1}, {"cpu": 3000})
    assert (job.counts[status.RUNNING], job.counts[status.PENDING], job.is_pending) == (1, 1, False)
    assert (job.allocated["cpu"], job.total_request()["cpu"]) == (1000, 2000)
    assert state_of(group("g", phase="Pending")).jobs[full("g")].is_pending


def test_what_a_node_offers_what_is_used_and_what_is_being_freed() -> None:
    def account(session: Session) -> dict[str, int]:
        nodes = session.nodes.all()
        names = ("allocatable", "used", "idle", "releasing", "future_idle")
        return {name: int(getattr(nodes, name)[session.axis.rows["cpu"], 0]) for name in names}

    pods = [pod("r", node="n1"), pod("d", cpu="2", node="n1", deleting=True), pod("e", node="n1", phase="Succeeded")]
    found = inside(node("n1", cpu=8), group(), pods, do=account, conf=conf("", ["gang"]))
    assert found == {"allocatable": 8000, "used": 3000, "idle": 5000, "releasing": 2000, "future_idle": 7000}


MANIFESTS = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: train, namespace: ns}
spec:
  minMember: 4
  minTaskMember: {master: 1, worker: 3}
  queue: q
  priorityClassName: high
  minResources: {cpu: "4", nvidia.com/gpu: "4"}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata:
  name: q
  annotations: {volcano.sh/hierarchy: root/eng/prod, volcano.sh/hierarchy-weights: 1/2/8}
spec:
  weight: 3
  reclaimable: false
  capability: {cpu: "60", memory: 240Gi}
  guarantee: {resource: {cpu: "10", memory: 40Gi}}
  deserved: {cpu: "40", memory: 160Gi}
  parent: root
---
apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNode
metadata: {name: leaf}
spec:
  tier: 1
  members: [{type: Node, selector: {exactMatch: {name: n1}}}]
---
apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNode
metadata: {name: spine}
spec:
  tier: 2
  members: [{type: HyperNode, selector: {exactMatch: {name: leaf}}}]
"""


def read() -> ClusterState:
    """The state that the manifests above describe."""
    decoded = decode(MANIFESTS.encode(), "manifests")
    assert (decoded.errors, decoded.skipped) == ([], {})
    return state_of(node("n1"), node("n2"), decoded.objects)


def test_a_pod_group_as_it_is_written() -> None:
    job = read().jobs["ns/train"]
    assert (job.min_available, job.role_minimum) == (4, {"master": 1, "worker": 3})
    assert (job.queue, job.priority_class) == ("q", "high")
    assert job.min_resources == {"cpu": 4000, GPU: 4000}


def test_a_queue_as_it_is_written() -> None:
    found = read().queues["q"]
    assert (found.name, found.weight, found.reclaimable, found.parent) == ("q", 3, False, "root")
    assert (found.hierarchy, found.hierarchy_weights) == (("eng", "prod"), (2.0, 8.0))
    assert (found.capability, found.guarantee, found.deserved) == (
        {"cpu": 60000, "memory": 240 * GI},
        {"cpu": 10000, "memory": 40 * GI},
        {"cpu": 40000, "memory": 160 * GI},
    )


def test_hypernodes_as_they_are_written() -> None:
    state = read()
    domains = {name: state.hypernodes.rows[number] for name, number in state.hypernodes.numbers.items()}
    held = {name: [state.nodes.names[row] for row in rows] for name, rows in domains.items()}
    assert (held["leaf"], held["spine"]) == (["n1"], ["n1"])


# --- what happens in a cycle


def test_groups_are_admitted_by_the_order_of_queues_and_then_of_jobs() -> None:
    heard: list[str] = []
    listen = plugin_called("ear", lambda s: s.add_job_enqueued("ear", lambda job: heard.append(job.name)))
    by_priority = conf("enqueue", ["priority", "proportion"], ["ear"])
    groups = [
        group("low", "first", phase="Pending", created=0),
        group("high", "first", phase="Pending", created=1, priority="high"),
        group("other", "second", phase="Pending", created=0, priority="high"),
    ]
    queues = [queue("second", priority=1), queue("first", priority=2), priority_class("high", 9)]
    plan_of(queues, groups, conf=by_priority, plugins=[listen])
    assert heard == ["high", "low", "other"]


def test_without_gangs_two_jobs_hold_half_of_the_gpus_each_and_with_gangs_one_holds_all() -> None:
    objects: list[Objects] = [node("n1", cpu=16, gpu=4), gang("one", 4, gpu=1), gang("two", 4, gpu=1)]
    hung = plan_of(*objects, conf=conf("allocate", ["drf"], ["predicates"]))
    assert sorted(binds(hung)) == ["one-w-0", "one-w-1", "two-w-0", "two-w-1"]
    whole = plan_of(*objects, conf=conf("allocate", ["gang"], ["drf", "predicates"]))
    assert sorted(binds(whole)) == [f"one-w-{i}" for i in range(4)]
    assert nominations(whole) == {}
    assert whole.groups[full("two")].counts == {"Pending": 4}


@pytest.mark.parametrize("priority", [None, "high"], ids=["a later job", "a more important job"])
def test_promised_room_becomes_a_placement_as_soon_as_it_is_free(priority: str | None) -> None:
    leaving = pod("old", "old", node="n1", cpu="4", deleting=True)
    state = state_of(node("n1"), group("old"), leaving, gang("g", 1, cpu="4", nominated="n1", created=1))
    plain = conf("allocate", ["priority", "gang"])
    assert nominations(plan_in(state, plain)) == {"g-w-0": "n1"}
    late = [group("late", priority=priority, created=2), pod("late", "late", cpu="4", created=2)]
    for obj in flat([priority_class("high", 9), late]):
        state.apply(Changed(obj))
    assert nominations(plan_in(state, plain)) == {"g-w-0": "n1"}
    state.apply(Gone("Pod", full("old")))
    assert binds(plan_in(state, plain)) == {"g-w-0": "n1"}


def test_a_pod_that_asks_for_little_but_something_is_left_to_allocate_by_backfill() -> None:
    plan = plan_of(node("n1"), group(), pod("p", cpu="1m", memory=None), conf=conf("backfill", ["gang"]))
    assert (binds(plan), codes(plan)) == ({}, {"p": "NotReached"})


# --- proportion


def owed(*more: Objects) -> list[Objects]:
    """Eight cores and 8Gi; queue `a` deserves half of both, as `b` asks for everything too."""
    rich = [pod(f"b-{i}", "b-g", cpu=8, memory="8Gi") for i in range(2)]
    mine = pod("big", "a-g", cpu=8, memory="8Gi")
    return [node("n1", 8, "8Gi"), queue("a"), queue("b"), group("a-g", "a"), group("b-g", "b"), rich, mine, *more]


@pytest.mark.parametrize(
    ("asked", "may"),
    [
        pytest.param({"cpu": 4, "memory": "4Gi"}, True, id="both are deserved"),
        pytest.param({"cpu": 1, "memory": "5Gi"}, False, id="one of them is not"),
        pytest.param({"cpu": 5, "memory": "1Gi"}, False, id="nor if it is the other"),
        pytest.param({"cpu": 4}, True, id="what is not asked for does not count"),
    ],
)
def test_under_proportion_a_queue_may_reclaim_if_all_that_it_asks_for_is_deserved(asked: Data, may: bool) -> None:
    def ask(session: Session) -> tuple[bool, bool]:
        task, own = session.state.tasks[full("p")], session.queues["a"]
        return session.preemptive(own, [task]), session.allocatable(own, task) is None

    objects = owed(pod("p", "a-g", requests=asked))
    assert inside(*objects, do=ask, conf=conf("", ["proportion"])) == (may, may)


def test_proportion_lets_go_of_tasks_of_a_queue_beyond_its_share_whatever_it_is_guaranteed() -> None:
    def victims(session: Session) -> list[str]:
        tasks = [session.state.tasks[full(name)] for name in ("b-r0", "b-r1")]
        return [task.name for task in session.reclaimable(session.state.tasks[full("big")], tasks)]

    objects = owed()
    objects[2] = queue("b", guarantee={"memory": "7Gi"})
    # `b` has more cores than it deserves; losing the first pod leaves it 1Gi of the 7Gi that it is guaranteed.
    running = [pod("b-r0", "b-g", cpu=1, memory="6Gi", node="n1"), pod("b-r1", "b-g", cpu=7, memory="1Gi", node="n1")]
    assert inside(*objects, running, do=victims, conf=conf("", ["proportion"])) == ["b-r0", "b-r1"]
