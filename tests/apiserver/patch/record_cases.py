"""Play the requests in cases/requests.yaml at the real server and write its answers to cases/answers.yaml.

    python tests/apiserver/patch/record_cases.py [--kubeconfig FILE] [--output FILE]

Without a kubeconfig it starts the real server itself. With one it asks the server there, such as our own, whose answers
can then be compared. Objects of a case are deleted before it begins.
"""

from __future__ import annotations

import argparse
import base64
import bisect
import json
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "kubernetes"))

PLURALS = {"NetworkPolicy": "networkpolicies", "PriorityClass": "priorityclasses"}
MEDIA_TYPES = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
FORMS = (*MEDIA_TYPES, "create", "update")


class Client:
    """Requests to one server, as the user of a kubeconfig."""

    def __init__(self, kubeconfig: Path) -> None:
        document = yaml.safe_load(kubeconfig.read_text())
        cluster = document["clusters"][0]["cluster"]
        self.url = cluster["server"]
        self.token = document["users"][0]["user"]["token"]
        data = base64.b64decode(cluster.get("certificate-authority-data", "")).decode()
        self.trust = ssl.create_default_context(cafile=cluster.get("certificate-authority"), cadata=data or None)

    def ask(self, method: str, path: str, body: Any = None, media_type: str = "application/json") -> Any:
        """The decoded answer, whatever its code."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": media_type}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30, context=self.trust) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            return json.load(error)


def paths_of(obj: dict[str, Any]) -> tuple[str, str]:
    """Path of the collection of an object, and of the object."""
    version, metadata = obj["apiVersion"], obj["metadata"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    space = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    collection = f"{root}{space}/{PLURALS.get(obj['kind'], obj['kind'].lower() + 's')}"
    return collection, f"{collection}/{metadata['name']}"


def merged(old: Any, patch: Any) -> Any:
    """A merge patch, for the bodies of updates."""
    if not isinstance(patch, dict) or not isinstance(old, dict):
        return patch
    out = {key: value for key, value in old.items() if key not in patch or patch[key] is not None}
    return out | {key: merged(old.get(key), value) for key, value in patch.items() if value is not None}


def form_of(step: dict[str, Any]) -> str:
    """Which kind of request a step is."""
    return next(form for form in FORMS if form in step)


def send(client: Client, step: dict[str, Any], collection: str, path: str) -> Any:
    """One request of a case."""
    form = form_of(step)
    query = f"?fieldManager={step['manager']}" + ("&force=true" if step.get("force") else "")
    if form == "create":
        return client.ask("POST", collection + query, step["create"])
    path += f"/{step['subresource']}" if "subresource" in step else ""
    if form == "update":
        return client.ask("PUT", path + query, merged(client.ask("GET", path), step["update"]))
    return client.ask("PATCH", path + query, step[form], MEDIA_TYPES[form])


def cleaned(answer: dict[str, Any], began: list[str]) -> dict[str, Any]:
    """An answer without what differs each time; times have the number of the request as their second."""
    metadata = answer.get("metadata", {})
    for key in ("uid", "resourceVersion", "creationTimestamp"):
        metadata.pop(key, None)
    for entry in metadata.get("managedFields", ()):
        if "time" in entry:
            entry["time"] = f"2026-01-01T00:00:{bisect.bisect(began, entry['time']) - 1:02}Z"
    return answer


def define(client: Client, definition: dict[str, Any]) -> None:
    """Create a custom kind and wait until it is served with its schema."""
    collection, path = paths_of(definition)
    client.ask("POST", collection, definition)
    for _ in range(100):
        time.sleep(0.2)
        conditions = client.ask("GET", path).get("status", {}).get("conditions", [])
        if any(each["type"] == "Established" and each["status"] == "True" for each in conditions):
            time.sleep(2)
            return
    sys.exit(f"{path}: not established after 20 seconds")


def record(client: Client, case: dict[str, Any]) -> list[Any]:
    """The answers to the requests of a case."""
    if "definition" in case:
        define(client, case["definition"])
    first = case["steps"][0]
    collection, path = paths_of(first[form_of(first)])
    client.ask("PATCH", path, {"metadata": {"finalizers": None}}, MEDIA_TYPES["merge"])
    client.ask("DELETE", path + "?gracePeriodSeconds=0", {"propagationPolicy": "Background"})
    answers = []
    began: list[str] = []
    for step in case["steps"]:
        time.sleep(1.05)  # times in managedFields have whole seconds
        began.append(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
        answers.append(cleaned(send(client, step, collection, path), began))
    return answers


def main() -> int:
    """Record all cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kubeconfig", type=Path, help="server to ask")
    parser.add_argument("--output", type=Path, default=HERE / "cases/answers.yaml", help="file to write")
    options = parser.parse_args()
    cases = yaml.safe_load((HERE / "cases/requests.yaml").read_text())
    if options.kubeconfig:
        answers = {case["name"]: record(Client(options.kubeconfig), case) for case in cases}
    else:
        from real_server import real_server  # noqa: PLC0415  # needs what only this way of calling needs

        with real_server((), ["--disable-admission-plugins=ServiceAccount"]) as server:
            answers = {case["name"]: record(Client(server.kubeconfig), case) for case in cases}
    text = "".join(
        yaml.safe_dump({name: each}, sort_keys=False, width=120, default_flow_style=None)
        for name, each in answers.items()
    )
    options.output.write_text("# Written by record_cases.py; what the real server answered.\n" + text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
