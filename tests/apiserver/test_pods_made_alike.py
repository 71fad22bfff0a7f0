"""A pod that is like one before it is treated as if it were the first: read, completed, owned, checked, warned of."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kilauea.apiserver.resources.strategies import STRATEGIES
from kilauea.apiserver.rest import alike
from kilauea.apiserver.strategies.alike import Remembered, masked, unmasked
from support.api_core import PODS, Answer, Api

REQUESTS = Path(__file__).parents[1] / "kubernetes" / "requests"
OTHER_NAME = "the-pod-that-is-looked-at"


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests have made pods, too."""
    forget(monkeypatch)


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin with nothing that is remembered of pods."""
    monkeypatch.setattr(alike, "_SPECIFICATIONS", Remembered())
    monkeypatch.setattr(STRATEGIES["", "pods"], "_sound", Remembered())


def pods() -> Iterator[dict[str, Any]]:
    """All pods in the requests that both servers get."""
    for path in sorted(REQUESTS.glob("*.yaml")):
        for request in yaml.safe_load(path.read_text()):
            body = request.get("body")
            if isinstance(body, dict) and body.get("kind") == "Pod" and isinstance(body.get("spec"), dict):
                yield json.loads(json.dumps(body, default=str))


def parts(value: Any, field: str = "") -> list[Any]:
    """The items of a list, or of the lists in a field of each of its items; requests can have anything in its place."""
    if not field:
        return value if isinstance(value, list) else []
    return [item for each in value if isinstance(each, dict) for item in parts(each.get(field))]


def with_values(pod: dict[str, Any], value: str) -> dict[str, Any]:
    """A pod under another name whose variables have other values."""
    changed = copy.deepcopy(pod)
    changed["metadata"] = {"labels": {"a": "b"}, "name": OTHER_NAME}
    for variable in parts(parts(changed["spec"].get("containers")), "env"):
        if isinstance(variable, dict) and variable.get("value"):
            variable["value"] = value
    return changed


def outcome(answer: Answer) -> tuple[int, str, str | None]:
    """What an answer says, in its order, without what is random."""
    body = json.loads(re.sub(r"kube-api-access-\w{5}", "kube-api-access-", json.dumps(answer.body)))
    body.get("metadata", {}).pop("uid", None)
    body.get("metadata", {}).pop("resourceVersion", None)
    return answer.code, json.dumps(body), answer.headers.get("Warning")


@pytest.mark.slow
def test_pods_of_all_requests_are_treated_like_the_first(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    path, compared = f"{PODS}?dryRun=All&fieldValidation=Warn", 0
    for pod in pods():
        api.ask("POST", path, with_values(pod, "some text"))
        after_another = outcome(api.ask("POST", path, with_values(pod, "$(OTHER)")))
        forget(monkeypatch)
        assert after_another == outcome(api.ask("POST", path, with_values(pod, "$(OTHER)")))
        compared += after_another[0] == 201
        forget(monkeypatch)
    assert compared > 50


def test_each_pod_has_its_own_values(api: Api) -> None:
    for number in range(3):
        env = [{"name": "RANK", "value": str(number)}, {"name": "NONE", "value": ""}, {"name": "ALL", "value": "?"}]
        made = api.create_pod(f"worker-{number}", containers=[{"name": "main", "image": "a:1", "env": env}])
        expected = [{"name": "RANK", "value": str(number)}, {"name": "NONE"}, {"name": "ALL", "value": "?"}]
        assert made["spec"]["containers"][0]["env"] == expected
        owned = made["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:containers"]['k:{"name":"main"}']["f:env"]
        assert owned['k:{"name":"RANK"}'] == {".": {}, "f:name": {}, "f:value": {}}
        assert owned['k:{"name":"NONE"}'] == {".": {}, "f:name": {}}


def test_every_pod_is_warned_of(api: Api) -> None:
    env = [{"name": "A", "value": "one"}, {"name": "A", "value": "$(A) again"}]
    container = {"name": "main", "image": "a:1", "env": env}
    path, body = f"{PODS}?dryRun=All", {"metadata": {"name": "a"}, "spec": {"containers": [container]}}
    assert "Warning" not in api.ask("POST", path, body).headers
    env[1]["value"] = "two"
    for _ in range(2):
        assert "hides previous definition of" in api.ask("POST", path, body).headers["Warning"]
    container.update(env=[], unheard="of")
    for _ in range(2):
        assert "spec.containers[0].unheard" in api.ask("POST", path, body).headers["Warning"]


def test_an_unknown_field_elsewhere_is_told_of_with_a_known_specification(api: Api) -> None:
    spec = {"containers": [{"name": "main", "image": "a:1"}]}
    api.create_pod("first", containers=spec["containers"])
    answer = api.ask("POST", PODS, {"metadata": {"name": "a", "unheard": 1}, "spec": spec})
    assert "metadata.unheard" in answer.headers["Warning"]
    assert "unheard" not in answer.body["metadata"]
    twice = b'{"metadata":{"name":"b","name":"c"},"spec":{"containers":[{"name":"main","image":"a:1"}]}}'
    assert "duplicate field" in api.ask("POST", PODS, twice).headers["Warning"]
    assert api.ask("POST", PODS, {"metadata": {"name": 5}, "spec": spec}).code == 400


@pytest.mark.parametrize("env", [5, "text", ["text"], {"name": "A"}, [{"name": "A", "value": 5}]])
def test_variables_of_wrong_types_are_refused(api: Api, env: Any) -> None:
    for _ in range(2):
        body = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "main", "image": "a:1", "env": env}]}}
        assert api.ask("POST", PODS, body).code == 400


def test_masks_leave_a_specification_as_it_is() -> None:
    env = [{"name": "A", "value": "one"}, {"name": "B", "valueFrom": {}}, {"name": "C", "value": ""}]
    spec = {"containers": [{"env": env}, {}], "initContainers": [{"env": [{"name": "D", "value": "two"}]}]}
    before = copy.deepcopy(spec)
    form = masked(spec)
    assert form is not None
    assert spec == before
    assert form.values == ["one", "two"]
    assert unmasked(json.loads(form.text), ["x", "y"])["containers"][0]["env"][0]["value"] == "x"
    assert masked({"containers": [{"name": "a" * 10_000}]}) is None
