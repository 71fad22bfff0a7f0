"""Trials: traces through the engine and the controllers under virtual time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
import yaml

from kilauea.api.decode import decode
from kilauea.api.meta import Object
from kilauea.api.times import SECOND
from kilauea.engine.actions import ACTIONS
from kilauea.engine.conf import SchedulerConf, parse_conf
from kilauea.engine.cycle import default_conf
from kilauea.engine.plugins import PLUGINS
from kilauea.runtime.inputs.traces.reading import trace_of
from kilauea.runtime.trials.running import Candidate, Conditions, TrialError, complete, run_trials
from kilauea.simulator.replay import controlling
from kilauea.simulator.replay.faults import node_faults
from kilauea.simulator.replay.report import spread
from kilauea.simulator.replay.trace import Trace, drawn, scaled

PREEMPTING = """
actions: "enqueue, allocate, preempt"
tiers:
- plugins: [{name: priority}, {name: conformance}]
- plugins: [{name: predicates}]
"""
CLASSES = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: low}
value: 1
"""


def nodes(count: int, cpu: int = 4) -> str:
    """Nodes as a file."""
    offers = f"{{cpu: {cpu}, memory: 64Gi, pods: 110}}"
    node = "apiVersion: v1\nkind: Node\nmetadata: {{name: n{}}}\nstatus: {{allocatable: {}}}\n"
    return "---\n".join(node.format(number, offers) for number in range(count))


def trace(text: str) -> Trace:
    """The trace in a text."""
    return trace_of("jobs.csv", text.encode())


def candidate(cluster: str, jobs: Trace, conf: str = "", name: str = "one") -> Candidate:
    """A cluster, with the queues of a trace."""
    objects: Sequence[Object] = decode(cluster.encode(), "cluster.yaml").objects
    decided_by: SchedulerConf = parse_conf(yaml.safe_load(conf), PLUGINS, ACTIONS) if conf else default_conf()
    return Candidate(name, complete(objects, jobs, "cluster.yaml")[0], decided_by)


def run(cluster: str, jobs: str, conf: str = "", **conditions: Any) -> dict[str, Any]:
    """The report of the only run."""
    found = trace(jobs)
    report = run_trials([candidate(cluster, found, conf)], found, Conditions(**conditions))
    only: dict[str, Any] = report["configurations"][0]["runs"][0]
    return only


def test_a_job_is_admitted_in_one_cycle_and_runs_in_the_next() -> None:
    found = run(nodes(1), "submit,duration,cpu\n0,60,4\n")
    assert found["wait"]["max"] == 1
    assert found["jobs"]["completed"] == 1
    assert found["makespan"] == pytest.approx(61, abs=0.5)


def test_a_second_job_waits_for_the_room_of_the_first() -> None:
    found = run(nodes(1), "submit,duration,cpu\n0,60,4\n10,60,4\n")
    assert found["wait"]["max"] == pytest.approx(51, abs=3)
    assert found["utilisation"]["cpu"]["whole"] > 0.95


def test_a_gang_waits_until_all_its_pods_have_room() -> None:
    found = run(nodes(2), "submit,duration,cpu,pods\n0,60,4,1\n0,10,4,2\n")
    assert found["jobs"]["completed"] == 2
    assert found["wait"]["max"] == pytest.approx(61, abs=3)


def test_an_evicted_pod_loses_what_it_has_done_and_runs_again() -> None:
    jobs = "submit,duration,cpu,priority_class,preemptable\n0,100,4,low,true\n50,100,4,high,\n"
    found = run(f"{nodes(1)}---\n{CLASSES}", jobs, PREEMPTING)
    assert found["jobs"]["completed"] == 2
    assert found["evictions"]["pods"] == 1
    assert found["lost"]["cpu"] * 3600 == pytest.approx(4 * 50, abs=12)
    assert found["makespan"] == pytest.approx(250, abs=6)


@pytest.mark.slow
def test_a_gang_restarts_as_a_whole_and_fails_after_its_retries() -> None:
    jobs = "submit,duration,cpu,pods,max_retry\n0,5000,4,2,2\n"
    found = run(nodes(2), jobs, between=500 * SECOND, repair=10 * SECOND)
    assert found["jobs"]["failed"] == 1
    assert found["jobs"]["restarts"] == 2
    assert found["pods_started"] == 4


def test_failures_of_nodes_take_their_pods_and_the_jobs_go_on() -> None:
    rows = "".join(f"{number * 60},600,1\n" for number in range(40))
    jobs = f"submit,duration,cpu\n{rows}"
    calm, rough = run(nodes(4), jobs), run(nodes(4), jobs, between=1800 * SECOND, repair=300 * SECOND)
    assert calm["faults"] == {"nodes": 0, "pods": 0}
    assert rough["faults"]["pods"] > 0
    assert rough["jobs"]["completed"] == calm["jobs"]["completed"] == 40
    assert rough["lost"]["cpu"] > 0
    assert rough["jobs"]["started"] == 40


def test_a_job_that_never_fits_ends_the_trial_with_the_reason() -> None:
    found = run(nodes(1), "submit,duration,cpu\n0,60,4\n5,60,64\n")
    assert found["jobs"]["unfinished"] == 1
    assert "Insufficient cpu" in found["waiting"][0]["reason"] or "cpu" in found["waiting"][0]["reason"]


def test_queues_share_by_their_weights() -> None:
    queue = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {{name: {}}}\nspec: {{weight: {}}}\n"
    cluster = "---\n".join([nodes(1, 8), queue.format("a", 3), queue.format("b", 1)])
    rows = "".join(f"0,600,1,{name}\n" for _ in range(16) for name in "ab")
    found = run(cluster, f"submit,duration,cpu,queue\n{rows}")
    assert found["queues"]["a"]["wait"]["mean"] < found["queues"]["b"]["wait"]["mean"]
    assert found["fairness"]["mean"] > 0.9


@pytest.mark.slow
def test_the_same_inputs_give_the_same_report_byte_for_byte() -> None:
    rows = "".join(f"{number * 7 % 500},{60 + number % 5 * 30},{1 + number % 3}\n" for number in range(30))
    jobs = trace(f"submit,duration,cpu\n{rows}")
    conditions = Conditions(seeds=2, between=600 * SECOND, repair=60 * SECOND)
    texts = [json.dumps(run_trials([candidate(nodes(3), jobs)], jobs, conditions)) for _ in range(2)]
    assert texts[0] == texts[1]


def test_looks_that_are_left_out_would_have_changed_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = "".join(f"{number * 40},{60 + number % 5 * 30},{1 + number % 3},{1 + number % 3}\n" for number in range(25))
    jobs = trace(f"submit,duration,cpu,pods\n{rows}")
    conditions = Conditions(between=900 * SECOND, repair=60 * SECOND)
    quick = run_trials([candidate(nodes(3), jobs)], jobs, conditions)
    monkeypatch.setattr(controlling, "_is_count", lambda _before, _after: False)
    assert run_trials([candidate(nodes(3), jobs)], jobs, conditions) == quick


@pytest.mark.slow
def test_a_candidate_is_not_changed_by_those_beside_it() -> None:
    jobs = trace("submit,duration,cpu\n0,60,4\n0,60,4\n")
    one, two = candidate(nodes(1), jobs, name="one"), candidate(nodes(2), jobs, name="two")
    both = run_trials([one, two], jobs, Conditions())["configurations"]
    alone = [run_trials([each], jobs, Conditions())["configurations"][0] for each in (one, two)]
    assert both == alone


def test_more_load_brings_jobs_closer_together() -> None:
    jobs = trace("submit,duration\n0,1\n100,1\n400,1\n")
    assert [job.submit // SECOND for job in scaled(jobs, 2).jobs] == [0, 50, 200]


def test_seed_0_is_the_trace_and_others_are_drawn_from_it_in_blocks() -> None:
    jobs = trace("submit,duration\n" + "".join(f"{hour * 3600},{hour + 1}\n" for hour in range(48)))
    assert drawn(jobs, 0) is jobs
    other = drawn(jobs, 1)
    assert other == drawn(jobs, 1)
    assert {job.duration for job in other.jobs} <= {job.duration for job in jobs.jobs}
    assert len({job.name for job in other.jobs}) == len(other.jobs)
    assert [job.submit for job in other.jobs] == sorted(job.submit for job in other.jobs)


def test_failures_are_the_same_for_a_node_whatever_other_nodes_there_are() -> None:
    few = node_faults(["a"], 10**12, 10**11, 10**9, 3)
    many = node_faults(["a", "b"], 10**12, 10**11, 10**9, 3)
    assert few == tuple(fault for fault in many if fault.node == "a")


def test_a_trace_without_nodes_is_refused() -> None:
    jobs = trace("submit,duration\n0,1\n")
    with pytest.raises(TrialError, match="no nodes: specify a cluster with -f"):
        complete([], jobs, "cluster")


def test_a_queue_that_does_not_exist_is_added_and_told() -> None:
    jobs = trace("submit,duration,queue\n0,1,research-2\n")
    queue = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: research}\n"
    _, told = complete(decode(f"{nodes(1)}---\n{queue}".encode(), "x").objects, jobs, "x")
    assert told == ["queue research-2 of 1 job does not exist: added with weight 1; did you mean 'research'?"]


def test_percentiles_are_by_nearest_rank() -> None:
    found = spread(range(1, 101))
    assert (found["p50"], found["p90"], found["p99"], found["max"], found["mean"]) == (50, 90, 99, 100, 50.5)
    assert spread([])["p50"] is None


def test_jobs_with_pods_that_are_larger_than_every_node_are_told_before_they_wait() -> None:
    jobs = trace("submit,duration,cpu,gpu,name\n0,60,1,0,small\n1,60,8,0,large\n2,60,16,0,larger\n3,60,1,1,card\n")
    objects = decode(nodes(2).encode(), "cluster.yaml").objects
    assert complete(objects, jobs, "cluster.yaml")[1] == [
        "jobs.csv: 2 jobs request more cpu in a pod than any node offers, such as 16 by job larger; "
        "the largest node has 4: they wait until the end",
        "jobs.csv: job card requests more nvidia.com/gpu in a pod than any node offers (1); "
        "the largest node has 0: it waits until the end",
    ]
