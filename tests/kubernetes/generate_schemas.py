"""Read the built-in kinds from the real API server into `src/kilauea/apiserver/schema/`.

    python tests/kubernetes/generate_schemas.py

Run by hand when the version in go.mod changes. It writes two files of facts; descriptions are left out:

`builtin.json.gz`: `version`, `kinds` (definition of each `group/version/kind`), `definitions` (OpenAPI v3: names,
types, formats, defaults, required, enum, and how lists and maps merge) and `layout` (of each definition: how Go writes
its fields, see `notation`).
`resources.json`: for each resource what discovery says (names, verbs, subresources), and the columns of its table.
"""

from __future__ import annotations

import gzip
import json
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from real_binaries import HERE, kubernetes_version
from real_server import AS_OURS, Server, real_server

TARGET = Path(__file__).resolve().parents[2] / "src/kilauea/apiserver/schema"
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
META_KINDS = "APIResourceList DeleteOptions ListMeta ObjectMeta Patch Status WatchEvent".split()
PLURALS = {
    "v1": "bindings configmaps endpoints events limitranges namespaces nodes persistentvolumeclaims persistentvolumes "
    "pods podtemplates replicationcontrollers resourcequotas secrets serviceaccounts services",
    "admissionregistration.k8s.io/v1": "mutatingadmissionpolicies mutatingadmissionpolicybindings "
    "mutatingwebhookconfigurations validatingadmissionpolicies validatingadmissionpolicybindings "
    "validatingwebhookconfigurations",
    "apiextensions.k8s.io/v1": "customresourcedefinitions",
    "apiregistration.k8s.io/v1": "apiservices",
    "apps/v1": "controllerrevisions daemonsets deployments replicasets statefulsets",
    "authentication.k8s.io/v1": "selfsubjectreviews tokenreviews",
    "authorization.k8s.io/v1": "localsubjectaccessreviews selfsubjectaccessreviews selfsubjectrulesreviews "
    "subjectaccessreviews",
    "autoscaling/v2": "horizontalpodautoscalers",
    "autoscaling/v1": "horizontalpodautoscalers",
    "batch/v1": "cronjobs jobs",
    "certificates.k8s.io/v1": "certificatesigningrequests",
    "coordination.k8s.io/v1": "leases",
    "discovery.k8s.io/v1": "endpointslices",
    "events.k8s.io/v1": "events",
    "flowcontrol.apiserver.k8s.io/v1": "flowschemas prioritylevelconfigurations",
    "networking.k8s.io/v1": "ingressclasses ingresses ipaddresses networkpolicies servicecidrs",
    "node.k8s.io/v1": "runtimeclasses",
    "policy/v1": "poddisruptionbudgets",
    "rbac.authorization.k8s.io/v1": "clusterrolebindings clusterroles rolebindings roles",
    "resource.k8s.io/v1": "deviceclasses resourceclaims resourceclaimtemplates resourceslices",
    "resource.k8s.io/v1beta2": "deviceclasses devicetaintrules resourceclaims resourceclaimtemplates resourceslices",
    "resource.k8s.io/v1beta1": "deviceclasses resourceclaims resourceclaimtemplates resourceslices",
    "scheduling.k8s.io/v1": "priorityclasses",
    "scheduling.k8s.io/v1alpha2": "podgroups workloads",
    "storage.k8s.io/v1": "csidrivers csinodes csistoragecapacities storageclasses volumeattachments "
    "volumeattributesclasses",
}
"""The resources that are read, by group and version."""

DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"


def get(server: Server, path: str, accept: str = "application/json") -> Any:
    """The JSON at a path of the server."""
    headers = {"Authorization": f"Bearer {server.tokens['admin']}", "Accept": accept}
    request = urllib.request.Request(server.url + path, headers=headers)
    trust = ssl.create_default_context(cafile=str(server.certificate))
    with urllib.request.urlopen(request, timeout=30, context=trust) as response:
        return json.load(response)


def root(group_and_version: str) -> str:
    """`api/v1`, `apis/apps/v1`."""
    return f"apis/{group_and_version}" if "/" in group_and_version else f"api/{group_and_version}"


def bare(node: Any) -> Any:
    """A schema without descriptions; a property may have that name, so only text counts."""
    if isinstance(node, list):
        return [bare(each) for each in node]
    if not isinstance(node, dict):
        return node
    return {key: bare(each) for key, each in node.items() if not (key == "description" and isinstance(each, str))}


def references(node: Any) -> Iterator[str]:
    """Names of the definitions that a schema refers to."""
    if isinstance(node, list):
        for each in node:
            yield from references(each)
    elif isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"].rpartition("/")[2]
        for each in node.values():
            yield from references(each)


def reachable(definitions: dict[str, Any], starts: list[str]) -> dict[str, Any]:
    """The definitions with these names, and all that they refer to, in order of their names."""
    found: dict[str, Any] = {}
    waiting = list(starts)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = bare(definitions[name])
            waiting += references(found[name])
    return dict(sorted(found.items()))


def read_resources(server: Server) -> list[dict[str, Any]]:
    """One record for each resource: what discovery says, its group and version, storage hash and table columns."""
    records = []
    for path in ("/api", "/apis"):
        for group in get(server, path, DISCOVERY)["items"]:
            name = group["metadata"].get("name", "")
            for version in group["versions"]:
                about = {"group": name, "version": version["version"]}
                wanted = PLURALS.get(f"{name}/{version['version']}".removeprefix("/"), "").split()
                records += [about | each for each in version["resources"] if each["resource"] in wanted]
    for record in records:
        address = f"/{root(group_version(record))}"
        plain = {each["name"]: each for each in get(server, address)["resources"]}
        record["storageVersionHash"] = plain[record["resource"]].get("storageVersionHash", "")
        if "list" in record["verbs"]:
            table = get(server, f"{address}/{record['resource']}", TABLE)
            record["columns"] = bare(table["columnDefinitions"])
    return records


def group_version(record: dict[str, Any]) -> str:
    """`v1`, `apps/v1`."""
    return f"{record['group']}/{record['version']}".removeprefix("/")


def kind_names(records: list[dict[str, Any]]) -> list[str]:
    """`group/version/kind` (the core group is empty) of what the resources and their subresources take and give."""
    names = set()
    for record in records:
        for each in [record, *record.get("subresources", [])]:
            kind = each["responseKind"]
            group, version = kind["group"] or record["group"], kind["version"] or record["version"]
            names |= {f"{group}/{version}/{kind['kind']}", f"{group}/{version}/{kind['kind']}List"}
    return sorted(names)


def read_definitions(server: Server, records: list[dict[str, Any]]) -> dict[str, Any]:
    """What goes into `builtin.json.gz`."""
    everything: dict[str, Any] = {}
    for each in PLURALS:
        everything |= get(server, f"/openapi/v3/{root(each)}")["components"]["schemas"]
    by_kind = {}
    for name, definition in everything.items():
        for each in definition.get("x-kubernetes-group-version-kind", ()):
            by_kind[f"{each['group']}/{each['version']}/{each['kind']}"] = name
    kinds = {name: by_kind[name] for name in kind_names(records) if name in by_kind}
    starts = [*kinds.values(), *(META + name for name in META_KINDS)]
    return {"version": kubernetes_version(), "kinds": kinds, "definitions": reachable(everything, starts)}


def notation(field: dict[str, Any]) -> str:
    """How Go writes a field: `[=][*][Embedded/]type`.

    `=` is written even if empty, `*` tells null from empty (so that empty values stay), `Embedded/` is the embedded
    struct that the field stands in, which errors name. Structs that are not pointers cannot be left out, whatever they
    ask for, unless they say `omitzero`.
    """
    struct = field["kind"] == "struct" and not field["pointer"] and not field["omitzero"]
    always = "=" if struct or not (field["omitempty"] or field["omitzero"]) else ""
    within = f"{field['within']}/" if field["within"] else ""
    return always + ("*" if field["pointer"] else "") + within + str(field["type"])


def read_layout(names: list[str]) -> dict[str, Any]:
    """The notation of the fields of definitions, from the Go types."""
    command = ["go", "run", "-p", "2", "./gotypes"]
    types = json.loads(subprocess.run(command, cwd=HERE, check=True, capture_output=True).stdout)
    return {
        name: {key: notation(field) for key, field in sorted(types[name].items())} for name in names if name in types
    }


def main() -> None:
    """Write both files."""
    with real_server((), AS_OURS) as server:
        records = read_resources(server)
        definitions = read_definitions(server, records)
    definitions["layout"] = read_layout(list(definitions["definitions"]))
    lines = ",\n".join(json.dumps(record) for record in records)
    (TARGET / "resources.json").write_text(f"[\n{lines}\n]\n")
    text = json.dumps(definitions, separators=(",", ":")).encode()
    (TARGET / "builtin.json.gz").write_bytes(gzip.compress(text, compresslevel=9, mtime=0))
    print(f"{len(definitions['kinds'])} kinds, {len(definitions['definitions'])} definitions, {len(text):,} bytes")


if __name__ == "__main__":
    main()
