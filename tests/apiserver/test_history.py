"""The history over the API: who may read it, and what is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from apiserver.test_rbac import BOB, bind, role
from kilauea.apiserver.request import ApiResponse, make_request
from kilauea.apiserver.rest.history import HISTORY
from kilauea.history.records import JobRecord, PodRecord
from kilauea.history.store import History
from kilauea.runtime.clock import SystemClock
from kilauea.runtime.cluster.direct import DirectClient
from kilauea.runtime.history.recorder import Recorder
from kilauea.runtime.history.serving import ServedHistory
from support.api_core import ADMIN, Api

ROOT = "/apis/history.kilauea.dev/v1alpha1"


@pytest.fixture
def history(api: Api, tmp_path: Path) -> Iterator[Api]:
    """A server with a history of a job in `default` and one in `kube-system`."""
    store = History.open(tmp_path)
    for space in ("default", "kube-system"):
        job = JobRecord(uid=space, namespace=space, name="train", kind="Job", submitted=5)
        pod = PodRecord(uid=f"{space}-0", namespace=space, name="t-0", job=space, queue="q", bound=10, ended=20)
        store.put([job, pod], seen=30)
    store.close()
    recorder = Recorder(DirectClient(api.server, "history"), tmp_path, SystemClock(), Random(1))
    api.backend.history = ServedHistory(recorder, lambda: api.now, lambda kind: 0)
    for each in HISTORY:
        api.backend.registry.add(each)
    yield api
    api.run(asyncio.sleep(0))


def test_who_may_list_jobs_in_a_namespace_sees_its_history_and_no_other(history: Api) -> None:
    for path in ("jobhistories", "jobhistories/train", "usagereports", "historyrecords"):
        assert history.ask("GET", f"{ROOT}/namespaces/default/{path}", user=BOB).code == 403
    role(history, "jobs", {"verbs": ["list"], "apiGroups": ["batch.volcano.sh"], "resources": ["jobs"]})
    bind(history, "jobs", "User", "bob")
    for path in ("jobhistories", "jobhistories/train", "usagereports", "historyrecords"):
        assert history.ask("GET", f"{ROOT}/namespaces/default/{path}", user=BOB).code == 200
        assert history.ask("GET", f"{ROOT}/namespaces/kube-system/{path}", user=BOB).code == 403
    for path in ("jobhistories", "usagereports", "historyrecords"):
        assert history.ask("GET", f"{ROOT}/{path}", user=BOB).code == 403
    (found,) = history.good("GET", f"{ROOT}/namespaces/default/jobhistories", user=BOB)["items"]
    assert found["job"]["uid"] == "default"


def test_a_right_to_the_group_of_the_history_alone_is_none(history: Api) -> None:
    role(history, "past", {"verbs": ["*"], "apiGroups": ["history.kilauea.dev"], "resources": ["*"]})
    bind(history, "past", "User", "bob")
    assert history.ask("GET", f"{ROOT}/namespaces/default/jobhistories", user=BOB).code == 403


def test_administrators_see_all_namespaces(history: Api) -> None:
    found = history.good("GET", f"{ROOT}/usagereports?by=namespace")
    assert [(row["name"], row["time"]) for row in found["rows"]] == [("default", 10), ("kube-system", 10)]
    assert history.good("GET", f"{ROOT}/historyrecords?what=Evicted")["items"] == []


def test_a_job_that_is_not_known_is_not_found(history: Api) -> None:
    refused = history.ask("GET", f"{ROOT}/namespaces/default/jobhistories/nope")
    assert (refused.code, refused.body["reason"]) == (404, "NotFound")


@pytest.mark.parametrize("path", ["jobhistories?since=now", "usagereports?by=planet", "historyrecords?lines=3"])
def test_a_bad_question_is_a_bad_request(history: Api, path: str) -> None:
    refused = history.ask("GET", f"{ROOT}/{path}")
    assert (refused.code, refused.body["reason"]) == (400, "BadRequest")


def test_nothing_of_it_can_be_written(history: Api) -> None:
    body = json.loads("{}")
    assert history.ask("POST", f"{ROOT}/namespaces/default/jobhistories", body).code == 405
    assert history.ask("DELETE", f"{ROOT}/namespaces/default/jobhistories/train").code == 405


def test_a_history_that_cannot_be_read_is_named(history: Api, tmp_path: Path) -> None:
    (tmp_path / "history.db").unlink()
    refused = history.ask("GET", f"{ROOT}/jobhistories")
    assert refused.code == 500
    assert "there is no history" in refused.body["message"]


def test_the_parts_of_a_report_add_up_to_the_whole(history: Api) -> None:
    begin = "1970-01-01T00:00:00Z"
    found = history.good("GET", f"{ROOT}/usagereports?since={begin}&until=1970-01-01T00:00:00.000030Z&parts=3")
    assert [(part["begin"], part["end"]) for part in found["parts"]] == [(0, 10), (10, 20), (20, 30)]
    assert [[row["time"] for row in part["rows"]] for part in found["parts"]] == [[], [20], []]
    assert [row["time"] for row in found["rows"]] == [20]
    for bad in (f"since={begin}&parts=101", f"since={begin}&parts=x", "parts=3"):
        answer = history.ask("GET", f"{ROOT}/usagereports?{bad}")
        assert answer.code == 400
        assert "parts: " in answer.body["message"]


@pytest.mark.parametrize(
    ("accept", "media"),
    [
        ("application/json", "application/json"),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "application/json"),
        ("application/x-ndjson,application/json", "application/x-ndjson"),
    ],
)
def test_records_are_a_list_unless_lines_are_asked_for(history: Api, accept: str, media: str) -> None:
    answer = history.run(
        history.server.handle(make_request("GET", f"{ROOT}/historyrecords", {"accept": accept}, user=ADMIN))
    )
    assert isinstance(answer, ApiResponse)
    assert answer.content_type == media
    body = b"".join([answer.body] if isinstance(answer.body, bytes) else answer.body)
    if media == "application/json":
        found = json.loads(body)
        assert found["kind"] == "HistoryRecordList"
        records = [each["record"] for each in found["items"]]
        assert [each["metadata"]["name"] for each in found["items"]] == [str(number) for number in range(len(records))]
    else:
        records = [json.loads(line) for line in body.splitlines()]
    assert {"default", "kube-system", "default-0", "kube-system-0"} <= {each.get("uid") for each in records}
