"""Requests made to be expensive: they are refused, or answered in a time that grows with their size alone."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import unified_diff
from itertools import product
from typing import Any

import pytest
import yaml

from kilauea.apiserver.rbac.coverage import Held
from kilauea.apiserver.rbac.records import PolicyRule
from kilauea.apiserver.request import GROUP_AUTHENTICATED, TextStream, User, make_request
from kilauea.apiserver.status import MORE_ERRORS, MOST_CHARACTERS
from kilauea.apiserver.strategies.pods import changes
from support.api_core import ADMIN, MAPS, PODS, Api

SECONDS = 5.0
"""Each request here took longer than ten seconds, most of them minutes, before it was limited."""
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
LARGEST = 1536 * 1024


MOST_LINES = 1_000


@contextmanager
def soon() -> Iterator[None]:
    start = time.monotonic()
    yield
    assert time.monotonic() - start < SECONDS


# --- errors


def test_not_all_errors_of_many_are_listed(api: Api) -> None:
    """Each of several controllers is told with all owners."""
    kind = {"apiVersion": "v1", "kind": "ConfigMap", "controller": True}
    owners = [{**kind, "name": f"n{number}", "uid": f"u{number}"} for number in range(2_000)]
    with soon():
        answer = api.ask("POST", MAPS, {"metadata": {"name": "a", "ownerReferences": owners}})
    assert answer.code == 422
    assert "Only one reference can have Controller set to true" in answer.body["details"]["causes"][0]["message"]
    labels = {f"wrong key {number}": "v" for number in range(20_000)}
    many = api.ask("POST", MAPS, {"metadata": {"name": "a", "labels": labels}})
    assert many.body["message"].endswith("<nil>: there are more errors, which are not listed]")
    for each in (answer, many):
        assert len(json.dumps(each.body)) < 4 * MOST_CHARACTERS
        assert each.body["details"]["causes"][-1]["message"] == MORE_ERRORS.message


def test_thousands_of_claims_of_a_container_are_compared_by_name(api: Api) -> None:
    used = [{"name": f"c{number}", "request": "r"} for number in range(8_000)]
    used += [{"name": f"c{number}"} for number in range(8_000)]
    container = {"name": "main", "image": "busybox:1", "resources": {"claims": used}}
    with soon():
        answer = api.ask("POST", PODS, {"metadata": {"name": "a"}, "spec": {"containers": [container]}})
    assert answer.code == 422


def test_a_claim_and_requests_of_it_are_not_used_both(api: Api) -> None:
    used = [{"name": "a", "request": "x"}, {"name": "a", "request": "y"}, {"name": "ab", "request": "x"}, {"name": "a"}]
    container = {"name": "main", "image": "busybox:1", "resources": {"claims": used}}
    claims = [{"name": name, "resourceClaimName": name} for name in ("a", "ab")]
    spec = {"containers": [container], "resourceClaims": claims}
    answer = api.ask("POST", PODS, {"metadata": {"name": "a"}, "spec": spec})
    where = "spec.containers[0].resources.claims[3]"
    assert [(each["field"], each["reason"]) for each in answer.body["details"]["causes"]] == [
        (where, "FieldValueDuplicate"),
        (where, "FieldValueDuplicate"),
    ]


# --- patches


def test_copies_of_a_patch_may_not_amount_to_more_than_three_mebibytes(api: Api) -> None:
    api.create_map("a")
    bomb = [{"op": "copy", "from": "/metadata", "path": f"/metadata/x{number}"} for number in range(40)]
    with soon():
        answer = api.ask("PATCH", f"{MAPS}/a", bomb, content_type=JSON_PATCH)
    assert (answer.code, answer.body["reason"]) == (422, "Invalid")
    assert api.ask("PATCH", f"{MAPS}/a", bomb[:3], content_type=JSON_PATCH).code == 200


def test_inserting_at_the_front_of_a_huge_list_is_limited(api: Api) -> None:
    api.create_map("a")
    operations: list[Any] = [{"op": "add", "path": "/x", "value": [0] * 700_000}]
    operations += [{"op": "add", "path": "/x/0", "value": 0}] * 9_999
    with soon():
        assert api.ask("PATCH", f"{MAPS}/a", operations, content_type=JSON_PATCH).code == 422


def test_not_all_differences_of_two_long_pods_are_told(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time to find them grows with the square of the lines."""
    lines = 0

    def counted(old: list[str], new: list[str], **options: Any) -> Iterator[str]:
        nonlocal lines
        lines += len(old) + len(new)
        return unified_diff(old, new, **options)

    monkeypatch.setattr(changes, "unified_diff", counted)

    def container(value: str) -> dict[str, Any]:
        env = [{"name": f"E{number:04}", "value": value if number >= 1000 else "same"} for number in range(4_000)]
        return {"name": "main", "image": "busybox:1", "env": env}

    api.create_pod("a", containers=[container("old")])
    body = {"spec": {"containers": [container("new")]}}
    answer = api.ask("PATCH", f"{PODS}/a", body, content_type=STRATEGIC_PATCH)
    message = answer.body["details"]["causes"][0]["message"]
    assert answer.code == 422
    assert '"name": "E1000",\n-     "value": "old"\n+     "value": "new"\n' in message
    assert message.endswith("\n...\n")
    assert lines < MOST_LINES


@pytest.mark.parametrize("form", [STRATEGIC_PATCH, "application/apply-patch+yaml"])
def test_lists_of_thousands_of_items_are_merged_in_one_pass(api: Api, form: str) -> None:
    def finalizers(start: int) -> list[str]:
        return [f"example.com/f{number}" for number in range(start, start + 8_000)]

    metadata = {"name": "a", "finalizers": finalizers(0)}
    api.good("POST", f"{MAPS}?fieldManager=one", {"metadata": metadata})
    change = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "finalizers": finalizers(4_000)}}
    with soon():
        body = api.good("PATCH", f"{MAPS}/a?fieldManager=two", change, content_type=form)
    assert len(body["metadata"]["finalizers"]) == 12_000


# --- texts

YAML = "application/yaml"


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (YAML, b"a: " + b"[" * 40_000),
        (YAML, b"a: " + b"{" * 40_000),
        (YAML, b"? " * 40_000),
        (YAML, b"---\n" * 20_000 + b"\0"),
        ("application/json", b'{"data":[' + b"1," * 30_000),
        ("application/json", b'{"data":{"a":"' + b"\\n" * 200_000),
    ],
)
def test_broken_texts_are_refused_soon(api: Api, form: str, text: bytes) -> None:
    with soon():
        assert api.ask("POST", MAPS, text, content_type=form).code == 400
    with soon():
        patched = api.ask("PATCH", f"{MAPS}/a?fieldManager=me", text, content_type="application/apply-patch+yaml")
    assert patched.code == 400


def test_aliases_do_not_make_much_of_little(api: Api) -> None:
    bomb = b"metadata: {name: a}\na: &a [x, x, x, x, x, x, x, x, x, x]\n"
    for letter in b"bcdefg":
        before, name = chr(letter - 1), chr(letter)
        bomb += f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n".encode()
    text = b"data:\n  a: &a " + b"x" * 7_000 + b"\n" + b"".join(b"  a%d: *a\n" % number for number in range(1000))
    with soon():
        assert api.ask("POST", MAPS, bomb, content_type=YAML).code == 400
    with soon():
        assert api.ask("POST", MAPS, text, content_type=YAML).code == 413


@pytest.mark.parametrize("form", [YAML, "application/json"])
def test_a_hundred_keys_given_twice_are_told_of(api: Api, form: str) -> None:
    pairs = [b'"k%d": "v"' % number for number in range(9000)]
    text = b'{"metadata": {"name": "a"}, "data": {%b}}' % b",\n".join(pairs * 2)
    answer = api.ask("POST", f"{MAPS}?fieldValidation=Strict", text, content_type=form)
    assert answer.code == 400
    assert answer.body["message"].count("already set in map" if form == YAML else "duplicate field") == 100
    assert api.ask("POST", MAPS, text, content_type=form).code == 201


def test_a_hundred_unknown_fields_are_told_of(api: Api) -> None:
    text = json.dumps({"metadata": {"name": "a"}, **{f"k{number}": 1 for number in range(3000)}}).encode()
    answer = api.ask("POST", f"{MAPS}?fieldValidation=Strict", text)
    assert (answer.code, answer.body["message"].count("unknown field")) == (400, 100)


def test_a_long_list_in_yaml_is_the_list_in_json(api: Api) -> None:
    for number in range(5):
        api.create_map(f"m{number}", text=f"{number} \u00e9: \n" * 10_000)
    answer = api.run(api.server.handle(make_request("GET", MAPS, {"accept": YAML}, user=ADMIN)))
    assert isinstance(answer, TextStream)
    assert answer.content_type == YAML

    async def text() -> bytes:
        return b"".join([chunk async for chunk in answer.chunks])

    assert yaml.safe_load(api.run(text())) == api.good("GET", MAPS)


# --- sizes


def test_no_object_grows_beyond_the_limit(api: Api) -> None:
    path = "/apis/batch/v1/namespaces/default/cronjobs"
    container = {"name": "c", "image": "i", "args": ["x" * 1_000_000]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    job = {
        "metadata": {"name": "a"},
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template}}},
    }
    api.good("POST", path, job)
    more = [
        {"op": "add", "path": "/spec/jobTemplate/spec/template/spec/containers/0/command", "value": ["x" * 600_000]}
    ]
    answer = api.ask("PATCH", f"{path}/a", more, content_type=JSON_PATCH)
    assert (answer.code, answer.body["reason"]) == (413, "RequestEntityTooLarge")
    assert answer.body["message"].startswith('CronJob "a" is too large: it would take 160')
    assert str(LARGEST) in answer.body["message"]
    container["args"] = ["x" * LARGEST]
    assert api.ask("POST", path, {**job, "metadata": {"name": "b"}}).code == 413
    stored = api.good("GET", f"{path}/a")["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]
    assert "command" not in stored


@pytest.mark.parametrize("depth", [201, 400, 700, 950, 5000])
def test_what_nests_too_deep_is_refused_whatever_its_depth(api: Api, depth: int) -> None:
    definition = {
        "metadata": {"name": "trees.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"plural": "trees", "singular": "tree", "kind": "Tree", "listKind": "TreeList"},
            "versions": [],
        },
    }
    schema: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    definition["spec"]["versions"] = [version]  # type: ignore[index]
    text = json.dumps(definition)[:-1].encode() + b', "x": ' + b"[" * depth + b"]" * depth + b"}"
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert api.ask("POST", path, text).code in (201, 400)
    deep = b'{"metadata":{"name":"a"},"data":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}"
    assert api.ask("POST", MAPS, deep).code == 400
    answer = api.ask("POST", PODS, deep)
    assert answer.code in (400, 422)


# --- roles


def test_a_role_of_millions_of_combinations_is_checked_at_once(api: Api) -> None:
    bob = User("bob", groups=(GROUP_AUTHENTICATED,))
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    subject = {"kind": "User", "name": "bob", "apiGroup": "rbac.authorization.k8s.io"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"}
    binding = {"metadata": {"name": "b"}, "roleRef": reference, "subjects": [subject]}
    api.good("POST", f"{rbac}/namespaces/default/rolebindings", binding)
    names = [f"n{number}" for number in range(300)]
    rule = {"verbs": ["get"] * 300, "apiGroups": [""] * 300, "resources": ["pods"] * 299 + ["pods/log"]}
    with soon():
        wide = {"metadata": {"name": "wide"}, "rules": [{"verbs": names, "apiGroups": names, "resources": names}]}
        refused = api.ask("POST", f"{rbac}/namespaces/default/roles", wide, user=bob)
        held = api.ask(
            "POST", f"{rbac}/namespaces/default/roles", {"metadata": {"name": "held"}, "rules": [rule]}, user=bob
        )
    assert refused.code == 403
    assert held.code == 201


ALL_NAMES = "/"
"""No object has this name."""


def one_by_one(rule: PolicyRule, held: list[PolicyRule]) -> bool:
    """The answer of the definition: each combination of words is held."""

    def has(each: PolicyRule, verb: str, group: str, resource: str, name: str) -> bool:
        return (
            (verb in each.verbs or "*" in each.verbs)
            and (group in each.api_groups or "*" in each.api_groups)
            and (resource in each.resources or "*" in each.resources)
            and (not each.resource_names or (name != ALL_NAMES and name in each.resource_names))
        )

    actions = product(rule.verbs, rule.api_groups, rule.resources, rule.resource_names or (ALL_NAMES,))
    return all(any(has(each, *action) for each in held) for action in actions)


def test_what_is_held_is_the_same_as_when_each_combination_is_looked_at() -> None:
    parts = [("a",), ("b",), ("a", "b"), ("*",)]
    rules = [PolicyRule(*each) for each in product(parts, parts, parts)]
    named = [
        PolicyRule(("a",), ("a",), ("a", "b"), ("x",)),
        PolicyRule(("a",), ("a",), ("a",), ("x", "y")),
        PolicyRule(("a",), ("a",), ("a",), ("*",)),
        PolicyRule(("a",), ("a",), ("a",), ("",)),
    ]
    pairs = [(rules[0], rules[21]), (rules[5], rules[36]), (rules[10], named[0])]
    for first, second in [*pairs, (named[0], named[1]), (named[2], named[3])]:
        held = [first, second, rules[-10]]
        for rule in [*rules, *named]:
            assert Held(held).covers(rule) == one_by_one(rule, held), (rule, held)


# --- what holds the interpreter while it is read

MANY = 300_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("application/json", b'{"metadata":{"name":"a"},"x":[%b[]]}' % (b"[]," * MANY)),
        (YAML, b'{"metadata":{"name":"a"},"x":[%b{}]}' % (b"{}," * MANY)),
    ],
)
def test_bodies_with_too_many_lists_and_objects_are_refused(api: Api, form: str, text: bytes) -> None:
    answer = api.ask("POST", MAPS, text, content_type=form)
    assert (answer.code, answer.body["reason"]) == (413, "RequestEntityTooLarge")
    assert answer.body["message"] == "the body has more than 250000 lists and objects: send fewer at a time"


def test_brackets_within_texts_are_not_counted(api: Api) -> None:
    text = '[{\\"' * (MANY // 2)
    assert api.create_map("a", text=text)["data"] == {"text": text}


@pytest.mark.parametrize(("size", "code"), [(262_143, 201), (262_144, 422)])
def test_the_parameters_of_a_class_have_at_most_256_kib(size: int, code: int, api: Api) -> None:
    body = {"metadata": {"name": "a"}, "provisioner": "example.com/a", "parameters": {"a": "x" * size}}
    answer = api.ask("POST", "/apis/storage.k8s.io/v1/storageclasses", body)
    assert answer.code == code
    if code == 422:
        assert answer.body["message"].endswith("parameters: Too long: may not be more than 262144 bytes")


def test_a_number_of_many_digits_in_quotes_is_an_error_of_the_daemon_set(api: Api) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    spec["updateStrategy"] = {"rollingUpdate": {"maxUnavailable": "9" * 5000}}
    answer = api.ask("POST", "/apis/apps/v1/namespaces/default/daemonsets", {"metadata": {"name": "d"}, "spec": spec})
    assert answer.code == 422
