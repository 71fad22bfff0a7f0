"""Playing a file of requests at an API server, and making its answers comparable.

A request file is a YAML list; each item is a mapping:

    name: a conflict is told           # what is tried; unique in the file
    send: PUT /api/v1/namespaces/${ns}/configmaps/a?dryRun=All
    body: {...}                        # sent as JSON; text is sent as it is
    as: json                           # or yaml, json-patch, merge, strategic, apply (the content type)
    headers: {Accept: ...}
    keep: {version: metadata.resourceVersion}    # for later requests, as ${version}
    wait: 1                            # seconds before it is sent
    ignore: {metadata.x: reason}       # fields that may differ, and why

`${ns}` is a namespace of its own, with a service account `default`; in every answer it reads `${ns}` again, whatever it
was. An answer that is a stream of JSON lines (a watch) becomes a list.
"""

from __future__ import annotations

import base64
import json
import re
import ssl
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

CONTENT_TYPES = {
    "json": "application/json",
    "yaml": "application/yaml",
    "json-patch": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
HEADERS = ("content-type", "warning", "retry-after", "www-authenticate")
"""Headers of answers that are compared."""
KEYS = frozenset(("name", "send", "body", "as", "headers", "keep", "wait", "ignore"))


@dataclass
class Answer:
    """What a server said: status code, the headers that count, and the body, decoded if it is JSON."""

    code: int
    headers: dict[str, Any]
    body: Any


@dataclass
class Client:
    """A server and the credentials of its administrator, as its kubeconfig tells."""

    url: str
    token: str
    trust: ssl.SSLContext
    values: dict[str, str] = field(default_factory=dict)

    @classmethod
    def from_kubeconfig(cls, path: Path) -> Client:
        """A client for the current context; the user must have a token."""
        config = yaml.safe_load(path.read_text())
        context = next(each["context"] for each in config["contexts"] if each["name"] == config["current-context"])
        cluster = next(each["cluster"] for each in config["clusters"] if each["name"] == context["cluster"])
        user = next(each["user"] for each in config["users"] if each["name"] == context["user"])
        coded = cluster.get("certificate-authority-data")
        authority = base64.b64decode(coded).decode() if coded else Path(cluster["certificate-authority"]).read_text()
        return cls(cluster["server"], user["token"], ssl.create_default_context(cadata=authority))

    def send(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        """Send one request and read all of its answer."""
        request = urllib.request.Request(self.url + path, body, {"Authorization": f"Bearer {self.token}", **headers})
        request.method = method
        try:
            with urllib.request.urlopen(request, timeout=60, context=self.trust) as response:
                return _answer(response.status, response.headers, response.read())
        except urllib.error.HTTPError as error:
            with error:
                return _answer(error.code, error.headers, error.read())


def _answer(code: int, headers: Any, content: bytes) -> Answer:
    kept = {name: headers.get_all(name) for name in HEADERS if headers.get_all(name)}
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return Answer(code, kept, {"bytes": len(content)})
    try:
        return Answer(code, kept, json.loads(text))
    except ValueError:
        pass
    try:
        return Answer(code, kept, [json.loads(line) for line in text.splitlines() if line])
    except ValueError:
        return Answer(code, kept, text)


def read_requests(path: Path) -> list[dict[str, Any]]:
    """The requests of a file, checked for keys that mean nothing and names that are there twice."""
    requests: list[dict[str, Any]] = yaml.safe_load(path.read_text())
    names = [each.get("name") for each in requests]
    for each in requests:
        unknown = each.keys() - KEYS
        if unknown or not isinstance(each.get("name"), str) or "send" not in each or names.count(each["name"]) > 1:
            raise ValueError(f"{path}: {each.get('name')}: needs a unique name and send; unknown: {sorted(unknown)}")
    return requests


def play(client: Client, requests: list[dict[str, Any]], namespace: str) -> list[Answer]:
    """Send all requests in their order, in a new namespace; answers come back comparable."""
    client.values = {"ns": namespace}
    _set_up(client, namespace)
    return [_play_one(client, each) for each in requests]


DEFINITIONS = Path(__file__).parents[2] / "deploy" / "crds"


def install_definitions(client: Client) -> None:
    """Apply the definitions of the Volcano kinds, as a cluster gets them, and wait until they are served."""
    collection = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for path in sorted(DEFINITIONS.glob("*.yaml")):
        where = f"{collection}/{path.stem}?fieldManager=kilauea&force=true"
        answer = client.send("PATCH", where, path.read_bytes(), {"Content-Type": CONTENT_TYPES["apply"]})
        if answer.code not in (200, 201):
            raise RuntimeError(f"{client.url}: {path.name}: {answer.code} {answer.body}")
    for path in sorted(DEFINITIONS.glob("*.yaml")):
        for _ in range(50):
            status = client.send("GET", f"{collection}/{path.stem}", None, {}).body["status"]
            found = {each["type"]: each["status"] for each in status["conditions"] or ()}
            if found.get("NonStructuralSchema") == "True":
                raise RuntimeError(f"{client.url}: {path.name}: {status}")
            if found.get("Established") == "True":
                break
            time.sleep(0.2)


def _set_up(client: Client, namespace: str) -> None:
    json_type = {"Content-Type": CONTENT_TYPES["json"]}
    for path, kind, name in (
        ("/api/v1/namespaces", "Namespace", namespace),
        (f"/api/v1/namespaces/{namespace}/serviceaccounts", "ServiceAccount", "default"),
    ):
        body = json.dumps({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}).encode()
        answer = client.send("POST", path, body, json_type)
        if answer.code not in (201, 409):
            raise RuntimeError(f"{client.url}: {kind} {name}: {answer.code} {answer.body}")


def _play_one(client: Client, request: dict[str, Any]) -> Answer:
    time.sleep(request.get("wait", 0))
    method, path = _filled(client, request["send"]).split(" ", 1)
    body = request.get("body")
    text = body if isinstance(body, str) or body is None else json.dumps(body)
    headers = {} if text is None else {"Content-Type": CONTENT_TYPES[request.get("as", "json")]}
    headers |= {key: _filled(client, value) for key, value in request.get("headers", {}).items()}
    answer = client.send(method, path, None if text is None else _filled(client, text).encode(), headers)
    for name, place in request.get("keep", {}).items():
        client.values[name] = str(_at(answer.body, place))
    return Answer(answer.code, comparable(client, answer.headers), comparable(client, answer.body))


def _filled(client: Client, text: str) -> str:
    """A text with the kept values in the place of `${name}`."""
    return re.sub(r"\$\{(\w+)\}", lambda found: client.values[found[1]], text)


def _at(value: Any, path: str) -> Any:
    for step in path.split("."):
        value = value[int(step)] if isinstance(value, list) else value[step]
    return value


# --- what may differ from server to server

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_RANDOM = frozenset(
    ("resourceVersion", "continue", "clusterIP", "nodePort", "healthCheckNodePort", "metadata.resourceVersion", "token")
)
_RANDOM_LISTS = frozenset(("clusterIPs",))
_MANAGER = ("manager", "operation", "subresource")
_VERSION = re.compile(
    r"""((?:ResourceVersion in (?:the precondition|precondition|record) \(|current: |\\"resourceVersion\\":\\"))\d+"""
)
_TOKENS = re.compile(r"(kube-api-access-)[a-z0-9]{5}\b")
"""Volumes with the token of a service account, whose names have a suffix."""
_AGE = re.compile(r"\d+[smh](\d+[smh])?")


def comparable(client: Client, value: Any, key: str = "") -> Any:
    """A value with everything that may differ replaced by what it is."""
    if isinstance(value, dict):
        changed = {name: comparable(client, each, name) for name, each in value.items()}
        if key == "columnDefinitions":
            changed.pop("description", None)  # ours are not copied from the real server
        prefix = value.get("generateName")
        if prefix and isinstance(changed.get("name"), str) and value["name"].startswith(prefix):
            changed["name"] = f"{prefix}<suffix>"
        return _causes_in_order(changed) if value.get("kind") == "Status" else changed
    if isinstance(value, list):
        if key == "managedFields":  # ordered by time, in seconds
            value = sorted(value, key=lambda each: [str(each.get(name)) for name in _MANAGER])
        below = key if key in ("columnDefinitions", "cells") else ""
        return [f"<{key}>" if key in _RANDOM_LISTS else comparable(client, each, below) for each in value]
    if key == "cells" and isinstance(value, str) and _AGE.fullmatch(value):
        return "<age>"
    if key in _RANDOM and value not in ("", "0", None, "None"):
        return f"<{key}>"
    if isinstance(value, str):
        return _comparable_text(client, value)
    return value


def _causes_in_order(status: dict[str, Any]) -> dict[str, Any]:
    """A refusal whose several causes are sorted, in its message as well, where a definition's schema found them.

    The real server visits the members of a schema's object in an order that is rng.
    """
    details = status.get("details") or {}
    causes = details.get("causes") or []
    group = details.get("group", "")
    if len(causes) < 2 or "." not in group or group.endswith(".k8s.io"):
        return status
    message, ordered = status["message"], sorted(causes, key=lambda each: (each["field"], each["message"]))
    told, listed = ([f"{each['field']}: {each['message']}" for each in some] for some in (causes, ordered))
    message = message.replace(f"[{', '.join(told)}]", f"[{', '.join(listed)}]")
    return {**status, "message": message, "details": {**details, "causes": ordered}}


def _comparable_text(client: Client, text: str) -> str:
    text = text.replace(client.values.get("ns", "${ns}"), "${ns}").replace(client.url, "${url}")
    for name, value in client.values.items():
        if name != "ns" and text == value:
            return f"${{{name}}}"
    text = _TOKENS.sub(r"\1<suffix>", text)
    return _VERSION.sub(r"\1<resourceVersion>", _TIME.sub("<time>", _UUID.sub("<uuid>", text)))
