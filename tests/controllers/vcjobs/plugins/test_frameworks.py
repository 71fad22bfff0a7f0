"""Plugins of frameworks tell pods which part of the whole they are."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from kilauea.api.kinds import SERVICES
from kilauea.api.ports import Create
from support.vcjob_parts import job, kept, pod_of, task, variables

MASTER, WORKER = task("master", 1), task("worker", 3)


def ports(container: dict[str, Any]) -> list[tuple[str, int]]:
    return [(each.get("name", ""), each["containerPort"]) for each in container.get("ports") or ()]


def told(of: dict[str, Any], name: str, index: int = 0) -> dict[str, str]:
    """The variables of the first container of a pod."""
    return variables(pod_of(of, name, index)["spec"]["containers"][0])


def command_of(container: dict[str, Any]) -> list[str]:
    command: list[str] = container["command"]
    return command


# --- tensorflow


def tf_config(of: dict[str, Any], name: str, index: int = 0) -> Any:
    return json.loads(told(of, name, index)["TF_CONFIG"])


def test_tensorflow_tells_the_cluster_and_the_place_in_it() -> None:
    of = job(task("ps", 1), task("worker"), task("other", 1), plugins={"tensorflow": ["--port=2223"]})
    cluster = {"ps": ["m-ps-0.m:2223"], "worker": ["m-worker-0.m:2223", "m-worker-1.m:2223"]}
    assert tf_config(of, "worker", 1) == {"cluster": cluster, "task": {"type": "worker", "index": 1}}
    assert tf_config(of, "other") == {"cluster": cluster, "task": {"type": "other", "index": 0}}


def test_tasks_of_tensorflow_may_have_other_names() -> None:
    flags = ["--ps=servers", "--worker=w", "--chief=boss", "--evaluator=judge"]
    of = job(task("servers", 1), task("w", 1), task("boss", 1), task("judge", 1), plugins={"tensorflow": flags})
    assert list(tf_config(of, "w")["cluster"]) == ["ps", "worker", "chief", "evaluator"]
    assert tf_config(of, "boss")["task"] == {"type": "chief", "index": 0}
    assert tf_config(of, "boss")["cluster"]["evaluator"] == ["m-judge-0.m:2222"]


def test_a_pod_of_tensorflow_on_its_own_needs_no_cluster() -> None:
    assert told(job(task("worker", 1), plugins={"tensorflow": []}), "worker") == {}


# --- pytorch


@pytest.mark.parametrize(("name", "index", "rank"), [("master", 0, "0"), ("worker", 0, "1"), ("worker", 2, "3")])
def test_pytorch_tells_the_master_and_the_rank(name: str, index: int, rank: str) -> None:
    of = job(MASTER, WORKER, task("other", 1), plugins={"pytorch": []})
    common = {"MASTER_ADDR": "m-master-0.m", "MASTER_PORT": "23456", "WORLD_SIZE": "4"}
    assert told(of, name, index) == common | {"RANK": rank}
    assert told(of, "other") == common


def test_pytorch_opens_its_port_unless_it_is_open() -> None:
    open_already = task("worker", 1, {"containers": [{"name": "c", "ports": [{"containerPort": 9999}]}]})
    of = job(MASTER, open_already, plugins={"pytorch": ["--port=9999"]})
    assert ports(pod_of(of, "master")["spec"]["containers"][0]) == [("pytorchjob-port", 9999)]
    assert ports(pod_of(of, "worker")["spec"]["containers"][0]) == [("", 9999)]


def test_pytorch_without_a_master_adds_nothing() -> None:
    of = job(WORKER, plugins={"pytorch": []})
    assert pod_of(of)["spec"] == pod_of(job(WORKER))["spec"]


def test_workers_of_pytorch_wait_for_the_master_if_they_shall() -> None:
    flags = ["--wait-master-enabled=true", "--wait-master-timeout=60", "--wait-master-image=mine", "--port=1"]
    of = job(MASTER, WORKER, plugins={"pytorch": flags})
    assert "initContainers" not in pod_of(of, "master")["spec"]
    (waiter,) = pod_of(of, "worker")["spec"]["initContainers"]
    assert (waiter["name"], waiter["image"]) == ("wait-for-master", "mine")
    assert variables(waiter) == {"MASTER_ADDR": "m-master-0.m", "MASTER_PORT": "1"}
    assert "left=60\n" in command_of(waiter)[2]


def test_a_container_that_waits_for_the_master_is_not_added_twice() -> None:
    own = {"containers": [{"name": "c"}], "initContainers": [{"name": "wait-for-master", "image": "own"}]}
    of = job(MASTER, task("worker", 1, own), plugins={"pytorch": ["--wait-master-enabled"]})
    assert pod_of(of, "worker")["spec"]["initContainers"] == own["initContainers"]


@pytest.mark.parametrize(("answers", "code"), [(True, 0), (False, 1)])
def test_the_wait_for_the_master_ends_when_it_answers_or_when_it_is_over(answers: bool, code: int) -> None:
    flags = ["--wait-master-enabled", "--wait-master-timeout=4"]
    (waiter,) = pod_of(job(MASTER, WORKER, plugins={"pytorch": flags}), "worker")["spec"]["initContainers"]
    shell, option, script = command_of(waiter)
    # A shell as in the image, in which a master answers at the second try or never, and in which no time passes.
    world = f'tries=0; nc() {{ tries=$((tries + 1)); [ "{answers}" = True ] && [ $tries = 2 ]; }}; sleep() {{ :; }}\n'
    place = {"MASTER_ADDR": "m-master-0.m", "MASTER_PORT": "1"}
    ended = subprocess.run(
        [shell, option, world + script], env=place, check=False, capture_output=True, text=True, timeout=30
    )
    assert ended.returncode == code, ended.stderr
    assert ended.stderr == ""
    assert ended.stdout == ("" if answers else "no master at m-master-0.m:1 after 4 s\n")


# --- mpi


def test_the_master_of_mpi_knows_the_workers_and_all_open_the_port() -> None:
    spec = {"containers": [{"name": "c"}], "initContainers": [{"name": "i"}]}
    of = job(task("master", 1, spec), task("worker", 2, spec), task("other", 1, spec), plugins={"mpi": []})
    master = pod_of(of, "master")["spec"]
    for container in (*master["containers"], *master["initContainers"]):
        assert variables(container) == {"MPI_HOST": "m-worker-0.m,m-worker-1.m"}
        assert ports(container) == [("mpijob-port", 22)]
    for name in ("worker", "other"):
        made = pod_of(of, name)["spec"]
        assert told(of, name) == {}
        assert [ports(each) for each in (*made["containers"], *made["initContainers"])] == [[("mpijob-port", 22)]] * 2


def test_a_master_of_mpi_without_workers_is_left_alone() -> None:
    of = job(MASTER, plugins={"mpi": ["--worker=none"]})
    assert pod_of(of)["spec"] == pod_of(job(MASTER))["spec"]


# --- ray


def ray_job(*flags: str) -> dict[str, Any]:
    head = {"containers": [{"name": "head", "ports": [{"containerPort": 8265}]}, {"name": "beside"}]}
    worker = {"containers": [{"name": "worker", "command": ["x"]}]}
    return job(task("head", 1, head), task("worker", 2, worker), plugins={"ray": list(flags)})


def test_ray_starts_the_head() -> None:
    head, beside = pod_of(ray_job(), "head")["spec"]["containers"]
    assert head["command"] == [
        "sh",
        "-c",
        "ray start --head --block --dashboard-host=0.0.0.0"
        " --port=6379 --dashboard-port=8265 --ray-client-server-port=10001",
    ]
    assert ports(head) == [("", 8265), ("gcs", 6379), ("client-server", 10001)]
    assert beside == {"name": "beside"}


def test_ray_starts_the_workers_with_the_address_of_the_head() -> None:
    (worker,) = pod_of(ray_job("--port=1", "--dashboardPort=2", "--clientPort=3"), "worker", 1)["spec"]["containers"]
    assert worker["command"] == ["sh", "-c", "ray start --block --address=m-head-0.m:1"]
    assert "ports" not in worker


def test_tasks_and_containers_of_ray_may_have_other_names() -> None:
    main = {"containers": [{"name": "main"}]}
    flags = ["--head=h", "--worker=w", "--headContainer=main", "--workerContainer=main"]
    of = job(task("h", 1, main), task("w", 1, main), plugins={"ray": flags})
    assert "--head" in pod_of(of, "h")["spec"]["containers"][0]["command"][2]
    assert "--address=m-h-0.m:6379" in pod_of(of, "w")["spec"]["containers"][0]["command"][2]


def test_the_head_of_ray_has_a_service() -> None:
    (create,) = kept(ray_job("--port=1"))
    assert isinstance(create, Create)
    assert (create.resource, create.body["metadata"]["name"]) == (SERVICES, "m-head-svc")
    spec = create.body["spec"]
    assert spec["selector"]["volcano.sh/task-spec"] == "head"
    assert [(each["name"], each["port"], each["targetPort"]) for each in spec["ports"]] == [
        ("gcs", 1, "gcs"),
        ("dashboard", 8265, "dashboard"),
        ("client-server", 10001, "client-server"),
    ]


# --- hcclrank


@pytest.mark.parametrize(
    ("plugins", "name", "index", "rank"),
    [
        ({}, "master", 0, "0"),
        ({}, "worker", 1, "2"),
        ({}, "other", 0, None),
        ({"pytorch": []}, "worker", 1, "2"),
        ({"pytorch": ["--worker=other"]}, "other", 0, "1"),
    ],
)
def test_the_rank_of_a_device_is_that_of_its_pod(
    plugins: dict[str, list[str]], name: str, index: int, rank: str | None
) -> None:
    of = job(MASTER, WORKER, task("other", 1), plugins={"hcclrank": [], **plugins})
    assert pod_of(of, name, index)["metadata"]["annotations"].get("hccl/rankIndex") == rank


def test_a_rank_that_the_template_gives_counts_first() -> None:
    ranked = task("worker", 1, {"containers": [{"name": "c"}, {"name": "d", "env": [{"name": "RANK", "value": "7"}]}]})
    assert pod_of(job(ranked, plugins={"hcclrank": []}))["metadata"]["annotations"]["hccl/rankIndex"] == "7"
    ranked["template"]["metadata"] = {"annotations": {"hccl/rankIndex": "8"}}
    assert pod_of(job(ranked, plugins={"hcclrank": []}))["metadata"]["annotations"]["hccl/rankIndex"] == "8"
