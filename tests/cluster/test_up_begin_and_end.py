"""`kilauea up` is ready when all is there, ends in order, and with a seed begins with the same names and uids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cluster.api_process import Client
from cluster.up_process import PODS, pod, running_up, start_up

MAPS = "/api/v1/namespaces/default/configmaps"


def test_a_cluster_that_is_ready_has_all_nodes_that_were_asked_for(tmp_path: Path) -> None:
    with running_up(tmp_path / "data", "--nodes", "120") as server:
        nodes = server.client().get("/api/v1/nodes")["items"]
    assert {each["metadata"]["name"] for each in nodes} == {f"node-{number}" for number in range(120)}
    assert {each["status"]["conditions"][-1]["status"] for each in nodes} == {"True"}


def test_an_end_in_the_midst_of_work_says_nothing_of_what_ended_before(tmp_path: Path) -> None:
    server = start_up(tmp_path / "data", "--nodes", "20")
    client = server.client()
    for number in range(60):
        assert client.send("POST", PODS, pod(f"p-{number}", command="sleep 1")).code == 201
    server.stop()
    assert "store is closed" not in server.log.read_text()
    assert "again in" not in server.log.read_text()


def made(folder: Path, *options: str) -> list[Any]:
    """Uids and names of what one run makes."""
    with running_up(folder, "--nodes", "0", "--no-scheduler", *options) as server:
        client = server.client()
        return [client.get("/api/v1/namespaces/default")["metadata"]["uid"], *(create(client) for _ in range(3))]


def create(client: Client) -> str:
    answer = client.send("POST", MAPS, {"metadata": {"generateName": "map-"}})
    assert answer.code == 201
    name: str = answer.json()["metadata"]["name"]
    return name


def test_a_seed_decides_about_uids_and_names_and_a_second_start_gives_no_uid_again(tmp_path: Path) -> None:
    first, second = made(tmp_path / "a", "--seed", "7"), made(tmp_path / "b", "--seed", "7")
    assert first[0] == second[0]
    assert made(tmp_path / "c", "--seed", "8")[0] != first[0]
    assert made(tmp_path / "d")[0] != first[0]
    with running_up(tmp_path / "a", "--nodes", "0", "--no-scheduler", "--seed", "7") as server:
        client = server.client()
        create(client)
        items = [*client.get(MAPS)["items"], *client.get("/api/v1/namespaces")["items"]]
    assert len({each["metadata"]["uid"] for each in items}) == len(items)
