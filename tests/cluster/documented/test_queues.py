"""Queues at a whole cluster, as seeds 000 and 004 tell: their samples, what is refused, and how queues end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.api_process import Client, Server
from cluster.up_process import SCHEDULING, ask, gang, kubectl, phases, queue, running_up, until
from engine.documented.test_capacity_decisions import SAMPLE_CONF, SAMPLE_TREE
from engine.documented.test_capacity_figures import SAMPLE as SAMPLE_QUEUE
from support.vcctl_runs import Console

Obj = dict[str, Any]
QUEUES = f"/apis/{SCHEDULING}/queues"
DENIED = 'admission webhook "validatequeue.volcano.sh" denied the request: '
PATIENCE = ("--wait", "--timeout", "60s")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The hundred cores of seed 000, its configuration with the tree, and both of its samples applied."""
    folder = tmp_path_factory.mktemp("tree")
    (folder / "scheduler.conf").write_text(SAMPLE_CONF)
    size = ("--nodes", "10", "--node-cpu", "10", "--node-memory", "40Gi")
    with running_up(folder / "data", *size, "--scheduler-conf", str(folder / "scheduler.conf")) as running:
        kubectl(running, "apply", "-f", "-", given=SAMPLE_QUEUE)
        ask(running, "apply", "-f", "-", given=SAMPLE_TREE)
        yield running


@pytest.fixture
def client(server: Server) -> Client:
    """The administrator."""
    return server.client()


@pytest.fixture
def console(server: Server) -> Console:
    """Where `vcctl` is called."""
    return Console(server.kubeconfig)


def get(client: Client, name: str) -> Obj:
    """A queue."""
    found: Obj = client.get(f"{QUEUES}/{name}")
    return found


def state(client: Client, name: str) -> str:
    """Open, Closing, Closed or Unknown."""
    return str(get(client, name).get("status", {}).get("state"))


def job(name: str, queue: str, pods: int = 1, command: str = "sleep 3600") -> Obj:
    """A job of pods of one core."""
    container: Obj = {"name": "main", "image": "demo", "command": ["sh", "-c", command]}
    container["resources"] = {"requests": {"cpu": "1", "memory": "1Gi"}}
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}
    spec = {"queue": queue, "tasks": [{"name": "a", "replicas": pods, "template": {"spec": pod}}]}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def refused(server: Server, *objects: Obj) -> str:
    """What kubectl says of objects that must not be created."""
    done = ask(server, "create", "-f", "-", given=yaml.safe_dump_all(objects))
    assert done.returncode != 0, done.stdout
    return done.stderr


def create(server: Server, *objects: Obj) -> None:
    """Create objects."""
    kubectl(server, "create", "-f", "-", given=yaml.safe_dump_all(objects))


def cpu(amount: str, *fields: str, **more: Any) -> Obj:
    """Amounts of a queue's spec."""
    return {
        field: {"resource": {"cpu": amount}} if field == "guarantee" else {"cpu": amount} for field in fields
    } | more


def test_the_flat_sample_is_accepted_as_it_is_written(client: Client) -> None:
    spec = get(client, "training-queue")["spec"]
    assert (spec["weight"], spec["deserved"], spec["capability"]) == (
        1,
        {"cpu": "40", "memory": "160Gi"},
        {"cpu": "60", "memory": "240Gi"},
    )
    assert spec["guarantee"] == {"resource": {"cpu": "10", "memory": "40Gi"}}
    until(lambda: state(client, "training-queue") == "Open", "the queue to be open")


def test_of_the_sample_of_a_tree_only_the_amounts_of_root_are_refused(server: Server, client: Client) -> None:
    done = ask(server, "apply", "-f", "-", given=SAMPLE_TREE)
    assert "queue.scheduling.volcano.sh/team-a unchanged" in done.stdout
    assert "queue.scheduling.volcano.sh/training unchanged" in done.stdout
    assert "root queue's resource attributes (capability, deserved, guarantee) cannot be modified" in done.stderr
    assert (get(client, "team-a")["spec"]["parent"], get(client, "training")["spec"]["parent"]) == ("root", "team-a")
    assert get(client, "training")["spec"]["deserved"] == {"cpu": "40", "memory": "160Gi"}


def test_a_job_runs_in_a_leaf_and_is_refused_in_an_inner_queue(server: Server, client: Client) -> None:
    words = refused(server, job("inner", "team-a"))
    assert "can only submit job to leaf queue, queue `team-a` has 1 child queues" in words
    create(server, job("leaf", "training", 2))
    until(lambda: phases(client, "leaf-") == {"Running": 2}, "the job to run")

    def held() -> list[str]:
        return [get(client, q)["status"].get("allocated", {}).get("cpu", "") for q in ("training", "team-a", "root")]

    until(lambda: held() == ["2", "2", "2"], "all ancestors to show what it uses")
    until(lambda: get(client, "training")["status"].get("running") == 1, "the group to be counted")
    kubectl(server, "delete", "vcjob/leaf")
    until(lambda: held() == ["", "", ""], "nothing to be used any more")


@pytest.mark.parametrize(
    ("new", "words"),
    [
        (
            queue("more", parent="team-a", **cpu("21", "deserved")),
            "sum of children's deserved (cpu 61000.00, memory 171798691840.00) exceeds parent's deserved limit "
            "(cpu 60000.00, memory 257698037760.00)",
        ),
        (
            queue("more", parent="team-a", **cpu("11", "deserved", "guarantee")),
            "sum of children's guarantee (cpu 21000",
        ),
        (queue("more", parent="team-a", **cpu("71", "capability")), "capability[cpu]=71 exceeds its ancestor's capab"),
        (
            queue("more", parent="missing"),
            "failed to get parent queue missing of queue more: queue.scheduling.volcano.sh",
        ),
    ],
)
def test_a_queue_that_does_not_fit_into_its_parent_is_refused(server: Server, new: Obj, words: str) -> None:
    said = refused(server, new)
    assert DENIED in said
    assert words in said


def test_a_queue_that_has_work_does_not_become_a_parent(server: Server, client: Client) -> None:
    create(server, queue("busy", parent="root"), job("work", "busy"))
    until(lambda: phases(client, "work-") == {"Running": 1}, "the job to run")
    below = queue("below", parent="busy")
    assert "queue busy cannot be the parent queue of queue below because it has " in refused(server, below)
    kubectl(server, "delete", "vcjob/work")
    until(lambda: ask(server, "create", "-f", "-", given=yaml.safe_dump(below)).returncode == 0, "it to be let in")


def test_a_queue_is_moved_only_where_it_fits(server: Server, client: Client) -> None:
    create(server, queue("a"), queue("b", parent="a"), queue("c", parent="b"))
    move = ("patch", "queue", "a", "--type=merge", "-p")
    words = ask(server, *move, '{"spec": {"parent": "c"}}').stderr
    assert "queue a cannot have queue c as parent because that creates a cycle: a > b > c > a" in words
    kubectl(server, "patch", "queue", "c", "--type=merge", "-p", '{"spec": {"parent": "a"}}')
    assert get(client, "c")["spec"]["parent"] == "a"


def test_a_parent_goes_after_its_children(server: Server, client: Client, console: Console) -> None:
    create(server, queue("division"), queue("group", parent="division"), queue("member", parent="group"))
    words = ask(server, "delete", "queue", "division").stderr
    assert "queue division can not be deleted because it has 1 child queues: group" in words
    out = console.good("vcctl", "queue", "delete", "-n", "division", "--cascade")
    assert out == "queue member deleted\nqueue group deleted\nqueue division deleted\n"


def test_closing_a_parent_closes_its_children_first_and_lets_work_end(
    server: Server, client: Client, console: Console
) -> None:
    create(server, queue("firm"), queue("branch", parent="firm"), job("last", "branch"))
    until(lambda: phases(client, "last-") == {"Running": 1}, "the job to run")
    console.good("vcctl", "queue", "operate", "-n", "firm", "-a", "close")
    until(lambda: state(client, "branch") == "Closing", "the child to close")
    until(lambda: state(client, "firm") != "Open", "the parent to follow")
    words = refused(server, job("late", "branch"))
    assert "can only submit job to queue with state `Open`, queue `branch` status is `Closing`" in words
    assert phases(client, "last-") == {"Running": 1}
    kubectl(server, "delete", "vcjob/last")
    until(lambda: (state(client, "branch"), state(client, "firm")) == ("Closed", "Closed"), "both to be closed")
    assert "queue `branch` status is `Closed`" in refused(server, job("late", "branch"))
    console.good("vcctl", "queue", "operate", "-n", "firm", "-a", "open", "--cascade", *PATIENCE)
    until(lambda: state(client, "branch") == "Open", "the child to open again")
    create(server, job("again", "branch", command="sleep 1"))
    until(lambda: phases(client, "again-") == {"Succeeded": 1}, "an open queue to take a job")


def test_the_children_of_a_queue_and_the_whole_tree_are_shown(console: Console) -> None:
    children = console.good("vcctl", "queue", "children", "root", "--no-headers").split("\n")
    assert {"team-a", "training-queue", "default"} <= {line.split()[0] for line in children if line}
    lines = console.good("vcctl", "queue", "tree", "team-a", "--ascii").splitlines()
    assert [line.lstrip("|`-+ ").split()[0] for line in lines] == ["NAME", "team-a", "training"]


def test_what_a_job_takes_back_comes_from_its_sibling_first_and_then_from_its_cousin(tmp_path: Path) -> None:
    """The example of seed 004: queue a has the jobs A and B below it, and job C is elsewhere below the root."""
    (tmp_path / "scheduler.conf").write_text(SAMPLE_CONF)
    size = ("--nodes", "3", "--node-cpu", "4", "--scheduler-conf", str(tmp_path / "scheduler.conf"))
    with running_up(tmp_path / "data", *size) as server:
        client = server.client()
        some, more = ({"cpu": cores, "memory": memory} for cores, memory in (("4", "32Gi"), ("8", "64Gi")))
        below = [queue(name, parent="a", deserved=some) for name in ("a1", "a2")]
        create(server, queue("a", deserved=more), *below, queue("c", deserved=some))
        create(server, *gang("job-b", 6, queue="a2", least=1), *gang("job-c", 6, queue="c", least=1))
        until(lambda: phases(client, "job-") == {"Running": 12}, "both to borrow all that is free")

        def running() -> list[int]:
            return [phases(client, f"job-{name}-")["Running"] for name in "abc"]

        create(server, *gang("job-a-one", 1, queue="a1", cpu="2"))
        until(lambda: phases(client, "job-a-one-") == {"Running": 1}, "two cores for the first")
        assert running() == [1, 4, 6], "from B, of the same parent"
        create(server, *gang("job-a-two", 1, queue="a1", cpu="2"))
        until(lambda: phases(client, "job-a-two-") == {"Running": 1}, "two cores for the second")
        assert running() == [2, 4, 4], "from C, as B has no more than it deserves"
