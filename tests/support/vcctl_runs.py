"""The commands `vcctl` and the like as users call them, against a server that is a process of its own.

console = Console(server.kubeconfig)
console("vcctl", "job", "list").out
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import click
from click.testing import CliRunner

from cluster.api_process import Client
from kilauea.api.ports import Resource
from kilauea.cli.main import main
from kilauea.cli.vcctl import programs
from kilauea.client.rest import collection_path

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "vcctl"
PROGRAMS: dict[str, Callable[[], click.Command]] = {
    "vcctl": programs.vcctl_command,
    "vsub": programs.vsub_command,
    "vjobs": programs.vjobs_command,
    "vqueues": programs.vqueues_command,
    "vcancel": programs.vcancel_command,
    "vsuspend": programs.vsuspend_command,
    "vresume": programs.vresume_command,
    "kilauea": lambda: main,
}
VOLATILE = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "00000000-0000-0000-0000-000000000000"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"), "2026-01-01 00:00:00"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "2026-01-01T00:00:00Z"),
    (re.compile(r"\d{4}-\d\d-\d\d"), "2026-01-01"),
    (re.compile(r"(Resource Version:\t)\d+"), r"\g<1>1"),
)
DONE = re.compile(
    r"^(?:queue \S+ (?:created|updated|deleted)|request to \w+ (?:job|queue) \S+ sent"
    r"|queue root cannot be closed: [^\n]*)\n",
    re.MULTILINE,
)
"""What commands say on standard error that are silent in Volcano."""
AGE = re.compile(r"\b(\d+m)?\d+s\b")


class Ran(NamedTuple):
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


class Console:
    """Where commands are called."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig

    def __call__(self, program: str, *words: str, input: bytes | None = None, **environment: str) -> Ran:
        """Call a program."""
        given = {"KUBECONFIG": str(self._kubeconfig), **environment}
        with patch.dict(os.environ, given):
            result = CliRunner().invoke(PROGRAMS[program](), words, prog_name=program, input=input)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ran(result.exit_code, result.stdout, result.stderr)

    def good(self, program: str, *words: str, **more: Any) -> str:
        """What a command prints that must not fail, nor say anything on standard error but what it has done."""
        ran = self(program, *words, **more)
        assert (ran.code, DONE.sub("", ran.err)) == (0, ""), ran
        return ran.out

    def done(self, program: str, *words: str) -> str:
        """What a command says that it has done, which must not fail and prints nothing else."""
        ran = self(program, *words)
        assert (ran.code, ran.out) == (0, ""), ran
        return ran.err

    def failed(self, *words: str) -> str:
        """What a command says that fails as Volcano's do: on standard output, with code 255."""
        ran = self(*words)
        assert (ran.code, ran.err) == (255, ""), ran
        return ran.out


class Objects:
    """The objects of a server, without any command."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def put(self, resource: Resource, body: dict[str, Any], status: dict[str, Any] | None = None) -> dict[str, Any]:
        """Create an object, with its status."""
        namespace = body["metadata"].get("namespace", "")
        path = collection_path(resource, namespace)
        typed = {"apiVersion": resource.api_version, "kind": resource.kind, **body, "status": status or {}}
        answer = self._client.send("POST", path, typed)
        assert answer.code == 201, answer.content
        made: dict[str, Any] = answer.json()
        if status is None or made.get("status") == status:
            return made  # kinds without a subresource have it at once
        answer = self._client.send("PUT", f"{path}/{made['metadata']['name']}/status", {**made, "status": status})
        assert answer.code == 200, answer.content
        changed: dict[str, Any] = answer.json()
        return changed

    def all(self, resource: Resource, namespace: str = "") -> list[dict[str, Any]]:
        """The objects of a kind."""
        items: list[dict[str, Any]] = self._client.get(collection_path(resource, namespace))["items"]
        return items

    def one(self, resource: Resource, namespace: str, name: str) -> dict[str, Any]:
        """An object."""
        found: dict[str, Any] = self._client.get(f"{collection_path(resource, namespace)}/{name}")
        return found

    def patch(self, resource: Resource, namespace: str, name: str, patch: Any, subresource: str = "") -> None:
        """Change an object."""
        path = f"{collection_path(resource, namespace)}/{name}{'/' * bool(subresource)}{subresource}"
        answer = self._client.send("PATCH", path, patch, Content_Type="application/merge-patch+json")
        assert answer.code == 200, answer.content


def still(text: str) -> str:
    """A text in which times and identifiers stand still; what is padded keeps its width."""
    for pattern, instead in VOLATILE:
        text = pattern.sub(instead, text)
    return AGE.sub(lambda found: "0s".ljust(len(found.group())), text)


def compare(name: str, text: str) -> None:
    """The text is that of the golden file, but for times and identifiers."""
    file = GOLDEN / name
    if os.environ.get("KILAUEA_UPDATE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(still(text))
    assert still(text) == file.read_text()


def data(text: str) -> Any:
    """JSON, decoded."""
    return json.loads(text)
