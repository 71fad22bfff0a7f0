"""`authorizer` in expressions of policies and match conditions: the roles of the caller decide."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.apiserver.request import User
from support.api_core import MAPS, Api
from support.policies import HOOKS, check

RBAC = "/apis/rbac.authorization.k8s.io/v1"
BOB = User("bob", groups=("system:authenticated",))
MAPS_CREATE = {"verbs": ["create"], "apiGroups": [""], "resources": ["configmaps"]}


def allow(api: Api, *rules: dict[str, Any], namespace: str = "", to: dict[str, str] | None = None) -> None:
    """A role with rules, bound to bob or another subject, in the cluster or one namespace."""
    where = f"{RBAC}/namespaces/{namespace}/" if namespace else f"{RBAC}/cluster"
    kind = "Role" if namespace else "ClusterRole"
    name = f"r{len(api.good('GET', f'{RBAC}/clusterroles')['items'])}"
    api.good("POST", f"{where}roles", {"metadata": {"name": name}, "rules": list(rules)})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
    body = {"metadata": {"name": name}, "roleRef": reference, "subjects": [to or {"kind": "User", "name": "bob"}]}
    api.good("POST", f"{where}rolebindings", body)


@pytest.fixture
def bob(api: Api) -> Api:
    """An API whose user bob may create ConfigMaps, and read pods in `default`, the log of one of them, and a path."""
    allow(api, MAPS_CREATE, {"verbs": ["get"], "nonResourceURLs": ["/reports/*"]})
    pods = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
    log = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods/log"], "resourceNames": ["web"]}
    allow(api, pods, log, namespace="default")
    account = {"kind": "ServiceAccount", "namespace": "default", "name": "reader"}
    allow(api, {"verbs": ["list"], "apiGroups": ["apps"], "resources": ["deployments"]}, to=account)
    return api


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ("authorizer.group('').resource('pods').namespace('default').check('get').allowed()", True),
        ("authorizer.group('').resource('pods').namespace('default').check('delete').allowed()", False),
        ("authorizer.group('').resource('pods').check('get').allowed()", False),
        ("authorizer.group('apps').resource('pods').namespace('default').check('get').allowed()", False),
        ("authorizer.group('').resource('pods').subresource('log').namespace('default').name('web').check('get')"
         ".allowed()", True),
        ("authorizer.group('').resource('pods').subresource('log').namespace('default').name('db').check('get')"
         ".allowed()", False),
        ("authorizer.group('').resource('pods').namespace('default').labelSelector('a=b').fieldSelector('x=y')"
         ".check('get').allowed()", True),
        ("authorizer.path('/reports/today').check('get').allowed()", True),
        ("authorizer.path('/metrics').check('get').allowed()", False),
        ("authorizer.requestResource.check('create').allowed()", True),
        ("authorizer.requestResource.check('delete').allowed()", False),
        ("authorizer.requestResource.check('create').errored()", False),
        ("authorizer.requestResource.check('create').error() == ''", True),
        ("authorizer.requestResource.check('create').reason().contains('to User \"bob\"')", True),
        ("authorizer.requestResource.check('delete').reason() == ''", True),
        ("authorizer.serviceAccount('default', 'reader').group('apps').resource('deployments').check('list')"
         ".allowed()", True),
        ("authorizer.serviceAccount('default', 'other').group('apps').resource('deployments').check('list')"
         ".allowed()", False),
    ],
)  # fmt: skip
def test_expressions_ask_what_the_caller_may_do(bob: Api, expression: str, holds: bool) -> None:
    check(bob, {"expression": expression})
    assert bob.ask("POST", MAPS, {"metadata": {"name": "a"}}, user=BOB).code == (201 if holds else 422)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("authorizer.path(' ').check('get').allowed()", "path must not be empty"),
        ("authorizer.group('').resource('').check('get').allowed()", "resource must not be empty"),
        ("authorizer.serviceAccount('a b', 'x').path('/').check('get').allowed()", "Invalid service account namespace"),
        ("authorizer.serviceAccount('a', 'X!').path('/').check('get').allowed()", "Invalid service account name"),
    ],
)
def test_a_check_that_cannot_be_asked_fails_with_its_reason(bob: Api, expression: str, words: str) -> None:
    check(bob, {"expression": expression})
    answer = bob.ask("POST", MAPS, {"metadata": {"name": "a"}}, user=BOB)
    assert answer.code == 422
    assert answer.body["message"].endswith(f"resulted in error: {words}")


def test_members_of_masters_are_allowed_everything(api: Api) -> None:
    check(api, {"expression": "authorizer.group('any').resource('thing').check('do').allowed()"})
    api.create_map("a")


def test_an_expression_may_ask_twice_and_not_three_times(bob: Api) -> None:
    once = "authorizer.requestResource.check('create').allowed()"
    check(bob, {"expression": f"{once} && {once}"})
    bob.good("POST", MAPS, {"metadata": {"name": "a"}}, user=BOB)
    path = f"{HOOKS}/validatingadmissionpolicies/p"
    policy = bob.good("GET", path)
    policy["spec"]["validations"] = [{"expression": f"{once} && {once} && {once}"}]
    bob.good("PUT", path, policy)
    answer = bob.ask("POST", MAPS, {"metadata": {"name": "b"}}, user=BOB)
    assert answer.body["message"].endswith("operation cancelled: actual cost limit exceeded")


def test_a_condition_exempts_callers_with_a_right(bob: Api) -> None:
    allowed = "authorizer.group('example.com').resource('rules').name('p').check('breakglass').allowed()"
    check(bob, {"expression": "false"}, matchConditions=[{"name": "held", "expression": f"!{allowed}"}])
    assert bob.ask("POST", MAPS, {"metadata": {"name": "a"}}, user=BOB).code == 422
    allow(bob, {"verbs": ["breakglass"], "apiGroups": ["example.com"], "resources": ["rules"]})
    bob.good("POST", MAPS, {"metadata": {"name": "a"}}, user=BOB)


def test_a_webhook_is_not_called_for_callers_that_its_condition_exempts(bob: Api) -> None:
    exempt = {"name": "held", "expression": "!authorizer.requestResource.check('create').allowed()"}
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
    hook = {
        "name": "deny.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "rules": [rule],
        "clientConfig": {"url": "https://127.0.0.1:1/"}, "matchConditions": [exempt],
    }  # fmt: skip
    body = {"metadata": {"name": "hooks"}, "webhooks": [hook]}
    bob.good("POST", f"{HOOKS}/validatingwebhookconfigurations", body)
    bob.good("POST", MAPS, {"metadata": {"name": "a"}}, user=BOB)
