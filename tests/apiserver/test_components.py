"""ComponentStatuses: read as by `kubectl get cs`, and never written."""

from __future__ import annotations

import pytest

from kilauea.apiserver.request import ApiResponse, make_request
from support.api_core import ADMIN, Api

PATH = "/api/v1/componentstatuses"
HEALTHY = {"type": "Healthy", "status": "True", "message": "ok"}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.fixture
def whole(api: Api) -> Api:
    """A server with all parts of a control plane."""
    api.backend.components = ("scheduler", "controller-manager", "etcd-0")
    return api


def test_the_parts_in_the_process_are_listed_as_healthy(whole: Api) -> None:
    answer = whole.ask("GET", PATH)
    names = ("scheduler", "controller-manager", "etcd-0")
    items = [{"metadata": {"name": name}, "conditions": [HEALTHY]} for name in names]
    assert answer.body == {"kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": items}
    assert answer.headers["Warning"] == '299 - "v1 ComponentStatus is deprecated in v1.19+"'


def test_a_server_alone_has_only_its_store(api: Api) -> None:
    assert [each["metadata"]["name"] for each in api.good("GET", PATH)["items"]] == ["etcd-0"]


def test_one_part_is_read_by_its_name_and_an_unknown_one_is_an_error_as_in_kubernetes(whole: Api) -> None:
    assert whole.good("GET", f"{PATH}/scheduler") == {
        "kind": "ComponentStatus", "apiVersion": "v1", "metadata": {"name": "scheduler"}, "conditions": [HEALTHY],
    }  # fmt: skip
    answer = whole.ask("GET", f"{PATH}/none")
    assert (answer.code, answer.body["message"]) == (500, "Component not found: none")


def test_parts_are_selected_by_name_and_have_no_labels(whole: Api) -> None:
    found = whole.good("GET", f"{PATH}?fieldSelector=metadata.name=etcd-0")["items"]
    assert [each["metadata"]["name"] for each in found] == ["etcd-0"]
    assert whole.good("GET", f"{PATH}?labelSelector=a=b")["items"] == []


def test_the_table_has_the_columns_of_the_real_server(whole: Api) -> None:
    table = whole.ask("GET", PATH, accept=TABLE).body
    assert [each["name"] for each in table["columnDefinitions"]] == ["Name", "Status", "Message", "Error"]
    assert table["rows"][0]["cells"] == ["scheduler", "Healthy", "ok", ""]


def test_they_are_in_discovery_and_cannot_be_written(whole: Api) -> None:
    (found,) = [each for each in whole.good("GET", "/api/v1")["resources"] if each["name"] == "componentstatuses"]
    assert (found["shortNames"], found["verbs"], found["namespaced"]) == (["cs"], ["get", "list"], False)
    assert whole.ask("POST", PATH, {"metadata": {"name": "a"}}).code == 405
    assert whole.ask("GET", f"{PATH}?watch=1").code == 405


def test_a_client_that_accepts_only_protobuf_is_told_what_there_is(whole: Api) -> None:
    for path in (PATH, f"{PATH}/scheduler"):
        only = make_request("GET", path, {"accept": "application/vnd.kubernetes.protobuf"}, b"", ADMIN)
        answer = whole.run(whole.server.handle(only))
        assert isinstance(answer, ApiResponse)
        assert answer.status == 406
        either = whole.ask("GET", path, accept="application/vnd.kubernetes.protobuf,application/json")
        assert (either.code, type(either.body)) == (200, dict)
