"""Who may do what: roles and bindings, acting as others, tokens of service accounts; asked of the core."""

from __future__ import annotations

import datetime
import tracemalloc
from typing import Any

import pytest

from kilauea.apiserver.account_tokens import AUDIENCE, AccountTokens
from kilauea.apiserver.custom_resources.bundled import install_bundled
from kilauea.apiserver.http.credentials import load_credentials
from kilauea.apiserver.request import GROUP_AUTHENTICATED, User
from support.api_core import MAPS, PODS, START, Answer, Api
from support.definitions import DEFINITIONS, serve

RBAC = "/apis/rbac.authorization.k8s.io/v1"
TOKEN = "/api/v1/namespaces/default/serviceaccounts/default/token"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def person(name: str, *groups: str) -> User:
    return User(name, groups=(*groups, GROUP_AUTHENTICATED))


BOB = person("bob", "staff")


def bind(api: Api, role: str, kind: str, name: str, *, namespace: str = "default", whole_cluster: bool = False) -> None:
    subject = {"kind": kind, "name": name} | ({"namespace": "default"} if kind == "ServiceAccount" else {})
    if kind != "ServiceAccount":
        subject["apiGroup"] = "rbac.authorization.k8s.io"
    where = "clusterrolebindings" if whole_cluster else f"namespaces/{namespace}/rolebindings"
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    api.good(
        "POST",
        f"{RBAC}/{where}",
        {"metadata": {"name": f"{role}-{name}"}, "roleRef": reference, "subjects": [subject]},
    )


def role(api: Api, name: str, *rules: dict[str, Any]) -> None:
    api.good("POST", f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": list(rules)})


def test_who_is_bound_to_nothing_may_look_around_and_no_more(api: Api) -> None:
    assert api.ask("GET", "/api", user=BOB).code == 200
    assert api.ask("GET", "/version", user=BOB).code == 200
    refused = api.ask("GET", f"{PODS}/web", user=BOB)
    assert refused.code == 403
    assert refused.body["message"] == (
        'pods "web" is forbidden: User "bob" cannot get resource "pods" in API group "" in the namespace "default"'
    )
    assert refused.body["details"] == {"name": "web", "kind": "pods"}
    assert api.ask("GET", "/metrics", user=BOB).body["message"] == ('forbidden: User "bob" cannot get path "/metrics"')
    assert "at the cluster scope" in api.ask("GET", "/api/v1/nodes", user=BOB).body["message"]


@pytest.mark.parametrize(("kind", "name"), [("User", "bob"), ("Group", "staff")])
def test_a_binding_gives_a_role_in_its_namespace_only(api: Api, kind: str, name: str) -> None:
    bind(api, "view", kind, name)
    assert api.ask("GET", MAPS, user=BOB).code == 200
    assert api.ask("GET", f"{MAPS}?watch=true&timeoutSeconds=1&resourceVersion=x", user=BOB).code == 500
    assert api.ask("GET", "/api/v1/namespaces/kube-system/configmaps", user=BOB).code == 403
    assert api.ask("GET", "/api/v1/configmaps", user=BOB).code == 403
    assert api.ask("POST", MAPS, {"metadata": {"name": "a"}}, user=BOB).code == 403
    assert api.ask("GET", "/api/v1/namespaces/default/secrets", user=BOB).code == 403


def test_a_binding_of_the_cluster_gives_a_role_everywhere(api: Api) -> None:
    bind(api, "edit", "User", "bob", whole_cluster=True)
    assert api.ask("POST", MAPS, {"metadata": {"name": "a"}}, user=BOB).code == 201
    assert api.ask("GET", "/api/v1/configmaps", user=BOB).code == 200
    assert api.ask("GET", f"{RBAC}/clusterroles", user=BOB).code == 403


def test_rules_can_name_objects_subresources_and_paths(api: Api) -> None:
    role(
        api,
        "narrow",
        {"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["mine"]},
        {"verbs": ["get"], "apiGroups": [""], "resources": ["pods/log"]},
        {"verbs": ["get"], "nonResourceURLs": ["/metrics"]},
    )
    bind(api, "narrow", "User", "bob", whole_cluster=True)
    api.create_pod("web")
    assert api.ask("GET", f"{MAPS}/mine", user=BOB).code == 404
    assert api.ask("GET", f"{MAPS}/other", user=BOB).code == 403
    assert api.ask("GET", f"{PODS}/web/log", user=BOB).code == 204
    assert api.ask("GET", f"{PODS}/web", user=BOB).code == 403
    assert api.ask("GET", "/metrics", user=BOB).code == 200


@pytest.mark.parametrize(
    ("method", "kind", "path"), [("PATCH", "ConfigMap", MAPS), ("PATCH", "Lease", LEASES), ("PUT", "Lease", LEASES)]
)
def test_what_an_apply_or_update_creates_needs_the_right_to_create(api: Api, method: str, kind: str, path: str) -> None:
    version = "v1" if kind == "ConfigMap" else "coordination.k8s.io/v1"
    new = {"apiVersion": version, "kind": kind, "metadata": {"name": "new", "namespace": "default"}}
    headers = {"content_type": "application/apply-patch+yaml"} if method == "PATCH" else {}

    def send() -> Answer:
        return api.ask(method, f"{path}/new?fieldManager=bob", new, user=BOB, **headers)

    kinds = {"apiGroups": ["", "coordination.k8s.io"], "resources": ["configmaps", "leases"]}
    role(api, "changes", {"verbs": ["get", "update", "patch"], **kinds})
    role(api, "creates", {"verbs": ["create"], **kinds, "resourceNames": ["new"]})
    bind(api, "changes", "User", "bob")
    refused = send()
    assert refused.code == 403
    assert 'User "bob" cannot create resource "' in refused.body["message"]
    assert api.ask("GET", f"{path}/new").code == 404
    bind(api, "creates", "User", "bob")
    assert send().code == 201


def test_a_right_ends_with_its_binding(api: Api) -> None:
    bind(api, "view", "User", "bob")
    assert api.ask("GET", MAPS, user=BOB).code == 200
    api.good("DELETE", f"{RBAC}/namespaces/default/rolebindings/view-bob")
    assert api.ask("GET", MAPS, user=BOB).code == 403


def test_reviews_say_what_requests_find(api: Api) -> None:
    bind(api, "view", "User", "bob")

    def may(**attributes: str) -> Any:
        return api.ask("POST", REVIEW, {"spec": {"resourceAttributes": attributes}}, user=BOB).body["status"]

    assert may(verb="list", resource="configmaps", namespace="default") == {
        "allowed": True,
        "reason": 'RBAC: allowed by RoleBinding "view-bob/default" of ClusterRole "view" to User "bob"',
    }
    assert may(verb="create", resource="configmaps", namespace="default") == {"allowed": False}


def test_no_one_gives_away_more_than_they_have(api: Api) -> None:
    bind(api, "admin", "User", "bob")
    roles = f"{RBAC}/namespaces/default/roles"
    own = {"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]}
    assert api.ask("POST", roles, {"metadata": {"name": "a"}, "rules": [own]}, user=BOB).code == 201
    more = {"verbs": ["*"], "apiGroups": [""], "resources": ["configmaps"]}
    refused = api.ask("POST", roles, {"metadata": {"name": "b"}, "rules": [more]}, user=BOB)
    assert refused.code == 403
    assert 'APIGroups:[""], Resources:["configmaps"], Verbs:["*"]' in refused.body["message"]
    subjects = [{"kind": "User", "name": "bob", "apiGroup": "rbac.authorization.k8s.io"}]
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    binding = {"metadata": {"name": "c"}, "roleRef": reference, "subjects": subjects}
    assert api.ask("POST", f"{RBAC}/namespaces/default/rolebindings", binding, user=BOB).code == 403


def test_one_acts_as_another_only_with_the_right_to(api: Api) -> None:
    assert api.ask("GET", PODS, user=BOB, impersonate_user="eve").code == 403
    assert "bob" in api.ask("GET", PODS, user=BOB, impersonate_user="eve").body["message"]
    assert '"eve" cannot list' in api.ask("GET", PODS, impersonate_user="eve").body["message"]
    assert api.ask("GET", PODS, impersonate_user="eve", impersonate_group="system:masters").code == 200
    assert api.ask("GET", PODS, impersonate_group="staff").code == 400
    role(api, "acts", {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"], "resourceNames": ["eve"]})
    bind(api, "acts", "User", "bob", whole_cluster=True)
    assert '"eve" cannot list' in api.ask("GET", PODS, user=BOB, impersonate_user="eve").body["message"]
    assert api.ask("GET", PODS, user=BOB, impersonate_user="eve", impersonate_group="system:masters").code == 403


@pytest.fixture
def tokens(api: Api, tmp_path: Any) -> AccountTokens:
    """Tokens of the accounts of the API, signed by a key on disk."""
    now = datetime.datetime.fromtimestamp(START / 1e6, datetime.UTC)
    key = load_credentials(tmp_path, "127.0.0.1", now).account_key
    api.backend.accounts = AccountTokens(key, api.backend.store, api.backend.now)
    return api.backend.accounts


def test_the_token_of_an_account_makes_its_bearer_that_account(api: Api, tokens: AccountTokens) -> None:
    answer = api.good("POST", TOKEN, {"spec": {}})
    assert answer["status"]["expirationTimestamp"] == "2023-11-14T23:13:20Z"
    assert answer["spec"]["audiences"] == [AUDIENCE]
    user = tokens.user_of(answer["status"]["token"])
    assert user is not None
    assert user.name == "system:serviceaccount:default:default"
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated")
    assert api.ask("GET", MAPS, user=user).code == 403
    bind(api, "view", "ServiceAccount", "default")
    assert api.ask("GET", MAPS, user=user).code == 200


def test_of_a_large_account_little_is_read_for_each_request_with_its_token(api: Api, tokens: AccountTokens) -> None:
    path = "/api/v1/namespaces/default/serviceaccounts"
    secrets = [{"name": f"secret-{number}"} for number in range(20_000)]
    api.good("POST", path, {"metadata": {"name": "large"}, "imagePullSecrets": secrets})
    token = api.good("POST", f"{path}/large/token", {"spec": {}})["status"]["token"]
    assert tokens.user_of(token) is not None
    tracemalloc.start()
    try:
        tokens.user_of(token)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000  # its text, but not the objects in it


def test_tokens_end_with_their_time_their_account_and_what_they_are_bound_to(api: Api, tokens: AccountTokens) -> None:
    api.create_pod("web")
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "web"}
    of_pod = api.good("POST", TOKEN, {"spec": {"boundObjectRef": bound}})["status"]["token"]
    plain = api.good("POST", TOKEN, {"spec": {"expirationSeconds": 600}})["status"]["token"]
    for_others = api.good("POST", TOKEN, {"spec": {"audiences": ["elsewhere"]}})["status"]["token"]
    assert tokens.user_of(of_pod) is not None
    assert tokens.user_of(for_others) is None
    api.good("DELETE", f"{PODS}/web")
    assert tokens.user_of(of_pod) is None
    assert tokens.user_of(plain) is not None
    api.now += 601_000_000
    assert tokens.user_of(plain) is None
    again = api.good("POST", TOKEN, {"spec": {}})["status"]["token"]
    api.good("DELETE", TOKEN.removesuffix("/token"))
    assert tokens.user_of(again) is None


def test_the_token_of_a_pod_tells_its_node(api: Api, tokens: AccountTokens) -> None:
    node = api.good("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}})
    pod = api.create_pod("web", nodeName="n1")
    api.create_pod("lost", nodeName="n2")
    told = extra_of(api, tokens, "Pod", "web")
    assert (told["pod-name"], told["pod-uid"]) == (("web",), (pod["metadata"]["uid"],))
    assert (told["node-name"], told["node-uid"]) == (("n1",), (node["metadata"]["uid"],))
    assert extra_of(api, tokens, "Pod", "lost").get("node-name") == ("n2",)
    assert "node-uid" not in extra_of(api, tokens, "Pod", "lost")


def test_a_token_that_is_bound_to_a_node_ends_with_it(api: Api, tokens: AccountTokens) -> None:
    api.good("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}})
    assert extra_of(api, tokens, "Node", "n1")["node-name"] == ("n1",)
    token = api.good("POST", TOKEN, {"spec": {"boundObjectRef": {"kind": "Node", "name": "n1"}}})["status"]["token"]
    api.good("DELETE", "/api/v1/nodes/n1")
    assert tokens.user_of(token) is None


def extra_of(api: Api, tokens: AccountTokens, kind: str, name: str) -> dict[str, tuple[str, ...]]:
    """What a token that is bound to an object says of its bearer, by the last parts of the keys."""
    made = api.good("POST", TOKEN, {"spec": {"boundObjectRef": {"kind": kind, "name": name}}})
    user = tokens.user_of(made["status"]["token"])
    assert user is not None
    return {key.rpartition("/")[2]: value for key, value in user.extra.items()}


def test_a_token_that_was_changed_is_none(api: Api, tokens: AccountTokens) -> None:
    token = api.good("POST", TOKEN, {"spec": {}})["status"]["token"]
    head, claims, signature = token.split(".")
    for bad in (f"{head}.{claims}.{signature[::-1]}", f"{head}.{claims[:-2]}.{signature}", "x", "a.b.c", "", "é.é.é"):
        assert tokens.user_of(bad) is None


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"expirationSeconds": 5}, "may not specify a duration less than 10 minutes"),
        ({"expirationSeconds": 1 << 40}, "may not specify a duration larger than 2^32 seconds"),
        ({"boundObjectRef": {"kind": "Pod", "name": "none"}}, 'pods "none" not found'),
        ({"audiences": "x"}, "cannot unmarshal string into Go struct field"),
    ],
)
def test_a_token_that_cannot_be_is_refused(api: Api, tokens: AccountTokens, spec: Any, why: str) -> None:
    refused = api.ask("POST", TOKEN, {"spec": spec})
    assert refused.code == (400 if "Go struct" in why else 404 if "not found" in why else 422)
    assert why in refused.body["message"]


def test_the_right_to_pass_requests_on_is_that_of_the_subresource_whatever_the_path(api: Api) -> None:
    role(api, "asks-nodes", {"apiGroups": [""], "resources": ["nodes/proxy"], "verbs": ["get"]})
    bind(api, "asks-nodes", "User", "bob", whole_cluster=True)
    api.good("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}})
    api.create_pod("a")
    assert api.ask("GET", "/api/v1/nodes/n1/proxy/healthz?watch=true", user=BOB).code == 200
    assert api.ask("POST", "/api/v1/nodes/n1/proxy/healthz", user=BOB).code == 403
    assert api.ask("GET", f"{PODS}/a/proxy/healthz", user=BOB).code == 403


@pytest.mark.parametrize(
    "spec",
    [
        {"volumes": [{"name": "v", "secret": {"secretName": "key"}}]},
        {"volumes": [{"name": "v", "projected": {"sources": [{"secret": {"name": "key"}}]}}]},
        {"imagePullSecrets": [{"name": "key"}]},
        {"containers": [{"name": "c", "image": "i", "envFrom": [{"secretRef": {"name": "key"}}]}]},
    ],
)
def test_a_node_reads_the_secrets_that_its_pods_name_and_no_others(api: Api, spec: dict[str, Any]) -> None:
    node, other = (User(f"system:node:{name}", groups=("system:nodes", GROUP_AUTHENTICATED)) for name in ("n1", "n2"))
    secrets = "/api/v1/namespaces/default/secrets"
    for name in ("key", "other"):
        api.good("POST", secrets, {"metadata": {"name": name}})
    assert api.ask("GET", f"{secrets}/key", user=node).code == 403
    api.create_pod("a", nodeName="n1", **spec)
    assert api.ask("GET", f"{secrets}/key", user=node).code == 200
    assert api.ask("GET", f"{secrets}/other", user=node).code == 403
    assert api.ask("GET", f"{secrets}/none", user=node).code == 403
    assert api.ask("DELETE", f"{secrets}/key", user=node).code == 403
    assert api.ask("GET", secrets, user=node).code == 403
    assert api.ask("GET", f"{secrets}/key", user=other).code == 403
    no_node = User("system:node:n1", groups=(GROUP_AUTHENTICATED,))
    assert api.ask("GET", f"{secrets}/key", user=no_node).code == 403


def test_a_name_that_only_begins_like_an_account_is_that_of_a_user(api: Api) -> None:
    rule = {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["serviceaccounts"]}
    role(api, "acts", rule)
    bind(api, "acts", "User", "bob")
    for name in ("system:serviceaccount:default:", "system:serviceaccount:default:A", "system:serviceaccount:default"):
        refused = api.ask("GET", PODS, user=BOB, impersonate_user=name)
        assert refused.code == 403
        assert 'cannot impersonate resource "users" in API group ""' in refused.body["message"], name
    assert (
        "cannot list"
        in api.ask("GET", PODS, user=BOB, impersonate_user="system:serviceaccount:default:a").body["message"]
    )


def test_only_who_may_do_everything_makes_a_role_that_gathers_others(api: Api) -> None:
    own = {"verbs": ["*"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"]}
    role(api, "roles", {**own, "verbs": ["create", "update", "patch", "get"]})
    bind(api, "roles", "User", "bob", whole_cluster=True)
    gathers = {"clusterRoleSelectors": [{"matchLabels": {"any": "one"}}]}
    body = {"metadata": {"name": "all"}, "aggregationRule": gathers, "rules": []}
    refused = api.ask("POST", f"{RBAC}/clusterroles", body, user=BOB)
    assert refused.code == 403
    assert (
        '{APIGroups:["*"], Resources:["*"], Verbs:["*"]}\n{NonResourceURLs:["*"], Verbs:["*"]}'
        in (refused.body["message"])
    )
    merge = {"content_type": "application/merge-patch+json"}
    empty = {"metadata": {"labels": {"any": "one"}}}
    assert api.ask("PATCH", f"{RBAC}/clusterroles/view", empty, user=BOB, **merge).code == 403
    api.good("POST", f"{RBAC}/clusterroles", body)
    assert api.ask("PATCH", f"{RBAC}/clusterroles/all", {"aggregationRule": None}, user=BOB, **merge).code == 403
    bind(api, "cluster-admin", "User", "bob", whole_cluster=True)
    assert api.ask("PATCH", f"{RBAC}/clusterroles/all", {"aggregationRule": None}, user=BOB, **merge).code == 200


@pytest.mark.parametrize(
    ("role_name", "verb", "group", "resource", "allowed"),
    [
        ("view", "get", "", "pods/log", True),
        ("view", "get", "", "secrets", False),
        ("view", "create", "", "pods/exec", False),
        ("view", "list", "resource.k8s.io", "resourceclaims", True),
        ("view", "get", "batch.volcano.sh", "jobs/status", True),
        ("view", "get", "metrics.k8s.io", "pods", True),
        ("edit", "create", "", "pods/attach", True),
        ("edit", "create", "", "pods/exec", True),
        ("edit", "create", "", "pods/portforward", True),
        ("edit", "create", "", "pods/proxy", True),
        ("edit", "create", "", "pods/eviction", True),
        ("edit", "create", "", "pods/binding", False),
        ("edit", "update", "coordination.k8s.io", "leases", True),
        ("edit", "create", "events.k8s.io", "events", True),
        ("edit", "get", "", "services/proxy", True),
        ("edit", "update", "scheduling.volcano.sh", "podgroups", True),
        ("edit", "update", "scheduling.volcano.sh", "queues", False),
        ("edit", "create", "rbac.authorization.k8s.io", "roles", False),
        ("admin", "create", "rbac.authorization.k8s.io", "roles", True),
        ("admin", "update", "", "resourcequotas", False),
    ],
)  # fmt: skip
def test_roles_of_a_namespace(api: Api, role_name: str, verb: str, group: str, resource: str, allowed: bool) -> None:
    bind(api, role_name, "User", "bob")
    plural, _, part = resource.partition("/")
    asked = {"verb": verb, "group": group, "resource": plural, "subresource": part, "namespace": "default"}
    found = api.good("POST", REVIEW, {"spec": {"resourceAttributes": asked}}, user=BOB)
    assert found["status"]["allowed"] is allowed
    found = api.good("POST", REVIEW, {"spec": {"resourceAttributes": {**asked, "namespace": "other"}}}, user=BOB)
    assert found["status"]["allowed"] is False


def test_a_command_to_a_queue_needs_the_right_to_update_it(api: Api) -> None:
    api.run(install_bundled(api.server))
    definitions = {each["metadata"]["name"]: each for each in api.good("GET", DEFINITIONS)["items"]}
    serve(api, definitions["commands.bus.volcano.sh"])
    bind(api, "edit", "User", "bob")
    commands = "/apis/bus.volcano.sh/v1alpha1/namespaces/default/commands"

    def command(kind: str, name: str) -> dict[str, Any]:
        target = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": kind, "name": name, "uid": "u"}
        head = {"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command"}
        return {**head, "metadata": {"generateName": "c-"}, "action": "CloseQueue", "target": target}

    refused = api.ask("POST", commands, command("Queue", "default"), user=BOB)
    assert refused.code == 403
    assert 'user "bob" may not update the queue "default", which the command is for' in refused.body["message"]
    made = api.good("POST", commands, command("Job", "mine"), user=BOB)
    changed = {"target": command("Queue", "default")["target"]}
    where = f"{commands}/{made['metadata']['name']}"
    assert api.ask("PATCH", where, changed, user=BOB, content_type="application/merge-patch+json").code == 403
    rule = {"verbs": ["update"], "apiGroups": ["scheduling.volcano.sh"], "resources": ["queues"]}
    role(api, "queue", {**rule, "resourceNames": ["default"]})
    bind(api, "queue", "User", "bob", whole_cluster=True)
    api.good("POST", commands, command("Queue", "default"), user=BOB)
    assert api.ask("POST", commands, command("Queue", "other"), user=BOB).code == 403
