"""Kinds of waiting: `kilauea explain` names the cause with its numbers, and its fix, applied, starts the job.

A case is a cluster with one job (or pod group) that waits, as a user would write it. The fix is done to the documents
as a user would do it, and `kilauea plan` has to start the pods then.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from kilauea.cli.main import main
from support.kinds_of_waiting import CASES, Case
from support.waiting_fixes import fix
from support.waiting_objects import (
    CLAIMING,
    Doc,
    alone,
    batch_job,
    claim,
    cron_job,
    elsewhere,
    job,
    node,
    nodes,
    one_by_one,
    paused,
    queue,
    running,
    suspended,
    volume,
    waiting,
    web,
)


def test_there_are_forty_kinds_and_no_two_of_one_name() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 40


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_cause_is_named_with_its_numbers_and_its_fix_starts_the_job(case: Case, tmp_path: Path) -> None:
    docs = copy.deepcopy(case.docs)
    text = run(f"explain {case.subject}", docs, case.conf, tmp_path)
    told = json.loads(run(f"explain {case.subject} -o json", docs, case.conf, tmp_path))
    assert told["blockers"][0]["code"] == case.code
    for part in case.said:
        assert part in text
    assert told["blockers"][0]["message"].removesuffix(".") in run("plan", docs, case.conf, tmp_path)
    change = told["change"]
    assert (change or {}).get("what", "") == case.what
    assert started(docs, case.conf, tmp_path) < case.starts
    (case.mend or (lambda them: fix(them, change)))(docs)
    assert started(docs, case.conf, tmp_path) >= case.starts


def test_a_pod_of_the_default_scheduler_is_named_as_a_pod_and_not_by_its_inner_group(tmp_path: Path) -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
    assert run("explain pod/p", [*nodes(), pod], "", tmp_path).startswith("Pod default/p starts in this cycle.")
    table = run("plan", [*nodes(), pod], "", tmp_path)
    assert ["-", "1", "1", "1", "default/p"] in [line.split() for line in table.splitlines()]


def test_a_group_with_its_minimum_says_so_if_no_change_lets_another_pod_start(tmp_path: Path) -> None:
    made = job(1, 1, pod=CLAIMING)
    tasks = made["spec"]["tasks"]
    tasks.append({"name": "free", "replicas": 1, "template": job(1, 1)["spec"]["tasks"][0]["template"]})
    text = run(
        "explain job j", [*nodes(zone="a"), claim(volumeName="disk"), volume("disk", zone="b"), made], "", tmp_path
    )
    assert "has its minimum; pods beyond it wait" in text
    assert text.rstrip().endswith(
        "No single change of a queue, a quota, its pods, its minimum, another job or nodes lets another pod start."
    )


def test_no_change_is_claimed_to_be_missing_where_none_is_searched(tmp_path: Path) -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "99"}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
    text = run("explain pod/p", [*nodes(), pod], "", tmp_path)
    assert "waits" in text
    assert "o single change" not in text


@pytest.mark.parametrize("words", ["job j", "job/j", "vj/j", "podgroup j-default-j", "pg/j-default-j", "po/j-w-0"])
def test_a_job_is_found_by_each_of_its_names(words: str, tmp_path: Path) -> None:
    assert "Job default/j (pod group j-default-j) waits" in run(
        f"explain {words}", [*nodes(), job(1, 1, cpu=9)], "", tmp_path
    )


@pytest.mark.parametrize("words", ["deployment web", "deploy/web", "deployments.apps/web", "rs/web"])
def test_a_deployment_is_explained_by_its_pods(words: str, tmp_path: Path) -> None:
    text = run(f"explain {words}", [*nodes(), web("Deployment")], "", tmp_path)
    assert "the largest node has 8 cpu" in text


def test_a_queue_is_explained_by_its_figures_and_what_waits_in_it(tmp_path: Path) -> None:
    docs = [*nodes(), queue("q", capability={"cpu": "3"}), job(2, 2, cpu=2, queue="q")]
    text = run("explain q/q", docs, "", tmp_path)
    assert "Queue q is Open; 1 group of it waits." in text
    assert "queue resource quota insufficient: insufficient cpu (requested 4, available 3)" in text
    assert json.loads(run("explain queue q -o json", docs, "", tmp_path))["waiting"][0]["podGroup"].endswith("j")


def test_a_node_is_explained_by_what_keeps_pods_away(tmp_path: Path) -> None:
    ended = running("u1", 2, "n0")
    ended[-1]["status"]["phase"] = "Succeeded"
    docs = [node("n0", cordoned=True, taint="dedicated=ml"), *running("u0", 3, "n0"), *ended]
    text = run("explain node n0", docs, "", tmp_path)
    assert text.startswith("Node n0 has 1 pod.")
    assert "It takes no new pods: it is cordoned (`kubectl uncordon n0`)." in text
    assert "It takes only pods that tolerate the taint dedicated=ml:NoSchedule." in text
    assert ["cpu", "8", "3", "5"] in [line.split() for line in text.splitlines()]


COMPLETE = {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}


def ended(how: str) -> list[Doc]:
    """The pod of job j, without a pod group: the controller deletes that when the job has ended."""
    (_, pod) = running("j-default-j", 1, "n0")
    pod["metadata"]["name"] = "j-w-0"
    pod["status"]["phase"] = how
    return [pod]


def phase(of: str) -> Doc:
    return {**job(), "status": {"state": {"phase": of}}}


def processed() -> list[Doc]:
    """A job of another scheduler, which has no room for its pod."""
    pod = alone("default")
    pod["metadata"] = {
        "name": "j-w-0",
        "namespace": "default",
        "annotations": {"scheduling.k8s.io/group-name": "j-default-j"},
    }
    pod["spec"]["schedulerName"] = "bogus"
    pod["status"] = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
    return [job(schedulerName="bogus"), pod]


@pytest.mark.parametrize(
    ("words", "docs", "code", "said"),
    [
        ("job j", [suspended()], 0, "job default/j is suspended, so it has no pods: `vcctl job resume` starts it"),
        ("job j", [phase("Completed")], 0, "job default/j has completed: none of its pods are waiting"),
        ("job j", [phase("Failed"), *ended("Failed")], 0, "job default/j has failed: none of its pods are waiting"),
        ("po/j-w-0", [phase("Failed"), *ended("Failed")], 0, "has ended: none of its pods runs or waits."),
        ("po/j-w-0", [phase("Completed"), *ended("Succeeded")], 0, "has ended: none of its pods runs or waits."),
        (
            "job web",
            [batch_job(suspend=True)],
            0,
            "job default/web is suspended (spec.suspend is true), so",
        ),
        ("job web", [{**batch_job(), **COMPLETE}], 0, "job default/web has completed: none of its pods are waiting"),
        ("cj/web", [cron_job()], 0, 'cronjob default/web has no waiting job; its schedule is "0 3 * * *"'),
        ("cj/web", [cron_job(suspend=True)], 0, "cronjob default/web is suspended"),
        ("deploy/web", [elsewhere(web("Deployment"))], 0, 'waits for another scheduler: schedulerName is "bogus"'),
        (
            "pod p",
            [alone("nope")],
            0,
            "pod default/p waits: queue nope of annotation scheduling.volcano.sh/queue-name does not exist, "
            "so the pod gets no pod group; create it: `vcctl queue create -n nope`",
        ),
        (
            "sts/web",
            [queue("shut", "Closed"), alone("shut", "StatefulSet")],
            0,
            "statefulset default/web waits: queue shut is Closed, so the pod gets no pod group; "
            "open it: `vcctl queue operate -n shut -a open`",
        ),
        ("job j", [job(queue="nope")], 1, 'queue.scheduling.volcano.sh "nope" not found'),
        ("job jo", [job()], 1, "job default/jo does not exist; did you mean 'default/j'?"),
        ("job j -n team", [job()], 1, "job team/j does not exist; did you mean 'default/j'?"),
        ("job other", [job()], 1, "job default/other does not exist, or has no pods"),
        ("pod j-w-0", [job(schedulerName="bogus")], 0, 'schedulerName is "bogus", and this scheduler serves'),
        ("pod j-w-0", processed(), 0, 'schedulerName is "bogus", which has processed the pods'),
        ("job j", processed(), 0, 'schedulerName is "bogus", which has processed the pods'),
        ("queue defualt", [job()], 1, "queue defualt does not exist; did you mean 'default'?"),
        ("node n9", [job()], 1, "node n9 does not exist"),
        ("jbo j", [job()], 2, "kind 'jbo' cannot be explained; did you mean 'job'?"),
        ("j", [job()], 2, "give KIND NAME or KIND/NAME"),
    ],
)
def test_what_cannot_be_explained_says_why(words: str, docs: list[Doc], code: int, said: str, tmp_path: Path) -> None:
    (tmp_path / "objects.yaml").write_text(yaml.safe_dump_all([*nodes(), *docs]))
    result = CliRunner().invoke(main, ["explain", *words.split(), "-f", str(tmp_path / "objects.yaml")])
    assert result.exit_code == code
    assert said in (result.stderr if code else result.stdout)


def run(arguments: str, docs: list[Doc], conf: str, folder: Path) -> str:
    """What a command prints about a cluster."""
    (folder / "objects.yaml").write_text(yaml.safe_dump_all(docs))
    more = ["-f", str(folder / "objects.yaml")]
    if conf:
        (folder / "scheduler.conf").write_text(conf)
        more += ["--scheduler-conf", str(folder / "scheduler.conf")]
    result = CliRunner().invoke(main, [*arguments.split(), *more])
    assert result.exit_code == 0, result.output
    return result.stdout


def started(docs: list[Doc], conf: str, folder: Path) -> int:
    """How many pods of the job the next cycle starts."""
    plan = json.loads(run("plan -o json", docs, conf, folder))
    return sum(1 for pod in plan["binds"] if pod.startswith("default/j-"))


BROKEN = "kind: [Job\n"
FOREIGN = "apiVersion: foo.io/v1\nkind: Foo\nmetadata: {name: x}\n"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (BROKEN, "not valid YAML"),
        (FOREIGN, "kind foo.io/Foo is unknown: correct kind and apiVersion"),
        (yaml.safe_dump(job(queue="nope")), 'queue.scheduling.volcano.sh "nope" not found'),
        (yaml.safe_dump(job(cpu="many")), "quantities must match the regular expression"),
    ],
    ids=["text that is not YAML", "an unknown kind", "a refused job", "an invalid job"],
)
def test_a_plan_of_files_that_cannot_be_used_as_a_whole_is_printed_and_fails(
    written: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all(nodes()))
    (tmp_path / "more.yaml").write_text(written)
    result = CliRunner().invoke(main, ["plan", "-f", str(tmp_path)])
    assert result.exit_code == 2
    assert "4 nodes, 0 pods" in result.stdout
    assert said in result.stderr
    assert "Error: 1 part of the files cannot be used" in result.stderr


def test_kinds_that_scheduling_does_not_read_are_no_fault(tmp_path: Path) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {}}
    assert "1 pod starts" in run("plan", [*nodes(), service, job(1, 1)], "", tmp_path)


def test_files_without_nodes_say_how_to_name_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job()))
    result = CliRunner().invoke(main, ["plan", "-f", str(tmp_path / "job.yaml")])
    assert "the files contain no nodes: add them with -f, or name a cluster with --kubeconfig" in result.stderr


def test_an_explanation_warns_of_what_concerns_the_job_alone(tmp_path: Path) -> None:
    other = {**job(queue="nope"), "metadata": {"name": "other", "namespace": "default"}}
    docs = [*nodes(), queue("stray", parent="nowhere"), queue("q", parent="gone"), other, job(1, 1, cpu=9, queue="q")]
    (tmp_path / "objects.yaml").write_text(yaml.safe_dump_all(docs))
    conf = tmp_path / "scheduler.conf"
    conf.write_text("actions: allocate\ntiers:\n- plugins:\n  - name: capacity\n    enableHierarchy: true\n")
    files = ["-f", str(tmp_path / "objects.yaml"), "--scheduler-conf", str(conf)]
    everything = CliRunner().invoke(main, ["plan", *files]).stderr
    own = CliRunner().invoke(main, ["explain", "job", "j", *files]).stderr
    assert "stray" in everything
    assert "default/other" in everything
    assert "stray" not in own
    assert "default/other" not in own


def test_a_group_goes_by_the_name_of_its_job(tmp_path: Path) -> None:
    docs = [*nodes(1), job(9, 9), {**job(8, 8), "metadata": {"name": "big", "namespace": "default"}}]
    plan = run("plan", docs, "", tmp_path)
    assert "default/big" in plan
    assert "big-default-big" not in plan
    explained = run("explain job j", docs, "", tmp_path)
    assert "Job default/j (pod group j-default-j) waits." in explained
    assert "big-default-big" not in explained


def test_a_minimum_from_an_annotation_is_lowered_there_too(tmp_path: Path) -> None:
    workload = one_by_one(9, 9)
    workload["spec"]["podManagementPolicy"] = "Parallel"
    (tmp_path / "objects.yaml").write_text(yaml.safe_dump_all([*nodes(), workload]))
    result = CliRunner().invoke(main, ["explain", "sts/j", "-f", str(tmp_path / "objects.yaml")])
    assert ", to 4" in result.stdout
    assert "also in annotation scheduling.volcano.sh/group-min-member of its workload" in " ".join(
        result.stdout.split()
    )


def test_a_queue_that_is_paused_twice_is_resumed_twice(tmp_path: Path) -> None:
    queues = [paused(queue("up")), paused(queue("q", parent="up"))]
    (tmp_path / "objects.yaml").write_text(yaml.safe_dump_all([*nodes(), *queues, *waiting(2, queue="q")]))
    result = CliRunner().invoke(main, ["explain", "podgroup", "j", "-f", str(tmp_path / "objects.yaml")])
    commands = (f"resume queue {name} (`vcctl queue operate -n {name} -a resume`)" for name in ("up", "q"))
    assert f"Smallest change that admits it: {', and '.join(commands)}." in result.stdout
