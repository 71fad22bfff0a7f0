"""Whole answers against recorded ones of the real server (`tests/kubernetes/record.py` records them)."""

from __future__ import annotations

import json
import ssl
import sys
from pathlib import Path
from typing import Any

import pytest

from kilauea.apiserver.request import ApiResponse, make_request
from support.api_core import ADMIN, Api
from support.definitions import DEFINITIONS, establish

KUBERNETES = Path(__file__).parents[1] / "kubernetes"
sys.path.insert(0, str(KUBERNETES))
try:
    from compare import answer_differences
    from playing import HEADERS, Answer, Client, play, read_requests
finally:
    sys.path.remove(str(KUBERNETES))

RECORDED = {
    path.stem: [Answer(**json.loads(line)) for line in path.read_text().splitlines()]
    for path in sorted((Path(__file__).parent / "answers").glob("*.jsonl"))
}


class InMemory(Client):
    """A client of an API in memory."""

    def __init__(self, api: Api) -> None:
        super().__init__("https://in-memory", "", ssl.create_default_context())
        self.api = api

    def send(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        """One request, which must not be a watch."""
        sent = {"user-agent": "Python-urllib/3.11"} | {name.lower(): value for name, value in headers.items()}
        answer = self.api.run(self.api.server.handle(make_request(method, path, sent, body or b"", ADMIN)))
        assert isinstance(answer, ApiResponse), "a stream"
        content = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
        given = [("content-type", answer.content_type), *((name.lower(), value) for name, value in answer.headers)]
        kept = {name: [value for key, value in given if key == name] for name in HEADERS}
        told = {name: values for name, values in kept.items() if any(values)}
        if method != "GET" and path.startswith(DEFINITIONS) and "?dryRun" not in path and answer.status < 400:
            establish(self.api, json.loads(content))
        return Answer(answer.status, told, json.loads(content) if content else [])


@pytest.mark.slow
@pytest.mark.parametrize("file", RECORDED)
def test_answers_are_those_of_the_real_server(api: Api, file: str) -> None:
    requests = read_requests(KUBERNETES / "requests" / f"{file}.yaml")
    found: list[tuple[str, str, Any, Any]] = []
    at_once = [{key: value for key, value in each.items() if key != "wait"} for each in requests]
    for request, real, ours in zip(requests, RECORDED[file], play(InMemory(api), at_once, "recorded"), strict=True):
        found += [(request["name"], *each) for each in answer_differences(request, real, ours)]
    assert found == []
