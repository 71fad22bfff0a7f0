"""Record answers of the real server that the tests of `kilauea.apiserver` compare with.

    python tests/kubernetes/record.py

Run by hand when the version in go.mod or one of the request files changes. Each line of `recorded.jsonl` is one request
of `kinds`, `decoding` or `custom`, with its answer; each file in `answers` has the whole answers to a file of requests;
each line of `refusals.jsonl` one of `validation_*`, with its code
and the causes of a refusal; each line of `pod_security.jsonl` one of the file of that name, with its code, message and
warnings.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from playing import Answer, Client, play, read_requests
from real_binaries import HERE
from real_server import real_server

TARGET = HERE.parent / "apiserver/schema/recorded.jsonl"
FILES = ("kinds", "decoding", "custom")
CAUSE = ("field", "reason", "message")
POD_SECURITY = HERE.parent / "apiserver/admission/pod_security.jsonl"
REFUSALS = HERE.parent / "apiserver/refusals.jsonl"
ANSWERS = HERE.parent / "apiserver/answers"
ANSWERED = (
    "answers",
    "applied_configurations",
    "custom_bodies",
    "mutations",
    "options",
    "policy_parameters",
    "scales",
    "shapes",
    "status_metadata",
    "subresources",
    "unusual_fields",
)
"""Files whose whole answers are recorded."""


def record(name: str, request: dict[str, Any], answer: Answer) -> dict[str, Any]:
    """One line: what was asked and answered, without the book of managed fields."""
    if isinstance(answer.body, dict):
        answer.body.get("metadata", {}).pop("managedFields", None)
    asked = {"file": name, "name": request["name"], "send": request["send"], "body": request.get("body")}
    return asked | {"code": answer.code, "warnings": answer.headers.get("warning", []), "answer": answer.body}


def _first_line(text: str | None) -> str | None:
    """What comes after the first line of a message shows how the real server's code names the fields that differ."""
    return text and text.partition("\n")[0]


def record_refusals(client: Client) -> list[str]:
    """Lines of what is refused, and why."""
    lines = []
    for path in sorted((HERE / "requests").glob("validation_*.yaml")):
        requests = read_requests(path)
        namespace = f"{path.stem.replace('_', '-')}-recorded"
        for request, answer in zip(requests, play(client, requests, namespace), strict=True):
            details = answer.body.get("details") if answer.code >= 400 else None
            causes = [[_first_line(each.get(key)) for key in CAUSE] for each in (details or {}).get("causes", ())]
            asked = {key: request[key] for key in ("name", "send", "body", "as") if key in request}
            lines.append(json.dumps({"file": path.stem, **asked, "code": answer.code, "causes": causes}))
    return lines


def record_pod_security(client: Client) -> list[str]:
    """Lines of what the standards of namespaces refuse and warn of."""
    lines = []
    requests = read_requests(HERE / f"requests/{POD_SECURITY.stem}.yaml")
    for request, answer in zip(requests, play(client, requests, "recorded"), strict=True):
        asked = {key: request[key] for key in ("name", "send", "body", "as") if key in request}
        said = {"message": answer.body["message"] if answer.code >= 400 else ""}
        lines.append(json.dumps({**asked, "code": answer.code, **said, "warnings": answer.headers.get("warning", [])}))
    return lines


def record_answers(client: Client) -> None:
    """Write whole answers."""
    for name in ANSWERED:
        answers = play(client, read_requests(HERE / f"requests/{name}.yaml"), f"{name.replace('_', '-')}-recorded")
        text = "".join(f"{json.dumps(vars(each))}\n" for each in answers)
        (ANSWERS / f"{name}.jsonl").write_text(text)


def main() -> None:
    """Play the files at a real server and write what it says."""
    lines = []
    with real_server() as server:
        client = Client.from_kubeconfig(Path(server.kubeconfig))
        refusals, pod_security = record_refusals(client), record_pod_security(client)
        record_answers(client)
        for name in FILES:
            requests = read_requests(HERE / f"requests/{name}.yaml")
            for request, answer in zip(requests, play(client, requests, f"{name}-recorded"), strict=True):
                lines.append(json.dumps(record(name, request, answer)))
    TARGET.write_text("\n".join(lines) + "\n")
    REFUSALS.write_text("\n".join(refusals) + "\n")
    POD_SECURITY.write_text("\n".join(pod_security) + "\n")
    print(f"{TARGET}: {len(lines)} answers, {REFUSALS}: {len(refusals)}")


if __name__ == "__main__":
    main()
