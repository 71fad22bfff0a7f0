"""Definitions at a server: their kinds come, change and go, and objects of them are checked."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kilauea.api.crds import KINDS
from kilauea.apiserver.backend import Backend
from kilauea.apiserver.core import ApiServer
from kilauea.apiserver.custom_resources.bundled import SELF, install_bundled
from kilauea.apiserver.protobuf import PROTOBUF
from kilauea.apiserver.request import ApiRequest, ApiResponse
from kilauea.apiserver.resources.builtin import builtin_types
from kilauea.apiserver.resources.registry import Registry
from kilauea.apiserver.schema import apply_defaults, from_openapi, prune
from kilauea.apiserver.storage import Store
from kilauea.runtime.cluster.in_process import Definitions

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
START = 1_800_000_000_000_000


class Api:
    """A server in memory with a controller of definitions."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server

    async def ask(
        self, method: str, path: str, body: Any = None, form: str = "application/json", accept: str = ""
    ) -> tuple[int, Any]:
        path, _, query = path.partition("?")
        pairs = [tuple(each.split("=", 1)) for each in query.split("&") if each]
        headers = {"content-type": form, "accept": accept}
        data = b"" if body is None else msgspec.json.encode(body)
        answer = await self.server.handle(ApiRequest(method, path, pairs, headers, data, SELF))  # type: ignore[arg-type]
        assert isinstance(answer, ApiResponse)
        text = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
        return answer.status, msgspec.json.decode(text) if answer.content_type.startswith("application/json") else text

    async def until(self, path: str, wanted: Callable[[int, Any], bool]) -> Any:
        """Ask again until an answer is as wanted."""
        code, body = await self.ask("GET", path)
        for _ in range(200):
            if wanted(code, body):
                return body
            await asyncio.sleep(0.01)
            code, body = await self.ask("GET", path)
        raise AssertionError(f"{path}: {code} {body}")


def run(scenario: Callable[[Api], Awaitable[None]], *, bundled: bool = False) -> None:
    async def body() -> None:
        store = await Store.open(None)
        server = ApiServer(Backend(store, Registry(builtin_types()), lambda: START, Random(1)))
        controller = Definitions(server)
        if bundled:
            await install_bundled(server)
        await controller.start()
        api = Api(server)
        await api.ask(
            "POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
        )
        try:
            async with asyncio.timeout(30):
                await scenario(api)
        finally:
            await controller.stop()
            await store.close()

    asyncio.run(body())


ESTABLISHED = {"type": "Established", "status": "True", "reason": "InitialNamesAccepted"}
NAMES_ACCEPTED = {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts"}
PART = {"type": "object", "properties": {"n": {"type": "integer", "default": 7}}}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "minimum": 1, "default": 1},
                "name": {"type": "string"},
                "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                "parts": {"type": "object", "additionalProperties": PART},
            },
        },
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
    },
}


def crd(plural: str = "widgets", kind: str = "Widget", *, status: bool = True, **names: Any) -> dict[str, Any]:
    version: dict[str, Any] = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}
    if status:
        version["subresources"] = {"status": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind, **names},
            "versions": [version],
        },
    }


def widget(name: str = "w", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec}


def conditions(body: Any) -> dict[str, tuple[str, str]]:
    found = (body.get("status") or {}).get("conditions") or []
    return {each["type"]: (each["status"], each["reason"]) for each in found}


def established(code: int, body: Any) -> bool:
    return code == 200 and conditions(body).get("Established", ("", ""))[0] == "True"


async def define(api: Api, definition: dict[str, Any]) -> Any:
    code, _ = await api.ask("POST", CRDS, definition)
    assert code == 201
    return await api.until(f"{CRDS}/{definition['metadata']['name']}", established)


def test_a_definition_is_accepted_established_and_its_kind_is_served() -> None:
    async def scenario(api: Api) -> None:
        assert (await api.ask("GET", WIDGETS))[0] == 404
        body = await define(api, crd(shortNames=["wd"], categories=["all"]))
        assert conditions(body) == {
            "NamesAccepted": ("True", "NoConflicts"),
            "Established": ("True", "InitialNamesAccepted"),
        }
        assert body["status"]["acceptedNames"] == {
            "plural": "widgets",
            "singular": "widget",
            "shortNames": ["wd"],
            "kind": "Widget",
            "listKind": "WidgetList",
            "categories": ["all"],
        }
        assert body["status"]["storedVersions"] == ["v1"]
        _, found = await api.ask("GET", "/apis/example.com/v1")
        assert [each["name"] for each in found["resources"]] == ["widgets", "widgets/status"]
        _, many = await api.ask("GET", WIDGETS)
        assert (many["kind"], many["items"]) == ("WidgetList", [])

    run(scenario)


def test_openapi_v2_says_nothing_of_fields_beside_those_that_are_open() -> None:
    open_part = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {"a": {"type": "string"}},
    }

    async def scenario(api: Api) -> None:
        for plural, kind, schema in (
            ("opens", "Open", {"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
            ("parts", "Part", {"type": "object", "properties": {"spec": open_part}}),
        ):
            definition = crd(plural, kind, status=False)
            definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema
            await api.ask("POST", CRDS, definition)
            await api.until(f"/apis/example.com/v1/namespaces/default/{plural}", lambda code, _: code == 200)
        _, body = await api.ask("GET", "/openapi/v2")
        whole, part = (body["definitions"][f"com.example.v1.{kind}"] for kind in ("Open", "Part"))
        assert set(whole) == {"type", "x-kubernetes-group-version-kind"}
        assert part["properties"]["spec"] == {"x-kubernetes-preserve-unknown-fields": True}
        assert {"apiVersion", "kind", "metadata"} <= set(part["properties"])

    run(scenario)


def test_a_method_that_custom_resources_do_not_have_is_refused_by_their_name() -> None:
    async def scenario(api: Api) -> None:
        await define(api, crd())
        for method, path, verb in (("DELETE", f"{WIDGETS}/w/status", "delete"), ("OPTIONS", WIDGETS, "")):
            code, body = await api.ask(method, path)
            assert (code, body["details"]) == (405, {"group": "example.com", "kind": "widgets"})
            assert body["message"] == f'{verb} is not supported on resources of kind "widgets.example.com"'

    run(scenario)


def test_custom_resources_have_no_protobuf_form() -> None:
    async def scenario(api: Api) -> None:
        await api.ask("POST", CRDS, crd())
        await api.until(WIDGETS, lambda code, _: code == 200)
        assert (await api.ask("GET", WIDGETS, accept=PROTOBUF))[0] == 406
        assert (await api.ask("GET", WIDGETS, accept=f"{PROTOBUF},application/json"))[0] == 200

    run(scenario)


def test_objects_are_pruned_filled_in_and_checked() -> None:
    async def scenario(api: Api) -> None:
        await define(api, crd())
        code, made = await api.ask("POST", WIDGETS, widget(junk=1, tags=None, parts={"a": {}}))
        assert code == 201
        assert made["spec"] == {"size": 1, "parts": {"a": {"n": 7}}}
        assert made["metadata"]["generation"] == 1
        code, refusal = await api.ask("POST", WIDGETS, widget("x", size=0, tags=["a", "a"]))
        assert code == 422
        assert refusal["message"] == (
            'Widget.example.com "x" is invalid: [spec.size: Invalid value: 0: spec.size in body should be greater than '
            'or equal to 1, spec.tags[1]: Duplicate value: "a"]'
        )
        code, refusal = await api.ask("POST", f"{WIDGETS}?fieldValidation=Strict", widget("y", junk=1))
        assert (code, 'unknown field "spec.junk"' in refusal["message"]) == (400, True)

    run(scenario)


def test_the_status_is_written_through_its_subresource_only() -> None:
    async def scenario(api: Api) -> None:
        await define(api, crd())
        await api.ask("POST", WIDGETS, {**widget(), "status": {"phase": "lost"}})
        merge = "application/merge-patch+json"
        patch = {"metadata": {"labels": {"a": "b"}}, "spec": {"size": 5}, "status": {"phase": "Ready"}}
        code, changed = await api.ask("PATCH", f"{WIDGETS}/w/status", patch, merge)
        assert code == 200
        assert (changed["spec"]["size"], changed["status"]) == (1, {"phase": "Ready"})
        assert "labels" not in changed["metadata"]
        assert changed["metadata"]["generation"] == 1
        code, refusal = await api.ask("PATCH", f"{WIDGETS}/w/status", {"status": {"phase": 1}}, merge)
        assert code == 422
        assert [each["field"] for each in refusal["details"]["causes"]] == ["status.phase"]

    run(scenario)


def test_without_the_subresource_the_status_counts_as_a_change() -> None:
    async def scenario(api: Api) -> None:
        await define(api, crd(status=False))
        await api.ask("POST", WIDGETS, widget())
        merge = "application/merge-patch+json"
        code, changed = await api.ask("PATCH", f"{WIDGETS}/w", {"status": {"phase": "Ready"}}, merge)
        assert (code, changed["status"], changed["metadata"]["generation"]) == (200, {"phase": "Ready"}, 2)
        assert (await api.ask("PATCH", f"{WIDGETS}/w/status", {}, merge))[0] == 404

    run(scenario)


def test_a_kind_is_served_as_soon_as_its_definition_shows_as_established() -> None:
    async def scenario(api: Api) -> None:
        await api.ask("POST", CRDS, crd())
        named = {"acceptedNames": crd()["spec"]["names"], "conditions": [ESTABLISHED, NAMES_ACCEPTED]}
        path = f"{CRDS}/widgets.example.com"
        code, body = await api.ask("PATCH", f"{path}/status", {"status": named}, "application/merge-patch+json")
        assert established(code, body)
        assert (await api.ask("GET", WIDGETS))[0] == 200

    run(scenario)


def test_a_condition_that_a_client_wrote_without_a_time_gets_one() -> None:
    async def scenario(api: Api) -> None:
        await api.ask("POST", CRDS, crd())
        path, merge = f"{CRDS}/widgets.example.com", "application/merge-patch+json"
        await api.ask("PATCH", f"{path}/status", {"status": {"conditions": [NAMES_ACCEPTED]}}, merge)
        body = await api.until(path, established)
        assert all(each["lastTransitionTime"] for each in body["status"]["conditions"])

    run(scenario)


def test_a_stored_definition_that_cannot_be_served_does_not_keep_others_from_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(api: Api) -> None:
        store = api.server.backend.store
        nameless = crd() | {"status": {"conditions": [ESTABLISHED, NAMES_ACCEPTED]}}
        nameless["metadata"] |= {"resourceVersion": str(store.revision + 1), "uid": "1"}
        key = "/apiextensions.k8s.io/customresourcedefinitions/widgets.example.com"
        await store.write(key, 0, lambda _: msgspec.json.encode(nameless))
        await define(api, crd("gadgets", "Gadget"))
        assert (await api.ask("GET", "/apis/example.com/v1/gadgets"))[0] == 200

    run(scenario)
    assert "CustomResourceDefinition widgets.example.com cannot be served" in caplog.text


def test_a_name_that_is_taken_is_not_accepted_until_it_is_free() -> None:
    async def scenario(api: Api) -> None:
        await define(api, crd())
        await api.ask("POST", CRDS, crd("gadgets", "Widget"))
        path = f"{CRDS}/gadgets.example.com"
        body = await api.until(path, lambda _, found: bool(conditions(found)))
        assert conditions(body) == {
            "NamesAccepted": ("False", "ListKindConflict"),
            "Established": ("False", "NotAccepted"),
        }
        assert (await api.ask("GET", "/apis/example.com/v1/gadgets"))[0] == 404
        await api.ask("DELETE", f"{CRDS}/widgets.example.com")
        await api.until(path, established)
        assert (await api.ask("GET", "/apis/example.com/v1/gadgets"))[0] == 200

    run(scenario)


def test_a_definition_goes_when_its_instances_are_gone() -> None:
    async def scenario(api: Api) -> None:
        await define(api, crd())
        held = widget("held")
        held["metadata"]["finalizers"] = ["example.com/hold"]
        for each in (widget("free"), held):
            assert (await api.ask("POST", WIDGETS, each))[0] == 201
        path = f"{CRDS}/widgets.example.com"
        await api.ask("DELETE", path)
        progress = ("True", "InstanceDeletionInProgress")
        body = await api.until(path, lambda _, found: conditions(found).get("Terminating") == progress)
        assert body["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
        await api.until(f"{WIDGETS}/free", lambda code, _: code == 404)
        code, refusal = await api.ask("POST", WIDGETS, widget("late"))
        assert (code, "create not allowed while custom resource definition is terminating" in refusal["message"]) == (
            403,
            True,
        )
        merge = "application/merge-patch+json"
        await api.ask("PATCH", f"{WIDGETS}/held", {"metadata": {"finalizers": None}}, merge)
        await api.until(path, lambda code, _: code == 404)
        await api.until(WIDGETS, lambda code, _: code == 404)

    run(scenario)


def test_the_kind_and_the_scope_of_an_established_definition_stay() -> None:
    async def scenario(api: Api) -> None:
        body = await define(api, crd())
        body["spec"]["scope"], body["spec"]["names"]["kind"] = "Cluster", "Gadget"
        code, refusal = await api.ask("PUT", f"{CRDS}/widgets.example.com", body)
        assert code == 422
        assert [each["field"] for each in refusal["details"]["causes"]] == ["spec.scope", "spec.names.kind"]

    run(scenario)


def test_a_changed_schema_holds_at_once_but_not_against_what_is_there() -> None:
    async def scenario(api: Api) -> None:
        body = await define(api, crd())
        await api.ask("POST", WIDGETS, widget(size=2))
        schema = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        schema["properties"]["spec"]["properties"]["size"]["maximum"] = 1
        assert (await api.ask("PUT", f"{CRDS}/widgets.example.com", body))[0] == 200
        await asyncio.sleep(0.05)
        merge = "application/merge-patch+json"
        assert (await api.ask("POST", WIDGETS, widget("x", size=2)))[0] == 422
        assert (await api.ask("PATCH", f"{WIDGETS}/w", {"spec": {"name": "n"}}, merge))[0] == 200
        assert (await api.ask("PATCH", f"{WIDGETS}/w", {"spec": {"size": 3}}, merge))[0] == 422

    run(scenario)


def test_what_is_stored_gets_a_default_that_came_later() -> None:
    """In a get, a list and a change; what was stored with an older default keeps it."""

    async def scenario(api: Api) -> None:
        await define(api, crd())
        path = f"{CRDS}/widgets.example.com"
        assert (await api.ask("POST", WIDGETS, widget("old", size=1)))[0] == 201
        colour = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/colour"
        added = [{"op": "add", "path": colour, "value": {"type": "string", "default": "red"}}]
        assert (await api.ask("PATCH", path, added, "application/json-patch+json"))[0] == 200
        await api.until(f"{WIDGETS}/old", lambda _, body: body["spec"].get("colour") == "red")
        assert (await api.ask("GET", WIDGETS))[1]["items"][0]["spec"]["colour"] == "red"
        assert (await api.ask("POST", WIDGETS, widget("new", size=1)))[1]["spec"]["colour"] == "red"
        changed = [{"op": "replace", "path": f"{colour}/default", "value": "blue"}]
        assert (await api.ask("PATCH", path, changed, "application/json-patch+json"))[0] == 200
        await api.until(f"{WIDGETS}/old", lambda _, body: body["spec"]["colour"] == "blue")
        found = (await api.ask("GET", WIDGETS))[1]["items"]
        assert {each["metadata"]["name"]: each["spec"]["colour"] for each in found} == {"old": "blue", "new": "red"}
        merged = await api.ask("PATCH", f"{WIDGETS}/old", {"spec": {"size": 2}}, "application/merge-patch+json")
        assert merged[1]["spec"]["colour"] == "blue"

    run(scenario)


def test_the_volcano_kinds_are_served_from_the_beginning() -> None:
    async def scenario(api: Api) -> None:
        for kind in KINDS:
            _, body = await api.ask("GET", f"{CRDS}/{kind.name}")
            assert conditions(body)["Established"][0] == "True", kind.name
            assert (await api.ask("GET", f"/apis/{kind.resource.api_version}/{kind.resource.plural}"))[0] == 200
        _, groups = await api.ask("GET", "/apis")
        custom = [each["name"] for each in groups["groups"] if each["name"].endswith(".volcano.sh")]
        assert custom == sorted(custom)

    run(scenario, bundled=True)


JOB = yaml.safe_load("""
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: train}
spec:
  minAvailable: 2
  schedulerName: volcano
  plugins: {ssh: [], svc: []}
  policies: [{events: [PodEvicted, "*"], action: RestartJob, timeout: 10s}]
  tasks:
  - name: worker
    replicas: 2
    template:
      spec:
        containers: [{name: c, image: busybox, ports: [{containerPort: 22}], resources: {requests: {cpu: 1}}}]
""")
HYPERNODE = yaml.safe_load("""
apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNode
metadata: {name: leaf}
spec: {tier: 1, members: [{type: Node, selector: {exactMatch: {name: node-0}}}]}
""")
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
HYPERNODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"


@pytest.mark.parametrize(
    ("path", "base", "where", "value", "field"),
    [
        (JOBS, JOB, "spec.minAvailable", -1, "spec.minAvailable"),
        (JOBS, JOB, "spec.queue", "Bad_Queue", "spec.queue"),
        (JOBS, JOB, "spec.tasks", [], "spec.tasks"),
        (JOBS, JOB, "spec.tasks.0.replicas", "two", "spec.tasks[0].replicas"),
        (JOBS, JOB, "spec.policies.0.event", "Nope", "spec.policies[0].event"),
        (JOBS, JOB, "spec.networkTopology", {"mode": "medium"}, "spec.networkTopology.mode"),
        (JOBS, JOB, "spec.tasks.0.template.spec", {}, "spec.tasks[0].template.spec.containers"),
        (
            JOBS,
            JOB,
            "spec.tasks.0.template.spec.containers",
            [{"name": "c"}, {"name": "c"}],
            "spec.tasks[0].template.spec.containers[1]",
        ),
        (HYPERNODES, HYPERNODE, "spec.tier", -1, "spec.tier"),
        (HYPERNODES, HYPERNODE, "spec.members.0.type", "Rack", "spec.members[0].type"),
    ],
)
def test_a_wrong_volcano_object_is_refused_at_its_field(
    path: str, base: dict[str, Any], where: str, value: Any, field: str
) -> None:
    wrong = copy.deepcopy(base)
    at: Any = wrong
    *steps, last = where.split(".")
    for step in steps:
        at = at[int(step)] if isinstance(at, list) else at[step]
    at[last] = value

    async def scenario(api: Api) -> None:
        assert (await api.ask("POST", path, base))[0] == 201
        wrong["metadata"]["name"] = "wrong"
        code, refusal = await api.ask("POST", path, wrong)
        assert code == 422
        assert field in [each["field"] for each in refusal["details"]["causes"]]

    run(scenario, bundled=True)


def test_a_member_of_a_hypernode_has_exactly_one_selector() -> None:

    async def scenario(api: Api) -> None:
        for selector, words in (
            ({}, "Either ExactMatch or RegexMatch or LabelMatch must be specified"),
            (
                {"exactMatch": {"name": "a"}, "regexMatch": {"pattern": "b"}},
                "Only one of ExactMatch, RegexMatch, or LabelMatch can be specified",
            ),
        ):
            wrong = copy.deepcopy(HYPERNODE)
            wrong["spec"]["members"][0]["selector"] = selector
            code, refusal = await api.ask("POST", HYPERNODES, wrong)
            assert code == 422
            assert refusal["details"]["causes"] == [
                {
                    "reason": "FieldValueInvalid",
                    "message": f"Invalid value: {words}",
                    "field": "spec.members[0].selector",
                }
            ]

    run(scenario, bundled=True)


def test_a_job_is_shown_in_the_columns_of_volcano() -> None:
    async def scenario(api: Api) -> None:
        await api.ask("POST", JOBS, JOB)
        await api.ask(
            "PATCH",
            f"{JOBS}/train/status",
            {"status": {"state": {"phase": "Running"}, "minAvailable": 2, "running": 1}},
            "application/merge-patch+json",
        )
        _, table = await api.ask("GET", JOBS, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
        names = [(each["name"], each["priority"]) for each in table["columnDefinitions"]]
        assert names == [("Name", 0), ("STATUS", 0), ("minAvailable", 0), ("RUNNINGS", 0), ("AGE", 0), ("QUEUE", 1)]
        assert table["rows"][0]["cells"] == ["train", "Running", 2, 1, "0s", "default"]

    run(scenario, bundled=True)


def test_openapi_describes_custom_kinds_with_their_metadata() -> None:
    async def scenario(api: Api) -> None:
        _, document = await api.ask("GET", "/openapi/v3/apis/batch.volcano.sh/v1alpha1")
        schema = document["components"]["schemas"]["sh.volcano.batch.v1alpha1.Job"]
        mark = {"group": "batch.volcano.sh", "version": "v1alpha1", "kind": "Job"}
        assert schema["x-kubernetes-group-version-kind"] == [mark]
        assert schema["properties"]["metadata"]["allOf"][0]["$ref"].endswith("ObjectMeta")
        assert "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta" in document["components"]["schemas"]
        assert "sh.volcano.batch.v1alpha1.JobList" in document["components"]["schemas"]
        assert schema["properties"]["apiVersion"]["description"].startswith("APIVersion defines the versioned schema")
        assert schema["properties"]["metadata"]["description"].startswith("Standard object's metadata.")

    run(scenario, bundled=True)


# --- laws

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["size", "name", "tags", "parts", "n", "x"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(VALUES)
def test_pruning_and_filling_in_once_more_changes_nothing(spec: Any) -> None:
    schema = from_openapi(SCHEMA)
    obj = {"metadata": {"name": "a"}, "spec": spec}
    prune(schema, obj)
    apply_defaults(schema, obj)
    again = copy.deepcopy(obj)
    prune(schema, again)
    apply_defaults(schema, again)
    assert again == obj


@pytest.mark.parametrize(
    "spec",
    [
        None,
        {},
        {"group": "example.com", "names": None, "scope": "Namespaced", "versions": None},
        {"group": "example.com", "names": {"plural": "widgets"}, "versions": [{}]},
        {"versions": [{"name": "v1", "served": True, "storage": True, "schema": {}}]},
        *(
            {"versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]}
            for schema in (
                {},
                {"type": "object", "properties": {"a": {"type": "array", "items": 5}}},
                {"type": "object", "properties": {"a": {"type": "array", "items": [{"type": "string"}]}}},
                {"type": "object", "properties": {"a": {"type": "object", "additionalProperties": "x"}}},
                {"type": "object", "properties": {"a": None}},
                {"type": "object", "properties": {"a": {"type": "array", "items": {"type": 5}}}},
                {"type": "object", "properties": {"a": {"type": "array", "items": {"properties": 5}}}},
                {"type": "object", "properties": {"a": {"type": "array", "items": {"required": [1], "anyOf": 2}}}},
                {"type": "object", "properties": {"a": {"type": "string", "pattern": "[", "default": "b"}}},
                {"type": "object", "x-kubernetes-validations": [{}]},
                {"type": "object", "x-kubernetes-validations": [None]},
                {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object", "anyOf": None}}}},
                {
                    "type": "object",
                    "properties": {"a": {"type": "array", "items": {"type": "object", "properties": None}}},
                },
                {"type": "object", "not": 5},
            )
        ),
    ],
)
def test_a_definition_without_sense_is_refused_and_not_a_fault_of_the_server(spec: Any) -> None:
    async def scenario(api: Api) -> None:
        wrong = crd()
        wrong["spec"] = {**wrong["spec"], **spec} if spec and "group" not in spec else spec
        code, refusal = await api.ask("POST", CRDS, wrong)
        assert code in (400, 422), refusal
        await define(api, crd("others", "Other"))

    run(scenario)
