"""Unknown fields in manifests, in the words of an API server's strict validation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

from kilauea.api.crds import definitions
from kilauea.api.decode import Manifest
from kilauea.api.kinds import POD_GROUPS, QUEUES, VC_JOBS
from kilauea.api.ports import Obj, Resource
from kilauea.apiserver.schema import (
    Schema,
    definition,
    from_openapi,
    openapi_definitions,
    unknown_field,
    unknown_fields,
)
from kilauea.runtime.inputs.expanding.workloads import SCHEMAS

POD = "io.k8s.api.core.v1.Pod"
CUSTOM = {POD_GROUPS.kind: POD_GROUPS, QUEUES.kind: QUEUES}


def fields_unknown_to_server(workload: Obj) -> list[str]:
    """The message of a server about each field that it would drop: `unknown field "spec.tasks[0].replcas"`.

    A server drops such fields, or has a newer version, so only manifests are checked.
    """
    if "uid" in workload["metadata"]:
        return []
    is_ours = workload.get("apiVersion") == VC_JOBS.api_version
    schema = _defined(VC_JOBS) if is_ours else definition(SCHEMAS[workload["kind"]])
    return [unknown_field(path, custom=is_ours) for path in unknown_fields(schema, dict(workload))]


def warnings_about(manifests: Iterable[Manifest]) -> Iterator[str]:
    """Warnings about fields that pods, pod groups and queues do not have; one for all objects with the same."""
    found: dict[tuple[str, str], list[str]] = {}
    for manifest in manifests:
        custom = CUSTOM.get(manifest.kind)
        schema = _defined(custom) if custom else definition(POD)
        for path in unknown_fields(schema, manifest.tree()):
            message = unknown_field(path, custom=custom is not None)
            found.setdefault((manifest.kind, message), []).append(manifest.name)
    for (kind, message), names in found.items():
        more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
        yield f"{kind} {names[0]}{more}: {message}"


@cache
def _defined(resource: Resource) -> Schema:
    """The schema of the installed definition of a Volcano kind."""
    name = f"{resource.plural}.{resource.group}"
    found = next(each for each in definitions(openapi_definitions()) if each["metadata"]["name"] == name)
    return from_openapi(found["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
