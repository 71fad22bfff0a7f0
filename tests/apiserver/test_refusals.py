"""What is refused, and why, against recorded answers of the real server (`tests/kubernetes/record.py` records them)."""

from __future__ import annotations

import json
import re
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from support.api_core import Api

LINES = (Path(__file__).parent / "refusals.jsonl").read_text().splitlines()
RECORDED = [json.loads(line) for line in LINES]
FILES = {name: list(group) for name, group in groupby(RECORDED, key=lambda each: str(each["file"]))}
TYPES = {"merge": "application/merge-patch+json", "strategic": "application/strategic-merge-patch+json"}
NAMESPACE = "recorded"
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_NUMBER = re.compile(r"current: [0-9]+")


def _comparable(text: Any) -> Any:
    """The first line of a text of our server, with what is random replaced as in the recorded ones."""
    if not isinstance(text, str):
        return text
    text = _TIME.sub("<time>", text.partition("\n")[0])
    return _NUMBER.sub("current: <resourceVersion>", _UUID.sub("<uuid>", text).replace(NAMESPACE, "${ns}"))


def _ask(api: Api, recorded: dict[str, Any]) -> dict[str, Any]:
    method, path = recorded["send"].replace("${ns}", NAMESPACE).split(" ", 1)
    content_type = TYPES.get(recorded.get("as", ""), "application/json")
    text = json.dumps(recorded["body"]).replace("${ns}", NAMESPACE) if "body" in recorded else None
    answer = api.ask(method, path, None if text is None else json.loads(text), content_type=content_type)
    details = answer.body.get("details") if answer.code >= 400 else None
    causes = [
        [_comparable(each.get(key)) for key in ("field", "reason", "message")]
        for each in (details or {}).get("causes", ())
    ]
    return {"name": recorded["name"], "code": answer.code, "causes": causes}


@pytest.mark.parametrize("file", FILES)
def test_objects_are_refused_as_by_the_real_server(api: Api, file: str) -> None:
    assert api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}).code == 201
    for recorded in FILES[file]:
        assert _ask(api, recorded) == {key: recorded[key] for key in ("name", "code", "causes")}


def test_each_kind_of_file_has_refusals_and_objects_that_are_stored() -> None:
    codes = {each["code"] for each in RECORDED}
    assert {200, 201, 422} <= codes
