"""Creates, updates and patches, and what the server refuses, asked of the core."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from typing import Any

import pytest

from kilauea.apiserver.dynamic.remote import Target
from kilauea.apiserver.request import make_request
from support.api_core import ADMIN, MAPS, PODS, Api, causes

MERGE, STRATEGIC, JSON_PATCH, APPLY = (
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/json-patch+json",
    "application/apply-patch+yaml",
)
CONTAINER = {"name": "main", "image": "busybox:1"}


def test_a_new_object_gets_what_only_the_server_gives(api: Api) -> None:
    made = api.create_pod("web")
    metadata = made["metadata"]
    assert metadata["creationTimestamp"] == "2023-11-14T22:13:20Z"
    assert len(metadata["uid"]) == 36
    assert metadata["resourceVersion"] == str(api.backend.store.revision)
    assert metadata["namespace"] == "default"
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert made["spec"]["restartPolicy"] == "Always"
    assert metadata["managedFields"][0]["manager"] == "tester"


def test_what_a_client_says_of_server_fields_is_not_believed(api: Api) -> None:
    metadata = {
        "name": "a",
        "uid": "mine",
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "deletionTimestamp": "2001-01-01T00:00:00Z",
    }
    made = api.good("POST", MAPS, {"metadata": metadata})["metadata"]
    assert made["uid"] != "mine"
    assert made["creationTimestamp"] == "2023-11-14T22:13:20Z"
    assert "deletionTimestamp" not in made


def test_a_name_is_made_from_generate_name(api: Api) -> None:
    made = [api.good("POST", MAPS, {"metadata": {"generateName": "job-"}}) for _ in range(3)]
    names = {each["metadata"]["name"] for each in made}
    assert len(names) == 3
    assert all(name.startswith("job-") and len(name) == 9 for name in names)


def test_a_second_object_of_a_name_is_refused(api: Api) -> None:
    api.create_map("a")
    answer = api.ask("POST", MAPS, {"metadata": {"name": "a"}})
    assert (answer.code, answer.body["reason"]) == (409, "AlreadyExists")
    assert answer.body["message"] == 'configmaps "a" already exists'
    assert answer.body["details"] == {"name": "a", "kind": "configmaps"}


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (b"{", 400, "the object provided is unrecognized"),
        (b"[]", 400, "the object provided is unrecognized"),
        ({"kind": "Pod", "metadata": {"name": "a"}}, 400, "cannot be handled as a ConfigMap"),
        (
            {"apiVersion": "apps/v1", "metadata": {"name": "a"}},
            400,
            'no kind "ConfigMap" is registered for version "apps/v1"',
        ),
        ({"metadata": {"name": "a", "namespace": "other"}}, 400, "the namespace of the provided object does not match"),
        ({"metadata": {}}, 422, "name or generateName is required"),
        ({"metadata": {"name": "A"}}, 422, "a lowercase RFC 1123 subdomain"),
        ({"metadata": {"name": "a"}, "data": {"x": 1}}, 400, "json: cannot unmarshal number"),
        ({"metadata": {"name": "a"}, "data": {"x/y": "1"}}, 422, "a valid config key must consist of"),
    ],
)
def test_what_is_wrong_with_a_body_is_told(api: Api, body: Any, code: int, message: str) -> None:
    answer = api.ask("POST", MAPS, body)
    assert answer.code == code
    assert message in answer.body["message"]


def test_all_wrong_fields_of_a_pod_are_told_at_once(api: Api) -> None:
    spec = {
        "containers": [
            {"name": "A", "volumeMounts": [{"name": "none", "mountPath": "/x"}]},
            {"name": "b", "image": "x", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}},
        ],
        "restartPolicy": "Sometimes",
    }
    answer = api.ask("POST", PODS, {"metadata": {"name": "bad"}, "spec": spec})
    assert answer.code == 422
    assert answer.body["message"].startswith('Pod "bad" is invalid: [spec.containers[0].name: Invalid value: "A": ')
    assert causes(answer) == [
        ("spec.containers[0].name", "FieldValueInvalid"),
        ("spec.containers[0].image", "FieldValueRequired"),
        ("spec.containers[0].volumeMounts[0].name", "FieldValueNotFound"),
        ("spec.containers[1].resources.requests", "FieldValueInvalid"),
        ("spec.restartPolicy", "FieldValueNotSupported"),
    ]


@pytest.mark.parametrize(
    ("mode", "code", "warning"),
    [("Ignore", 201, None), ("Warn", 201, '299 - "unknown field \\"spec.foo\\""'), ("Strict", 400, None)],
)
def test_unknown_fields_are_dropped_told_or_refused(api: Api, mode: str, code: int, warning: str | None) -> None:
    body = {"metadata": {"name": "a"}, "spec": {"containers": [CONTAINER], "foo": 1}}
    answer = api.ask("POST", f"{PODS}?fieldValidation={mode}", body)
    assert answer.code == code
    assert answer.headers.get("Warning") == warning
    if code == 201:
        assert "foo" not in answer.body["spec"]
    else:
        assert 'strict decoding error: unknown field "spec.foo"' in answer.body["message"]


def test_a_dry_run_leaves_nothing(api: Api) -> None:
    before = api.backend.store.revision
    made = api.good("POST", f"{MAPS}?dryRun=All", {"metadata": {"name": "a"}})
    assert "uid" in made["metadata"]
    assert api.ask("GET", f"{MAPS}/a").code == 404
    assert api.backend.store.revision == before
    answer = api.ask("POST", f"{MAPS}?dryRun=Some", {"metadata": {"name": "a"}})
    assert (answer.code, causes(answer)) == (422, [("dryRun", "FieldValueNotSupported")])


def test_an_update_of_an_old_revision_is_a_conflict(api: Api) -> None:
    first = api.create_map("a", x="1")
    api.good("PUT", f"{MAPS}/a", {**first, "data": {"x": "2"}})
    answer = api.ask("PUT", f"{MAPS}/a", {**first, "data": {"x": "3"}})
    assert (answer.code, answer.body["reason"]) == (409, "Conflict")
    assert answer.body["message"].startswith(
        'Operation cannot be fulfilled on configmaps "a": the object has been modified;'
    )
    assert api.good("GET", f"{MAPS}/a")["data"] == {"x": "2"}


def test_an_update_without_a_revision_wins_where_the_kind_allows_it(api: Api) -> None:
    api.create_map("a", x="1")
    assert api.good("PUT", f"{MAPS}/a", {"metadata": {"name": "a"}, "data": {"x": "2"}})["data"] == {"x": "2"}
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    api.good("POST", leases, {"metadata": {"name": "l"}})
    answer = api.ask("PUT", f"{leases}/l", {"metadata": {"name": "l"}})
    assert (answer.code, causes(answer)) == (422, [("metadata.resourceVersion", "FieldValueInvalid")])


def test_an_update_that_changes_nothing_writes_nothing(api: Api) -> None:
    first = api.create_map("a", x="1")
    revision = api.backend.store.revision
    again = api.good("PUT", f"{MAPS}/a", first)
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert api.backend.store.revision == revision


def test_an_update_must_name_the_object_of_its_path(api: Api) -> None:
    api.create_map("a")
    assert (
        "does not match the name on the URL (a)"
        in api.ask("PUT", f"{MAPS}/a", {"metadata": {"name": "b"}}).body["message"]
    )
    assert "name must be provided" in api.ask("PUT", f"{MAPS}/a", {"metadata": {}}).body["message"]
    assert api.ask("PUT", f"{MAPS}/none", {"metadata": {"name": "none"}}).code == 404


def test_status_and_specification_are_written_apart(api: Api) -> None:
    pod = api.create_pod("web")
    pod["status"]["phase"] = "Running"
    pod["metadata"]["labels"] = {"a": "b"}
    assert api.good("PUT", f"{PODS}/web", pod)["status"]["phase"] == "Pending"
    pod = api.good("GET", f"{PODS}/web")
    pod["status"]["phase"] = "Running"
    pod["spec"]["containers"][0]["image"] = "other"
    pod = api.good("PUT", f"{PODS}/web/status", pod)
    assert pod["status"]["phase"] == "Running"
    assert pod["spec"]["containers"][0]["image"] == "busybox:1"


def test_the_generation_counts_changes_of_the_specification_only(api: Api) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [CONTAINER]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    made = api.good("POST", path, {"metadata": {"name": "web"}, "spec": spec})
    assert made["metadata"]["generation"] == 1
    labelled = api.good("PATCH", f"{path}/web", {"metadata": {"labels": {"x": "y"}}}, content_type=MERGE)
    assert labelled["metadata"]["generation"] == 1
    scaled = api.good("PATCH", f"{path}/web", {"spec": {"replicas": 3}}, content_type=MERGE)
    assert scaled["metadata"]["generation"] == 2
    reported = api.good("PATCH", f"{path}/web/status", {"status": {"replicas": 3}}, content_type=MERGE)
    assert (reported["metadata"]["generation"], reported["status"]["replicas"]) == (2, 3)


def test_most_of_a_pod_cannot_change(api: Api) -> None:
    api.create_pod("web", nodeSelector={"a": "b"})
    answer = api.ask("PATCH", f"{PODS}/web", {"spec": {"nodeSelector": {"a": "c"}}}, content_type=MERGE)
    assert (answer.code, causes(answer)) == (422, [("spec", "FieldValueForbidden")])
    patch = {"spec": {"containers": [{"name": "main", "image": "busybox:2"}]}}
    assert (
        api.good("PATCH", f"{PODS}/web", patch, content_type=STRATEGIC)["spec"]["containers"][0]["image"] == "busybox:2"
    )


@pytest.mark.parametrize(
    ("form", "patch", "data"),
    [
        (MERGE, {"data": {"a": None, "b": "2"}}, {"b": "2"}),
        (STRATEGIC, {"data": {"b": "2"}}, {"a": "1", "b": "2"}),
        (JSON_PATCH, [{"op": "replace", "path": "/data/a", "value": "3"}], {"a": "3"}),
        (APPLY, {"apiVersion": "v1", "kind": "ConfigMap", "data": {"c": "4"}}, {"a": "1", "c": "4"}),
    ],
)
def test_each_kind_of_patch(api: Api, form: str, patch: Any, data: dict[str, str]) -> None:
    api.create_map("m", a="1")
    assert api.good("PATCH", f"{MAPS}/m?fieldManager=me", patch, content_type=form)["data"] == data


@pytest.mark.parametrize(
    ("form", "patch"),
    [
        (MERGE, {"spec": {"containers": 5, "foo": 1}}),
        (STRATEGIC, {"spec": {"containers": 5, "foo": 1}}),
        (
            JSON_PATCH,
            [
                {"op": "replace", "path": "/spec/containers", "value": 5},
                {"op": "add", "path": "/spec/foo", "value": 1},
            ],
        ),
    ],
)
def test_a_patch_whose_values_do_not_fit_is_refused_with_all_that_it_makes(api: Api, form: str, patch: Any) -> None:
    pod = api.create_pod("web")
    answer = api.ask("PATCH", f"{PODS}/web", patch, content_type=form)
    assert answer.code == 422
    shown = json.loads(json.loads(answer.body["message"].partition("Invalid value: ")[2].partition('}}": ')[0] + '}}"'))
    assert shown == {**pod, "spec": {**pod["spec"], "containers": 5, "foo": 1}}


def test_an_apply_creates_owns_and_conflicts(api: Api) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"x": "1"}}
    made = api.ask("PATCH", f"{MAPS}/m?fieldManager=one", body, content_type=APPLY)
    assert (made.code, made.body["metadata"]["managedFields"][0]["operation"]) == (201, "Apply")
    other = {**body, "data": {"x": "2"}}
    refused = api.ask("PATCH", f"{MAPS}/m?fieldManager=two", other, content_type=APPLY)
    assert (refused.code, causes(refused)) == (409, [(".data.x", "FieldManagerConflict")])
    forced = api.good("PATCH", f"{MAPS}/m?fieldManager=two&force=true", other, content_type=APPLY)
    assert forced["data"] == {"x": "2"}


def test_an_apply_needs_a_manager_and_only_an_apply_forces(api: Api) -> None:
    answer = api.ask("PATCH", f"{MAPS}/m", {"kind": "ConfigMap"}, content_type=APPLY)
    assert (answer.code, causes(answer)) == (422, [("fieldManager", "FieldValueRequired")])
    answer = api.ask("PATCH", f"{MAPS}/m?force=true", {}, content_type=MERGE)
    assert (answer.code, causes(answer)) == (422, [("force", "FieldValueForbidden")])


def test_forms_that_are_not_read_are_refused(api: Api) -> None:
    assert api.ask("PATCH", f"{MAPS}/m", {}, content_type="text/plain").code == 415
    answer = api.ask("POST", MAPS, b"x", content_type="text/plain")
    assert answer.code == 415
    assert "application/json, application/yaml" in answer.body["message"]


def test_a_patch_with_an_old_revision_is_a_conflict(api: Api) -> None:
    first = api.create_map("a", x="1")
    api.good("PATCH", f"{MAPS}/a", {"data": {"x": "2"}}, content_type=MERGE)
    patch = {"metadata": {"resourceVersion": first["metadata"]["resourceVersion"]}, "data": {"x": "3"}}
    assert api.ask("PATCH", f"{MAPS}/a", patch, content_type=MERGE).code == 409


def test_yaml_is_read_and_written(api: Api) -> None:
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: y}\ndata: {a: 'yes'}\n"
    answer = api.ask("POST", MAPS, body, content_type="application/yaml", accept="application/yaml")
    assert answer.code == 201
    assert "\ndata:\n  a: 'yes'\n" in f"\n{answer.body}"


def test_services_get_addresses_of_their_own(api: Api) -> None:
    path = "/api/v1/namespaces/default/services"
    made = [
        api.good("POST", path, {"metadata": {"name": f"s{n}"}, "spec": {"ports": [{"port": 80}], "type": "NodePort"}})
        for n in range(20)
    ]
    assert len({each["spec"]["clusterIP"] for each in made}) == 20
    assert len({each["spec"]["ports"][0]["nodePort"] for each in made}) == 20
    taken = {"clusterIP": made[0]["spec"]["clusterIP"], "ports": [{"port": 80}]}
    answer = api.ask("POST", path, {"metadata": {"name": "t"}, "spec": taken})
    assert (answer.code, causes(answer)) == (422, [("spec.clusterIPs", "FieldValueInvalid")])


SERVICES = "/api/v1/namespaces/default/services"


def node_ports(body: Any) -> list[int]:
    return [each["nodePort"] for each in body["spec"]["ports"]]


def test_ports_of_the_nodes_are_of_their_range(api: Api) -> None:
    ports = [{"port": 80}]
    api.good("POST", SERVICES, {"metadata": {"name": "a"}, "spec": {"type": "NodePort", "ports": ports}})
    outside = {"spec": {"ports": [{"port": 80, "nodePort": 40000}]}}
    made = {"metadata": {"name": "b"}, "spec": {"type": "NodePort", **outside["spec"]}}
    patched = api.ask("PATCH", f"{SERVICES}/a", outside, content_type="application/merge-patch+json")
    for answer in (patched, api.ask("POST", SERVICES, made)):
        assert answer.code == 422
        assert answer.body["message"].endswith(
            "spec.ports[0].nodePort: Invalid value: 40000: provided port is not in the valid range. "
            "The range of valid ports is 30000-32767"
        )


def test_ports_of_one_number_and_two_protocols_share_the_port_of_the_nodes(api: Api) -> None:
    ports = [{"name": "t", "port": 53}, {"name": "u", "port": 53, "protocol": "UDP"}, {"name": "v", "port": 54}]
    made = api.good("POST", SERVICES, {"metadata": {"name": "a"}, "spec": {"type": "NodePort", "ports": ports}})
    first, second, third = node_ports(made)
    assert first == second != third
    chosen = [
        {"name": "t", "port": 53, "nodePort": 30080},
        {"name": "u", "port": 53, "protocol": "UDP", "nodePort": 30080},
    ]
    made = api.good("POST", SERVICES, {"metadata": {"name": "b"}, "spec": {"type": "NodePort", "ports": chosen}})
    assert node_ports(made) == [30080, 30080]
    answer = api.ask("POST", SERVICES, {"metadata": {"name": "c"}, "spec": {"type": "NodePort", "ports": chosen}})
    assert answer.body["message"].endswith(
        "spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated"
    )


def test_many_patches_at_once_all_count(api: Api) -> None:
    """Patches that overtake each other are made again on what the others left."""
    api.create_map("m")

    async def patch(number: int) -> None:
        body = json.dumps({"data": {f"k{number}": "x"}}).encode()
        answer = await api.server.handle(make_request("PATCH", f"{MAPS}/m", {"content-type": MERGE}, body, ADMIN))
        assert answer.status == 200  # type: ignore[union-attr]

    async def all_at_once() -> None:
        await asyncio.gather(*map(patch, range(30)))

    api.run(all_at_once())
    assert len(api.good("GET", f"{MAPS}/m")["data"]) == 30


def test_events_are_the_same_in_both_groups(api: Api) -> None:
    old, new = "/api/v1/namespaces/default/events", "/apis/events.k8s.io/v1/namespaces/default/events"
    event = {
        "metadata": {"name": "e"},
        "eventTime": "2024-01-01T00:00:00.000000Z",
        "reportingController": "volcano",
        "reportingInstance": "volcano-0",
        "action": "Scheduling",
        "reason": "Scheduled",
        "type": "Normal",
        "note": "it fits",
        "regarding": {"kind": "Pod", "name": "web", "namespace": "default"},
    }
    made = api.good("POST", new, event)
    assert (made["apiVersion"], made["note"]) == ("events.k8s.io/v1", "it fits")
    read = api.good("GET", f"{old}/e")
    assert (read["apiVersion"], read["message"], read["involvedObject"]["name"]) == ("v1", "it fits", "web")
    assert read["reportingComponent"] == "volcano"
    assert api.ask("PATCH", f"{new}/e", {"note": "it fits well"}, content_type=MERGE).code == 422
    changed = api.good("PATCH", f"{old}/e", {"message": "it fits well"}, content_type=MERGE)
    assert changed["metadata"]["uid"] == read["metadata"]["uid"]
    assert api.good("GET", old)["items"][0]["message"] == "it fits well"
    for part in ("reportingController=volcano", "reason=Scheduled,type=Normal"):
        assert len(api.good("GET", f"{new}?fieldSelector={part}")["items"]) == 1
    for selector in ("regarding.name=web", "regarding.name=db"):
        found = api.good("GET", f"{new}?fieldSelector={selector}")["items"]
        assert [each["note"] for each in found] == (["it fits well"] if selector.endswith("web") else [])
    watch = api.watch(f"{new}?resourceVersion={api.backend.store.revision}")
    api.good("PUT", f"{old}/e", api.good("GET", f"{old}/e") | {"message": "again"})
    assert watch.next()["object"]["note"] == "again"
    watch.close()


TWICE = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: m\ndata:\n  a: x\n  a: y\n"
AGAIN = 'line 7: key "a" already set in map'


@pytest.mark.parametrize("filling", [b"", b"#" * 20_000], ids=["small", "large"])
def test_a_key_that_is_applied_twice_is_told_of_as_asked(api: Api, filling: bytes) -> None:
    """A large text is read by another process."""
    path, form = f"{MAPS}/m?fieldManager=me", "application/apply-patch+yaml"
    refused = api.ask("PATCH", f"{path}&fieldValidation=Strict", TWICE + filling, content_type=form)
    words = "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:"
    assert (refused.code, refused.body["message"]) == (400, f"{words}\n  {AGAIN}")
    assert api.ask("GET", f"{MAPS}/m").code == 404
    warned = api.ask("PATCH", path, TWICE + filling, content_type=form)
    assert warned.body["data"] == {"a": "y"}
    assert AGAIN.replace('"', '\\"') in warned.headers["Warning"]
    ignored = api.ask("PATCH", f"{path}&fieldValidation=Ignore", TWICE + filling, content_type=form)
    assert "Warning" not in ignored.headers


class WhileAsked:
    """A webhook that allows each object, after a request that a test sends meanwhile."""

    def __init__(self) -> None:
        self.meanwhile: Awaitable[Any] | None = None

    async def post(self, target: Target, body: bytes, seconds: float) -> bytes:
        """Answer a review."""
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            assert (await meanwhile).status == 201
        review = json.loads(body)
        return json.dumps({**review, "response": {"uid": review["request"]["uid"], "allowed": True}}).encode()


@pytest.mark.parametrize("second", [APPLY, "application/json"])
def test_a_client_that_applies_a_new_object_while_another_one_creates_it_changes_it(second: str) -> None:
    hook = WhileAsked()
    api = Api(remote=hook)
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
    client = {"url": "https://example.com/"}
    about = {"name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"]}
    webhooks = [{**about, "rules": [rule], "clientConfig": client}]
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    api.good("POST", path, {"metadata": {"name": "a"}, "webhooks": webhooks})

    def request(form: str, manager: str) -> Any:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {manager: "x"}}
        method, name = ("PATCH", "/m") if form == APPLY else ("POST", "")
        path = f"{MAPS}{name}?fieldManager={manager}"
        return api.server.handle(make_request(method, path, {"content-type": form}, json.dumps(body).encode(), ADMIN))

    hook.meanwhile = request(second, "two")
    answer = api.run(request(APPLY, "one"))
    assert (answer.status, api.good("GET", f"{MAPS}/m")["data"]) == (200, {"one": "x", "two": "x"})
    managers = api.good("GET", f"{MAPS}/m")["metadata"]["managedFields"]
    assert {each["manager"] for each in managers} == {"one", "two"}
    api.close()
