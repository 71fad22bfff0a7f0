"""Roles and bindings in numbers and sizes that only an attacker makes: they cost others nothing."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import pytest

from kilauea.apiserver.access import MOST_GROUPS
from kilauea.apiserver.heavy import Task, TooHeavy
from kilauea.apiserver.heavy_tasks import TASKS
from kilauea.apiserver.rbac import bindings, roles
from kilauea.apiserver.rbac.authorizer import MANY_BINDINGS, MOST_OF_ROLES, Action, Authorizer
from kilauea.apiserver.rbac.records import Binding, Role, read_binding, read_role
from kilauea.apiserver.request import GROUP_AUTHENTICATED, User, make_request
from support.api_core import MAPS, Api

GROUP = "rbac.authorization.k8s.io"
RBAC = f"/apis/{GROUP}/v1/namespaces/default"
BOB, EVE = (User(name, groups=("staff", GROUP_AUTHENTICATED)) for name in ("bob", "eve"))
ACCOUNT = User("system:serviceaccount:default:runner", groups=(GROUP_AUTHENTICATED,))


def bind(api: Api, name: str, role: str, *subjects: tuple[str, str], kind: str = "ClusterRole") -> None:
    listed = [
        {"kind": each, "name": who} | ({} if each == "ServiceAccount" else {"apiGroup": GROUP})
        for each, who in subjects
    ]
    reference = {"apiGroup": GROUP, "kind": kind, "name": role}
    api.good("POST", f"{RBAC}/rolebindings", {"metadata": {"name": name}, "roleRef": reference, "subjects": listed})


def users(count: int) -> list[tuple[str, str]]:
    return [("User", f"user-{number}") for number in range(count)]


def rules_of(count: int) -> list[dict[str, Any]]:
    rule = {"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]}
    return [rule | {"resourceNames": [f"n{number}"]} for number in range(count)]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of roles and bindings that are read from their bytes."""
    names: list[str] = []

    def binding(value: bytes) -> Binding:
        found = read_binding(value)
        names.append(found.metadata.name)
        return found

    def role(value: bytes) -> Role:
        found = read_role(value)
        names.append(found.metadata.name)
        return found

    monkeypatch.setattr(bindings, "read_binding", binding)
    monkeypatch.setattr(roles, "read_role", role)
    return names


@pytest.mark.parametrize("user", [BOB, ACCOUNT, User("carl", groups=("staff",))])
def test_one_of_many_subjects_has_the_right_and_others_have_not(api: Api, user: User) -> None:
    meant = {"bob": ("User", "bob"), "carl": ("Group", "staff")}.get(user.name, ("ServiceAccount", "runner"))
    bind(api, "many", "view", *users(100), meant, *users(100))
    assert api.ask("GET", MAPS, user=user).code == 200
    assert api.ask("GET", MAPS, user=User("user-99", groups=(GROUP_AUTHENTICATED,))).code == 200
    assert api.ask("GET", MAPS, user=User("dora", groups=(GROUP_AUTHENTICATED,))).code == 403
    api.good("DELETE", f"{RBAC}/rolebindings/many")
    assert api.ask("GET", MAPS, user=user).code == 403


def test_bindings_and_roles_are_read_once_for_each_version(api: Api, reads: list[str]) -> None:
    bind(api, "many", "view", *users(2000), ("User", "bob"))
    bind(api, "others", "view", *users(2000))
    assert [api.ask("GET", MAPS, user=BOB).code for _ in range(3)] == [200] * 3
    reads.clear()
    bind(api, "more", "view", *users(2000))
    assert [api.ask("GET", MAPS, user=BOB).code for _ in range(3)] == [200] * 3
    assert reads == ["more"]


def test_nothing_is_kept_of_the_bindings_of_namespaces_that_are_gone(api: Api) -> None:
    known, asker = bindings.Bindings(api.backend.store), bindings.Asker.of(BOB)

    def found(namespace: str) -> int:
        return len(list(known.of(asker, f"/{GROUP}/rolebindings/{namespace}/", namespace)))

    subject = {"kind": "User", "name": "bob", "apiGroup": GROUP}
    body = {
        "metadata": {"name": "b"},
        "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": "r"},
        "subjects": [subject],
    }
    for number in range(2 * bindings.FEW_PREFIXES):
        path = f"/apis/{GROUP}/v1/namespaces/n{number}/rolebindings"
        api.good("POST", "/api/v1/namespaces", {"metadata": {"name": f"n{number}"}})
        api.good("POST", path, body)
        assert found(f"n{number}") == 1
        if number:
            api.good("DELETE", f"{path}/b")
    assert len(known) <= bindings.FEW_PREFIXES
    assert found("n0") == 1


def test_a_role_that_is_bound_often_is_listed_once(api: Api) -> None:
    for number in range(5):
        bind(api, f"b{number}", "view", ("User", "bob"))
    review = {"spec": {"namespace": "default"}}
    answer = api.good("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", review, user=BOB)
    listed = [str(rule) for rule in answer["status"]["resourceRules"]]
    assert len(listed) == len(set(listed))


def test_bindings_of_others_and_roles_bound_before_are_passed_over(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []
    is_meant = bindings._Binding._is_meant

    def counted(binding: Any, subject: Any, asker: bindings.Asker) -> bool:
        compared.append(subject.name)
        return is_meant(binding, subject, asker)

    for number in range(50):
        bind(api, f"others-{number}", "edit", *users(20))
        bind(api, f"own-{number}", "view", ("User", "bob"), *users(5))
    monkeypatch.setattr(bindings._Binding, "_is_meant", counted)
    assert api.ask("DELETE", f"{MAPS}/a", user=BOB).code == 403
    assert [name for name in compared if not name.startswith("system:")] == ["bob"]


@pytest.mark.parametrize("path", [MAPS, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"])
def test_decisions_among_many_bindings_are_made_in_turns(api: Api, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    for number in range(MANY_BINDINGS + 1):
        bind(api, f"b{number}", "view", ("User", "bob"))
    assert api.ask("GET", MAPS, user=BOB).code == 200
    decided, reason, iteration = Counter[int](), Authorizer.reason, 0

    def counted(authorizer: Authorizer, user: User, action: Action) -> str | None:
        decided[iteration] += action.namespace == "default"
        return reason(authorizer, user, action)

    async def together() -> None:
        nonlocal iteration
        attributes = {"namespace": "default", "verb": "zap", "resource": "pods"}
        body = json.dumps({"spec": {"resourceAttributes": attributes}}).encode()
        method, data = ("GET", b"") if path == MAPS else ("POST", body)
        asked = [make_request(method, path, {}, data, BOB) for _ in range(20)]
        answers = asyncio.gather(*map(api.server.handle, asked))
        while not answers.done():
            iteration += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(Authorizer, "reason", counted)
    api.run(together())
    assert decided.total() == 20
    assert max(decided.values()) == 1


def test_roles_beyond_the_limit_are_not_looked_at(api: Api) -> None:
    count = MOST_OF_ROLES // 2 // 90
    for number in range(3):
        rules = [
            *rules_of(count),
            {"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": [f"m{number}"]},
        ]
        api.good("POST", f"{RBAC}/roles", {"metadata": {"name": f"r{number}"}, "rules": rules})
        bind(api, f"b{number}", f"r{number}", ("User", "bob"), kind="Role")
    assert api.ask("GET", f"{MAPS}/m0", user=BOB).code == 404
    assert api.ask("GET", f"{MAPS}/m2", user=BOB).code == 403


class _Elsewhere:
    """Notes the tasks that are done elsewhere; with `tired`, none ends in time."""

    def __init__(self, *, tired: bool = False) -> None:
        self.tasks: list[Task] = []
        self._tired = tired

    async def run(self, task: Task, data: bytes) -> bytes:
        self.tasks.append(task)
        if self._tired:
            raise TooHeavy("too long")
        return TASKS[task](data)


@pytest.mark.slow
def test_many_rules_are_compared_elsewhere(api: Api) -> None:
    bind(api, "boss", "admin", ("User", "bob"))
    api.good("POST", f"{RBAC}/roles", {"metadata": {"name": "held"}, "rules": rules_of(3000)})
    bind(api, "held", "held", ("User", "bob"), kind="Role")
    elsewhere = api.backend.heavy = _Elsewhere()
    api.good("POST", f"{RBAC}/roles", {"metadata": {"name": "few"}, "rules": rules_of(10)[:1]}, user=BOB)
    assert not [task for task in elsewhere.tasks if task != "compare rights"]
    elsewhere.tasks.clear()
    api.good("POST", f"{RBAC}/roles", {"metadata": {"name": "same"}, "rules": rules_of(2500)}, user=BOB)
    more = [*rules_of(2500), {"verbs": ["get"], "apiGroups": ["none"], "resources": ["pods"]}]
    refused = api.ask("POST", f"{RBAC}/roles", {"metadata": {"name": "more"}, "rules": more}, user=BOB)
    assert refused.code == 403
    assert refused.body["message"].endswith('{APIGroups:["none"], Resources:["pods"], Verbs:["get"]}')
    assert set(elsewhere.tasks) == {"compare rights"}
    api.backend.heavy = _Elsewhere(tired=True)
    late = api.ask("POST", f"{RBAC}/roles", {"metadata": {"name": "late"}, "rules": rules_of(2500)}, user=BOB)
    assert (late.code, "takes too long" in late.body["message"]) == (403, True)


def test_a_review_asks_about_a_limited_number_of_groups(api: Api) -> None:
    attributes = {"verb": "get", "resource": "pods", "namespace": "default"}

    def asked(count: int) -> Any:
        spec = {"user": "eve", "groups": [f"g{number}" for number in range(count)], "resourceAttributes": attributes}
        return api.ask("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})

    assert asked(MOST_GROUPS).code == 201
    refused = asked(MOST_GROUPS + 1)
    assert refused.code == 422
    assert f"spec.groups: Too many: {MOST_GROUPS + 1}: must have at most {MOST_GROUPS} items" in refused.body["message"]
