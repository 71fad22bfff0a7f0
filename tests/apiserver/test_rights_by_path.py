"""Rights in one namespace do not reach another, whatever the path says."""

from __future__ import annotations

import pytest

from kilauea.apiserver.request import GROUP_AUTHENTICATED, User
from support.api_core import Api

BOB = User("bob", groups=(GROUP_AUTHENTICATED,))
RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture
def shared(api: Api) -> Api:
    """Bob may do everything in `team`, and nothing in `victim`."""
    for name in ("team", "victim"):
        api.good("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    rule = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    api.good("POST", f"{RBAC}/namespaces/team/roles", {"metadata": {"name": "all"}, "rules": [rule]})
    subject = {"kind": "User", "name": "bob", "apiGroup": "rbac.authorization.k8s.io"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "all"}
    binding = {"metadata": {"name": "all"}, "roleRef": reference, "subjects": [subject]}
    api.good("POST", f"{RBAC}/namespaces/team/rolebindings", binding)
    return api


@pytest.mark.parametrize("path", ["namespaces/victim", "namespaces/victim/status", "namespaces", "nodes", "nodes/n1"])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
def test_no_path_in_a_namespace_leads_to_objects_of_the_cluster(shared: Api, method: str, path: str) -> None:
    patch = {"content_type": "application/merge-patch+json"} if method == "PATCH" else {}
    for prefix in ("/api/v1/namespaces/team", "/api/v1/watch/namespaces/team"):
        answer = shared.ask(method, f"{prefix}/{path}", {"metadata": {"name": "victim"}}, user=BOB, **patch)
        assert answer.code in (403, 404), f"{method} {prefix}/{path}: {answer.body}"
    assert shared.good("GET", "/api/v1/namespaces/victim")["status"] == {"phase": "Active"}


def test_a_namespace_has_one_path_for_its_own_administrators_too(shared: Api) -> None:
    assert shared.ask("GET", "/api/v1/namespaces/team", user=BOB).code == 200
    assert shared.ask("GET", "/api/v1/namespaces/team/status", user=BOB).code == 200
    assert shared.ask("GET", "/api/v1/namespaces/team/namespaces/team", user=BOB).code == 404
    assert shared.ask("GET", "/api/v1/namespaces/victim", user=BOB).code == 403


def test_an_encoded_slash_does_not_change_whose_rights_count(shared: Api) -> None:
    for path in ("/api/v1/namespaces%2Fvictim", "/api/v1/namespaces/team%2F..%2Fvictim/configmaps",
                 "/api/v1/namespaces/team/configmaps/..%2F..%2Fvictim"):  # fmt: skip
        assert shared.ask("GET", path, user=BOB).code in (403, 404), path


def test_a_user_named_star_in_a_binding_is_that_user_only(shared: Api) -> None:
    subject = {"kind": "User", "name": "*", "apiGroup": "rbac.authorization.k8s.io"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    binding = {"metadata": {"name": "star"}, "roleRef": reference, "subjects": [subject]}
    shared.good("POST", f"{RBAC}/clusterrolebindings", binding)
    assert shared.ask("GET", "/api/v1/nodes", user=BOB).code == 403


def test_a_local_review_is_about_its_own_namespace(shared: Api) -> None:
    path = "/apis/authorization.k8s.io/v1/namespaces/team/localsubjectaccessreviews"
    asked = {"resource": "pods", "verb": "get", "namespace": "victim"}
    answer = shared.ask("POST", path, {"spec": {"user": "eve", "resourceAttributes": asked}}, user=BOB)
    assert answer.code == 422
    cause = answer.body["details"]["causes"][0]
    assert (cause["field"], cause["reason"]) == ("spec.resourceAttributes.namespace", "FieldValueInvalid")
    assert "must match metadata.namespace" in cause["message"]
    paths = {"spec": {"user": "eve", "nonResourceAttributes": {"path": "/metrics", "verb": "get"}}}
    assert shared.ask("POST", path, paths, user=BOB).code == 422
    own = {"spec": {"user": "bob", "resourceAttributes": {**asked, "namespace": "team"}}}
    assert shared.good("POST", path, own, user=BOB)["status"]["allowed"] is True


def test_a_right_by_name_allows_a_list_that_selects_this_name(api: Api) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    rule = {"verbs": ["list", "watch"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"]}
    api.good("POST", f"{RBAC}/namespaces/default/roles", {"metadata": {"name": "a"}, "rules": [rule]})
    subject = {"kind": "User", "name": "bob", "apiGroup": "rbac.authorization.k8s.io"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "a"}
    binding = {"metadata": {"name": "a"}, "roleRef": reference, "subjects": [subject]}
    api.good("POST", f"{RBAC}/namespaces/default/rolebindings", binding)
    for name in ("a", "b"):
        api.create_map(name)
    found = api.good("GET", f"{path}?fieldSelector=metadata.name%3Da", user=BOB)
    assert [each["metadata"]["name"] for each in found["items"]] == ["a"]
    for query in ("", "?fieldSelector=metadata.name%3Db", "?fieldSelector=metadata.name!%3Da", "?fieldSelector=%3D"):
        assert api.ask("GET", f"{path}{query}", user=BOB).code == 403, query
    assert api.ask("DELETE", f"{path}?fieldSelector=metadata.name%3Da", user=BOB).code == 403
