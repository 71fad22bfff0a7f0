"""OpenAPI v3 and v2 of the kinds that are served: what `kubectl explain` reads, and how clients learn what to send."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kilauea.apiserver import status
from kilauea.apiserver.aggregator.openapi import merged
from kilauea.apiserver.aggregator.services import Aggregator, Found
from kilauea.apiserver.crd.describe import described, in_older_form, with_descriptions
from kilauea.apiserver.protobuf.openapi import encode_document
from kilauea.apiserver.request import ApiRequest, ApiResponse
from kilauea.apiserver.resources.registry import Registry
from kilauea.apiserver.resources.types import ResourceType
from kilauea.apiserver.schema import definition_name, kubernetes_version, openapi_definitions

_STATUS = "io.k8s.apimachinery.pkg.apis.meta.v1.Status"
_REFERENCE = re.compile(r'"#/components/schemas/([^"]+)"')
_ACTIONS = {"get": "get", "update": "put", "patch": "patch", "delete": "delete"}
_ALL_ACTIONS = {"list": "get", "create": "post", "deletecollection": "delete"}
_JSON = "application/json"
_V2_PROTO = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


class OpenApi:
    """The documents, kept until the kinds change."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._kept: dict[str, bytes] = {}
        self._generation = (-1, -1)
        self._others: Mapping[tuple[str, str], Found] = {}

    def answer(self, path: str, request: ApiRequest, aggregator: Aggregator | None = None) -> ApiResponse | None:
        """The document at a path below `/openapi`; None if there is none."""
        generation = (self._registry.generation, aggregator.generation if aggregator is not None else 0)
        if self._generation != generation:
            self._kept.clear()
            self._generation = generation
            self._others = aggregator.found if aggregator is not None else {}
        name, accept = path.removeprefix("/openapi/"), request.headers.get("accept", "") or _JSON
        if name == "v2" and accept.startswith(_V2_PROTO):
            name, media = _V2_PROTO, _V2_PROTO.replace("@", ".")
        elif "json" in accept or "*/*" in accept:
            media = _JSON
        else:
            raise status.not_acceptable([_JSON])
        body = self._document(name)
        if body is None:
            return None
        tag = f'"{_hash(body)}"'
        headers = [("Etag", tag), ("Vary", "Accept")]
        if request.headers.get("if-none-match") == tag:
            return ApiResponse(304, b"", headers=headers)
        return ApiResponse(200, body, media, headers)

    def _document(self, name: str) -> bytes | None:
        if name not in self._kept:
            if name == _V2_PROTO:
                return self._kept.setdefault(name, encode_document(self._v2_of_all()))
            if (body := self._of_others().get(name.removeprefix("v3/"))) and name.startswith("v3/"):
                return body
            document = self._make(name)
            if document is None:
                return None
            self._kept[name] = msgspec.json.encode(document)
        return self._kept[name]

    def _make(self, name: str) -> dict[str, Any] | None:
        if name == "v2":
            return self._v2_of_all()
        if name == "v3":
            return {"paths": {path: {"serverRelativeURL": self._url(path)} for path in self._group_paths()}}
        path = name.removeprefix("v3/")
        types = self._types_at(path)
        if not types:
            return None
        document = self._v3(types)
        schemas = document["components"]["schemas"]
        document["components"]["schemas"] = {name: with_descriptions(name, raw) for name, raw in schemas.items()}
        return document

    def _url(self, path: str) -> str:
        body = self._document(f"v3/{path}") or b""
        return f"/openapi/v3/{path}?hash={_hash(body)}"

    def _group_paths(self) -> list[str]:
        """`api/v1`, `apis/apps/v1` and so on."""
        return list(dict.fromkeys([*(_group_path(each) for each in self._registry), *self._of_others()]))

    def _of_others(self) -> dict[str, bytes]:
        """The documents of other servers, by such paths."""
        return {f"apis/{group}/{version}": each.v3 for (group, version), each in self._others.items() if each.v3}

    def _v2_of_all(self) -> dict[str, Any]:
        """The description in the older form, of this server and others."""
        others = [each.v2 for each in self._others.values() if each.v2 is not None]
        return merged(self._v2(), others) if others else self._v2()

    def _types_at(self, path: str) -> list[ResourceType]:
        return [each for each in self._registry if _group_path(each) == path]

    def _v3(self, types: list[ResourceType]) -> dict[str, Any]:
        """The description of one version of a group, without the descriptions of built-in fields."""
        schemas: dict[str, Any] = {}
        paths: dict[str, Any] = {}
        for each in types:
            name = schema_name(each)
            schemas.update(_schemas_of(each, name))
            paths.update(_paths_of(each, name))
        return {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": kubernetes_version()},
            "paths": paths,
            "components": {"schemas": dict(sorted(schemas.items())), "securitySchemes": _SECURITY},
        }

    def _v2(self) -> dict[str, Any]:
        """The description of everything in the older form."""
        paths: dict[str, Any] = {}
        schemas: dict[str, Any] = {}
        for path in self._group_paths():
            document = self._v3(self._types_at(path))
            paths |= document["paths"]
            schemas |= document["components"]["schemas"]
        for each in self._registry:
            if each.is_custom:
                name = schema_name(each)
                schemas[name] = in_older_form(schemas[name])
        out = {
            "swagger": "2.0",
            "info": {"title": "Kubernetes", "version": kubernetes_version()},
            "paths": {key: _v2_path(value) for key, value in paths.items()},
            "definitions": {key: _v2_schema(value) for key, value in schemas.items()},
            "securityDefinitions": _SECURITY,
        }
        text = msgspec.json.encode(out).replace(b"#/components/schemas/", b"#/definitions/")
        decoded: dict[str, Any] = msgspec.json.decode(text)
        return decoded


_SECURITY = {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}}


def _hash(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest().upper()


def _group_path(resource: ResourceType) -> str:
    return f"apis/{resource.group}/{resource.version}" if resource.group else f"api/{resource.version}"


def schema_name(resource: ResourceType) -> str:
    """The name of the schema of a kind: that of Kubernetes, or for other kinds the reversed group."""
    if not resource.is_custom and resource.told_schema is None:
        return definition_name(resource.group, resource.version, resource.kind)
    group = resource.group or "core.api.k8s.io"
    return ".".join([*reversed(group.split(".")), resource.version, resource.kind])


def _schemas_of(resource: ResourceType, name: str) -> dict[str, Any]:
    """The schema of a kind and all that it refers to."""
    definitions = openapi_definitions()
    found: dict[str, Any]
    if resource.is_custom or resource.told_schema is not None:
        found = dict(described(resource, name))
    else:
        gvk = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        found = {name: {**resource.schema.raw, "x-kubernetes-group-version-kind": [gvk]}}
        if (many := f"{name}List") in definitions:
            of_list = {**gvk, "kind": resource.kind_of_list}
            found[many] = {**definitions[many], "x-kubernetes-group-version-kind": [of_list]}
    found[_STATUS] = definitions[_STATUS]
    waiting = list(found.values())
    while waiting:
        for reference in _references(waiting.pop()):
            if reference not in found and reference in definitions:
                found[reference] = definitions[reference]
                waiting.append(found[reference])
    return found


def _references(raw: Mapping[str, Any]) -> Iterable[str]:
    """The names of the schemas that one refers to."""
    return dict.fromkeys(_REFERENCE.findall(msgspec.json.encode(raw).decode()))


# --- paths


def _parameter(name: str, kind: str = "string", *, place: str = "query") -> dict[str, Any]:
    out: dict[str, Any] = {"name": name, "in": place, "schema": {"type": kind, "uniqueItems": True}}
    return out | ({"required": True} if place == "path" else {})


_WRITE = [_parameter(name) for name in ("dryRun", "fieldManager", "fieldValidation")]
_LIST = [
    *(
        _parameter(name)
        for name in ("continue", "fieldSelector", "labelSelector", "resourceVersion", "resourceVersionMatch")
    ),
    *(_parameter(name, "integer") for name in ("limit", "timeoutSeconds")),
    *(_parameter(name, "boolean") for name in ("allowWatchBookmarks", "sendInitialEvents", "watch")),
]
_DELETE = [
    _parameter("dryRun"),
    _parameter("gracePeriodSeconds", "integer"),
    _parameter("orphanDependents", "boolean"),
    _parameter("propagationPolicy"),
]
_PARAMETERS = {
    "create": _WRITE,
    "update": _WRITE,
    "patch": [*_WRITE, _parameter("force", "boolean")],
    "delete": _DELETE,
    "deletecollection": [*_DELETE, *_LIST],
    "list": _LIST,
}
_PATCHES = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
)
_STRATEGIC = "application/strategic-merge-patch+json"
"""For built-in kinds; kubectl reads from here which form it may use."""


def _paths_of(resource: ResourceType, name: str) -> dict[str, Any]:
    """The paths of a kind with what can be done at them."""
    base = f"/{_group_path(resource)}"
    everywhere = f"{base}/{resource.plural}"
    shared: list[dict[str, Any]] = []
    if resource.namespaced:
        base += "/namespaces/{namespace}"
        shared = [_parameter("namespace", place="path")]
    many = {action: _operation(resource, name, verb) for verb, action in _ALL_ACTIONS.items() if verb in resource.verbs}
    one = {action: _operation(resource, name, verb) for verb, action in _ACTIONS.items() if verb in resource.verbs}
    paths: dict[str, Any] = {}
    if many:
        paths[f"{base}/{resource.plural}"] = {**many, "parameters": shared} if shared else many
    if resource.namespaced and "list" in resource.verbs:
        paths[everywhere] = {"get": _operation(resource, name, "list")}
    if one:
        named = [_parameter("name", place="path"), *shared]
        paths[f"{base}/{resource.plural}/{{name}}"] = {**one, "parameters": named}
    return paths


def _answer(resource: ResourceType, name: str, verb: str) -> dict[str, Any]:
    """The response of a verb: an object, a list, or the status of a deletion."""
    if verb == "list":
        name = f"{name}List"
    elif verb == "deletecollection" or (verb == "delete" and not resource.strategy.answers_deleted_object):
        name = _STATUS
    return {"$ref": f"#/components/schemas/{name}"}


def _operation(resource: ResourceType, name: str, verb: str) -> dict[str, Any]:
    """The operation at a path with one method."""
    reference = {"$ref": f"#/components/schemas/{name}"}
    out: dict[str, Any] = {
        "tags": [f"{resource.group or 'core'}_{resource.version}"],
        "operationId": f"{verb}_{resource.group}_{resource.version}_{resource.plural}",
        "responses": {"200": {"description": "OK", "content": {_JSON: {"schema": _answer(resource, name, verb)}}}},
        "x-kubernetes-action": {"create": "post", "update": "put"}.get(verb, verb),
        "x-kubernetes-group-version-kind": {
            "group": resource.group,
            "version": resource.version,
            "kind": resource.kind,
        },
    }
    # Clients written in Go leave empty lists out, and expect the same document back.
    if parameters := _PARAMETERS.get(verb):
        out["parameters"] = parameters
    if verb in ("create", "update"):
        out["requestBody"] = {"content": {"*/*": {"schema": reference}}, "required": True}
    elif verb == "patch":
        forms = _PATCHES if resource.is_custom else (*_PATCHES, _STRATEGIC)
        content = {form: {"schema": {"type": "object"}} for form in forms}
        out["requestBody"] = {"content": content, "required": True}
    return out


def _v2_path(path: Mapping[str, Any]) -> dict[str, Any]:
    """A path in the older form."""
    out: dict[str, Any] = {}
    for key, value in path.items():
        if key == "parameters":
            out[key] = [_v2_parameter(each) for each in value]
            continue
        operation = dict(value)
        parameters = [_v2_parameter(each) for each in operation.get("parameters", ())]
        body = operation.pop("requestBody", None)
        if body:
            schema = next(iter(body["content"].values()))["schema"]
            parameters.append({"name": "body", "in": "body", "required": True, "schema": schema})
            operation["consumes"] = list(body["content"])
        content = operation["responses"]["200"]["content"][_JSON]["schema"]
        operation |= {"parameters": parameters, "produces": [_JSON]}
        operation["responses"] = {"200": {"description": "OK", "schema": content}}
        out[key] = operation
    return out


def _v2_parameter(parameter: Mapping[str, Any]) -> dict[str, Any]:
    out = {key: value for key, value in parameter.items() if key != "schema"}
    return {**out, **parameter["schema"]}


def _v2_schema(raw: Any) -> Any:
    """A schema in the older form, which knows no `default` beside a reference and no alternatives."""
    if isinstance(raw, list):
        return [_v2_schema(each) for each in raw]
    if not isinstance(raw, dict):
        return raw
    wrapped = raw.get("allOf")
    if isinstance(wrapped, list) and len(wrapped) == 1 and isinstance(wrapped[0], dict) and "$ref" in wrapped[0]:
        return {"$ref": wrapped[0]["$ref"]}
    dropped = ("default", "nullable", "oneOf", "anyOf")
    return {key: _v2_schema(value) for key, value in raw.items() if key not in dropped or isinstance(value, dict)}
