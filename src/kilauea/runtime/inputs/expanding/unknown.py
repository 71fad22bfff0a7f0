"""Fields of manifests that their kind does not have, in the words of an API server's strict validation."""

from __future__ import annotations

from functools import cache

from kilauea.api.crds import definitions
from kilauea.api.kinds import VC_JOBS
from kilauea.api.ports import Obj
from kilauea.apiserver.schema import Schema, definition, from_openapi, openapi_definitions, unknown_fields
from kilauea.runtime.inputs.expanding.workloads import SCHEMAS


def fields_unknown_to_server(workload: Obj) -> list[str]:
    """The message of a server about each field that it would drop: `unknown field "spec.tasks[0].replcas"`.

    What a server has stored has lost such fields, or comes from a newer version, so only manifests are looked at.
    """
    if "uid" in workload["metadata"]:
        return []
    is_ours = workload.get("apiVersion") == VC_JOBS.api_version
    schema = _of_volcano_jobs() if is_ours else definition(SCHEMAS[workload["kind"]])
    return [f'unknown field "{path}"' for path in unknown_fields(schema, dict(workload))]


@cache
def _of_volcano_jobs() -> Schema:
    """The schema of the definition that Volcano's jobs are installed with."""
    name = f"{VC_JOBS.plural}.{VC_JOBS.group}"
    found = next(each for each in definitions(openapi_definitions()) if each["metadata"]["name"] == name)
    return from_openapi(found["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
