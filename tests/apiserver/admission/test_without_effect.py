"""What is stored and obeyed by nothing is told to the one who writes it, once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kilauea.apiserver.admission.chain import admission_steps
from kilauea.apiserver.admission.without_effect import WithoutEffect
from support.api_core import Api

NETWORK = "/apis/networking.k8s.io/v1/namespaces/default"
NAMESPACES, SECRETS = "/api/v1/namespaces", "/api/v1/namespaces/default/secrets"
MERGE = "application/merge-patch+json"
BACKEND = {"service": {"name": "x", "port": {"number": 80}}}
AUDIT = "pod-security.kubernetes.io/audit"
TOKEN = {"type": "kubernetes.io/service-account-token"}
ACCOUNT = {"annotations": {"kubernetes.io/service-account.name": "default"}}


@pytest.fixture
def up() -> Iterator[Api]:
    made = Api()
    made.backend.admission = admission_steps(WithoutEffect())
    yield made
    made.close()


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        (f"{NETWORK}/networkpolicies", {"spec": {"podSelector": {}}}, "network policies are not enforced"),
        (f"{NETWORK}/ingresses", {"spec": {"defaultBackend": BACKEND}}, "serves ingresses"),
        ("/apis/node.k8s.io/v1/runtimeclasses", {"handler": "gvisor"}, "handler of a RuntimeClass"),
        (
            "/apis/storage.k8s.io/v1/volumeattributesclasses",
            {"driverName": "a.b", "parameters": {"a": "b"}},
            "VolumeAttributesClass",
        ),
        (SECRETS, {**TOKEN, "metadata": ACCOUNT}, "kubectl create token"),
        (NAMESPACES, {"metadata": {"labels": {AUDIT: "baseline"}}}, "no audit log"),
    ],
)
def test_an_object_without_effect_is_warned_of_when_it_is_written(
    up: Api, path: str, body: dict[str, Any], words: str
) -> None:
    metadata = {"name": "a", **body.get("metadata", {})}
    made = up.ask("POST", path, {**body, "metadata": metadata})
    assert made.code == 201, made.body
    assert words in made.headers["Warning"]
    changed = up.ask("PATCH", f"{path}/a", {"metadata": {"labels": {"x": "y"}}}, content_type=MERGE)
    assert (changed.code, "Warning" in changed.headers) == (200, False)


def test_others_are_not_warned_of(up: Api) -> None:
    for path, body in ((SECRETS, {}), (NAMESPACES, {"metadata": {"labels": {AUDIT: "privileged"}}})):
        made = up.ask("POST", path, {**body, "metadata": {"name": "b", **body.get("metadata", {})}})
        assert (made.code, "Warning" in made.headers) == (201, False)
