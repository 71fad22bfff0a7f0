"""The rights of the components: the roles of the chart, what the components ask of an API server, and the differences.

    with real_server(["*"], audit(folder)) as server:
        client = Client.from_kubeconfig(server.kubeconfig)
        install(client)
        access = kubeconfigs(client, server.kubeconfig, folder)     # {"scheduler": Path, ...}
        ...                                                          # the components work
        assert faults(asked(folder)) == []

The roles are read from the templates of the chart, where only a few words are filled in. The audit log of the server
tells what is asked, with the user of each request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from playing import Client
from real_server import AS_OURS

CHART = Path(__file__).resolve().parents[2] / "deploy" / "helm" / "kilauea"
COMPONENTS = ("scheduler", "controllers", "admission")
RELEASE, NAMESPACE = "volcano", "volcano-system"
USER = f"system:serviceaccount:{NAMESPACE}:{RELEASE}-"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
LOG = "audit.log"


class Right(NamedTuple):
    """A right, or a request that needs it.

    Attributes:
        verb: such as `list`.
        group: of the kind; empty for those of the core.
        resource: the plural of the kind, with the subresource.
        namespace: where; empty for everywhere.
        names: of the objects; empty for all.
    """

    verb: str
    group: str
    resource: str
    namespace: str = ""
    names: tuple[str, ...] = ()

    def covers(self, asked: Right) -> bool:
        """True if a request is allowed by this right."""
        named = not self.names or (bool(asked.names) and set(asked.names) <= set(self.names))
        return self[:3] == asked[:3] and self.namespace in ("", asked.namespace) and named

    def __str__(self) -> str:
        """The right in words."""
        of = f"{self.resource}.{self.group}" if self.group else self.resource
        where = [f"in {self.namespace}"] if self.namespace else []
        return " ".join([self.verb, of, *self.names, *where])


class Requests(NamedTuple):
    """The requests of one component.

    Attributes:
        asked: the rights that they need.
        refused: the messages of those that the server refused with 403.
    """

    asked: set[Right]
    refused: set[str]


def roles(component: str) -> list[dict[str, Any]]:
    """The objects in the chart's template of the rights of a component."""
    text = (CHART / "templates" / "rights" / f"{component}.yaml").read_text()
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    words = {
        "Release.Name": RELEASE,
        "Release.Namespace": NAMESPACE,
        "Values.basic.admission_secret_name": values["basic"]["admission_secret_name"],
    }
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("{{-")]
    filled = re.sub(r"\{\{ \.(\S+) \}\}", lambda found: words[found[1]], "\n".join(lines))
    return [each for each in yaml.safe_load_all(filled) if each]


def granted(component: str) -> list[Right]:
    """The rights that the chart grants to a component, one by one."""
    found = []
    for role in roles(component):
        namespace = role["metadata"].get("namespace", "")
        for rule in role.get("rules", ()):
            found += [
                Right(verb, group, resource, namespace, tuple(rule.get("resourceNames", ())))
                for verb in rule["verbs"]
                for group in rule["apiGroups"]
                for resource in rule["resources"]
            ]
    return found


def audit(folder: Path) -> list[str]:
    """Arguments of a kube-apiserver that serves all kinds and writes what the components ask into a folder."""
    policy = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata", "users": [USER + each for each in COMPONENTS]}, {"level": "None"}],
    }
    path = folder / "audit.yaml"
    path.write_text(yaml.safe_dump(policy))
    return [
        f"--audit-policy-file={path}",
        f"--audit-log-path={folder / LOG}",
        # Owners of objects must then be ones whose finalizers a component may set, as on OpenShift.
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
        *AS_OURS,
    ]


def asked(folder: Path) -> dict[str, Requests]:
    """What the components have asked, from the log."""
    found = {component: Requests(set(), set()) for component in COMPONENTS}
    for line in (folder / LOG).read_text().splitlines():
        event = json.loads(line)
        _note(found[event["user"]["username"].removeprefix(USER)], event)
    return found


def _note(requests: Requests, event: Mapping[str, Any]) -> None:
    """Add an event of the log."""
    status = event.get("responseStatus") or {}
    if status.get("code") == 403:
        requests.refused.add(status.get("message") or event["requestURI"])
    about = event.get("objectRef")
    if about is None:
        requests.asked.add(Right(event["verb"], "", event["requestURI"]))
        return
    resource = "/".join(filter(None, (about["resource"], about.get("subresource"))))
    # The name of an object that is created counts for subresources only.
    named = about.get("name") if event["verb"] != "create" or "subresource" in about else None
    names = (named,) if named else ()
    requests.asked.add(Right(event["verb"], about.get("apiGroup", ""), resource, about.get("namespace", ""), names))


def faults(component: str, rights: Iterable[Right], requests: Requests, unasked: Mapping[str, str]) -> list[str]:
    """Differences between the rights of a component and what it has asked.

    Args:
        component: its name.
        rights: what it may do.
        requests: what it has asked.
        unasked: rights that it has not asked for, in words, each with the reason.
    """
    rights = list(rights)
    never = {str(right) for right in rights if not any(map(right.covers, requests.asked))}
    missing = {str(each) for each in requests.asked if not any(right.covers(each) for right in rights)}
    return [
        *(f"{component}: refused: {message}" for message in sorted(requests.refused)),
        *(f"{component}: asked, but not granted: {each}" for each in sorted(missing)),
        *(f"{component}: granted, but never asked: {each}" for each in sorted(never - unasked.keys())),
        *(f"{component}: has a reason not to be asked, but is: {each}" for each in sorted(unasked.keys() - never)),
    ]


def install(client: Client) -> None:
    """Create the namespace of the components, their service accounts and their roles."""
    post(client, "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    for component in COMPONENTS:
        accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
        post(client, accounts, {"metadata": {"name": f"{RELEASE}-{component}"}})
        for each in roles(component):
            within = f"/namespaces/{NAMESPACE}" if "namespace" in each["metadata"] else ""
            post(client, f"{RBAC}{within}/{each['kind'].lower()}s", each)


def kubeconfigs(client: Client, admin: Path, folder: Path) -> dict[str, Path]:
    """Files in a folder by which the components act as their service accounts; else they say what the admin's says."""
    found = {}
    document = yaml.safe_load(admin.read_text())
    for component in COMPONENTS:
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{RELEASE}-{component}/token"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = post(client, path, request)["status"]["token"]
        found[component] = folder / f"{component}.kubeconfig"
        users = [{"name": each["name"], "user": {"token": token}} for each in document["users"]]
        found[component].write_text(yaml.safe_dump({**document, "users": users}))
    return found


def post(client: Client, path: str, body: Any) -> Any:
    """Create an object; returns what the server made of it.

    Raises:
        RuntimeError: the server refuses.
    """
    answer = client.send("POST", path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    if answer.code not in (200, 201):
        raise RuntimeError(f"POST {path}: {answer.code} {answer.body}")
    return answer.body
