"""OpenAPI v3 and v2 of the kinds that are served, for `kubectl explain` and for clients that validate objects."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Generator, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from kilauea.apiserver import status
from kilauea.apiserver.aggregator.openapi import merged
from kilauea.apiserver.aggregator.services import Aggregator, Found
from kilauea.apiserver.documents.openapi_schemas import described, in_older_form, with_descriptions
from kilauea.apiserver.protobuf.openapi import encode_definition, encode_document
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
STEP_SECONDS = 0.01
"""Seconds of work on a document after which others have their turn."""
MOST_KEPT = 64
"""Documents that are kept: each version of a group has one, and a definition can have thousands of versions."""


class Document(NamedTuple):
    """A document and its tag."""

    body: bytes
    tag: str


Making = Generator[None, None, bytes | None]
"""A document as it is made; what is done between two steps is little."""


class OpenApi:
    """The documents, kept until the kinds change.

    With many definitions, to make one can take seconds. It is made in steps, between which the loop does what else
    there is, and once for all clients that ask meanwhile.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._kept: dict[str, Document] = {}
        self._making: dict[str, asyncio.Task[Document | None]] = {}
        self._hashes: dict[str, str] = {}
        """Hashes of the documents of versions of groups, by path."""
        self._types: dict[str, list[ResourceType]] = {}
        """The kinds by path of their version of a group."""
        self._generation = (-1, -1)
        self._others: Mapping[tuple[str, str], Found] = {}

    async def answer(self, path: str, request: ApiRequest, aggregator: Aggregator | None = None) -> ApiResponse | None:
        """The document at a path below `/openapi`; None if there is none."""
        self._follow(aggregator)
        name, accept = path.removeprefix("/openapi/"), request.headers.get("accept", "") or _JSON
        if name == "v2" and accept.startswith(_V2_PROTO):
            name, media = _V2_PROTO, _V2_PROTO.replace("@", ".")
        elif "json" in accept or "*/*" in accept:
            media = _JSON
        else:
            raise status.not_acceptable([_JSON])
        document = self._kept.get(name) or await self._made(name)
        if document is None:
            return None
        headers = [("Etag", document.tag), ("Vary", "Accept")]
        if request.headers.get("if-none-match") == document.tag:
            return ApiResponse(304, b"", headers=headers)
        return ApiResponse(200, document.body, media, headers)

    def _follow(self, aggregator: Aggregator | None) -> None:
        """Forget what was made of other kinds."""
        generation = (self._registry.generation, aggregator.generation if aggregator is not None else 0)
        if self._generation == generation:
            return
        self._generation = generation
        self._others = aggregator.found if aggregator is not None else {}
        self._kept, self._making, self._hashes, self._types = {}, {}, {}, {}
        for each in self._registry:
            self._types.setdefault(_group_path(each), []).append(each)

    async def _made(self, name: str) -> Document | None:
        """The document of a name, made by one task for all who wait for it."""
        task = self._making.get(name)
        if task is None:
            task = self._making[name] = asyncio.create_task(self._make(name), name=f"openapi {name}")
        return await asyncio.shield(task)

    async def _make(self, name: str) -> Document | None:
        kept, making = self._kept, self._making
        try:
            body = await _in_steps(self._steps(name))
        finally:
            making.pop(name, None)
        if body is None:
            return None
        if len(kept) >= MOST_KEPT:
            kept.pop(next(iter(kept)))
        return kept.setdefault(name, Document(body, f'"{_hash(body)}"'))

    def _steps(self, name: str) -> Making:
        """Make a document from the kinds as they are now, whatever changes meanwhile."""
        types, hashes, others = self._types, self._hashes, self._others
        if name == "v3":
            return _index(types, hashes, _v3_of(others))
        if name in ("v2", _V2_PROTO):
            older = [each.v2 for each in others.values() if each.v2 is not None]
            return _v2_json(types, older) if name == "v2" else _v2_protobuf(types, older)
        path = name.removeprefix("v3/")
        return _of_version(types.get(path, []), _v3_of(others).get(path) if name.startswith("v3/") else None)


async def _in_steps(making: Making) -> bytes | None:
    """Make a document; others have their turn in between."""
    loop = asyncio.get_running_loop()
    since = loop.time()
    while True:
        try:
            next(making)
        except StopIteration as end:
            made: bytes | None = end.value
            return made
        if loop.time() - since > STEP_SECONDS:
            await asyncio.sleep(0)
            since = loop.time()


def _v3_of(others: Mapping[tuple[str, str], Found]) -> dict[str, bytes]:
    """The documents of other servers, by path of their version of a group: `apis/apps/v1`."""
    return {f"apis/{group}/{version}": each.v3 for (group, version), each in others.items() if each.v3}


def _of_version(types: list[ResourceType], of_other: bytes | None) -> Making:
    """The document of a version of a group; None if there is no such version."""
    yield
    if of_other is not None or not types:
        return of_other
    document = _v3(types)
    schemas = document["components"]["schemas"]
    document["components"]["schemas"] = {name: with_descriptions(name, raw) for name, raw in schemas.items()}
    return msgspec.json.encode(document)


def _index(types: Mapping[str, list[ResourceType]], hashes: dict[str, str], others: Mapping[str, bytes]) -> Making:
    """The paths of the documents of all versions, with the hashes of these."""
    paths = {}
    for path in dict.fromkeys([*types, *others]):
        if path not in hashes:
            hashes[path] = _hash((yield from _of_version(types.get(path, []), others.get(path))) or b"")
        paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={hashes[path]}"}
    return msgspec.json.encode({"paths": paths})


def _v3(types: list[ResourceType]) -> dict[str, Any]:
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


def _v2(
    types: Mapping[str, list[ResourceType]], others: list[Mapping[str, Any]]
) -> Generator[None, None, dict[str, Any]]:
    """The description of everything in the older form, of this server and others; its parts are encoded already."""
    paths: dict[str, Any] = {}
    schemas: dict[str, Any] = {}
    for of_version in types.values():
        document, custom = _v3(of_version), {schema_name(each) for each in of_version if each.is_custom}
        paths |= {key: _v2_part(_v2_path(value)) for key, value in document["paths"].items()}
        for name, raw in document["components"]["schemas"].items():
            if name not in schemas:
                schemas[name] = _v2_part(_v2_schema(in_older_form(raw) if name in custom else raw))
        yield
    own = {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": kubernetes_version()},
        "paths": paths,
        "definitions": schemas,
        "securityDefinitions": _SECURITY,
    }
    return merged(own, others) if others else own


def _v2_part(part: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(part).replace(b"#/components/schemas/", b"#/definitions/"))


def _v2_json(types: Mapping[str, list[ResourceType]], others: list[Mapping[str, Any]]) -> Making:
    """The description in the older form as JSON."""
    return msgspec.json.encode((yield from _v2(types, others)))


def _v2_protobuf(types: Mapping[str, list[ResourceType]], others: list[Mapping[str, Any]]) -> Making:
    """The description in the older form as protobuf."""
    document, definitions = (yield from _v2(types, others)), []
    for name, schema in document["definitions"].items():
        raw = msgspec.json.decode(schema) if isinstance(schema, msgspec.Raw) else schema
        definitions.append(encode_definition(name, raw))
        yield
    return encode_document(document, definitions)


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
