"""The folder and the variables of a command whose pods are processes of this machine."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from kilauea.api.ports import Listed
from kilauea.cli.jobs import place
from kilauea.cli.jobs.manifest import Request, job_for
from kilauea.cli.vcctl.command import CommandError


def container(job: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    return found


def placed(folder: str, export: str, *, here: bool, command: tuple[str, ...] = ("true",)) -> dict[str, Any]:
    job = job_for(Request(command, "default", variables=("OWN=1",)))
    place.put_in_place(job, folder, export, here=here)
    return container(job)


def test_elsewhere_a_job_has_its_own_variables_and_the_folder_of_its_image() -> None:
    found = placed("", "", here=False)
    assert found["env"] == [{"name": "OWN", "value": "1"}]
    assert "workingDir" not in found
    assert placed("/data", "", here=False)["workingDir"] == "/data"


def test_on_this_machine_a_job_runs_in_the_current_folder_with_the_users_variables(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GREETING", "it costs $$5 at $(OWN)")
    monkeypatch.setenv("BASH_FUNC_x%%", "() { true; }")
    found = placed("", "", here=True, command=("echo", "$(GREETING)", "$(date)"))
    env = {each["name"]: each["value"] for each in found["env"]}
    assert found["workingDir"] == str(tmp_path)
    assert env["OWN"] == "1"
    assert env["GREETING"] == "it costs $$$$5 at $$(OWN)"  # kubelets make two of four signs
    assert not {"BASH_FUNC_x%%", "PWD", "_"} & env.keys()
    assert found["command"] == ["echo", "$$(GREETING)", "$(date)"]
    (tmp_path / "sub").mkdir()
    assert placed("sub", "NONE", here=True)["workingDir"] == str(tmp_path / "sub")


def shares(working: Path, *files: str) -> list[str]:
    job = job_for(Request(("true",), "default"))
    place.put_in_place(job, str(working), "NONE", here=True, files=files)
    mounts = container(job)["volumeMounts"]
    volumes = {each["name"]: each["hostPath"] for each in job["spec"]["tasks"][0]["template"]["spec"]["volumes"]}
    assert [volumes[each["name"]] for each in mounts] == [
        {"path": each["mountPath"], "type": "Directory"} for each in mounts
    ]
    return [each["mountPath"] for each in mounts]


def test_on_this_machine_a_job_shares_the_folders_in_which_it_works_and_writes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home, scratch, logs = tmp_path / "home", tmp_path / "scratch", tmp_path / "logs"
    for folder in (home / "project", scratch / "logs", logs):
        folder.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    assert shares(home / "project") == [str(home)]
    assert shares(scratch) == [str(scratch)]
    assert shares(scratch, "logs/%j.txt", f"{logs}/%x/err") == [str(logs), str(scratch)]
    assert shares(scratch, "/dev/null", str(tmp_path / "missing" / "out")) == [str(scratch)]
    monkeypatch.setenv("HOME", "/")
    assert shares(scratch) == [str(scratch)]


def test_on_this_machine_a_job_avoids_simulated_nodes(tmp_path: Path) -> None:
    for here, expected in ((True, {"kilauea.dev/runtime": "process"}), (False, None)):
        job = job_for(Request(("true",), "default"))
        place.put_in_place(job, str(tmp_path), "NONE", here=here)
        assert job["spec"]["tasks"][0]["template"]["spec"].get("nodeSelector") == expected


def test_a_working_folder_that_this_machine_lacks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="/missing is not a folder of this machine"):
        placed(str(tmp_path / "missing"), "NONE", here=True)


def test_export_takes_names_and_values() -> None:
    environment = {"A": "1", "B": "2"}
    assert place.exported("A,C=3", environment) == {"A": "1", "C": "3"}
    assert place.exported("ALL,B=4", environment) == {"A": "1", "B": "4"}
    assert place.exported("NONE", environment) == {}
    with pytest.raises(CommandError, match="--export: D is not set: set it, or use D=VALUE"):
        place.exported("D", environment)
    with pytest.raises(CommandError, match='"1x" is not the name of a variable'):
        place.exported("1x=2", environment)


class Nodes:
    """An API server with one node."""

    def __init__(self, runtime: str, boot: str) -> None:
        metadata = {"name": "n", "annotations": {"kilauea.dev/runtime": runtime}}
        self.node = {"metadata": metadata, "status": {"nodeInfo": {"bootID": boot}}}

    async def list(self, *about: object) -> Listed:
        return Listed([json.dumps(self.node).encode()], "1")


@pytest.mark.parametrize(
    ("runtime", "boot", "server", "here"),
    [
        ("process", "this", "https://127.0.0.1:6443", True),
        ("process", "this", "https://[::1]:6443", True),
        ("process", "other", "https://localhost:6443", False),
        ("process", "this", "https://cluster.example:6443", False),
        ("", "this", "https://127.0.0.1:6443", False),
    ],
)
def test_pods_run_here_if_a_node_says_so_that_was_started_with_this_machine(
    runtime: str, boot: str, server: str, here: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "boot").write_text("this\n")
    monkeypatch.setattr(place, "BOOT", tmp_path / "boot")
    api: Any = Nodes(runtime, boot)
    assert asyncio.run(place.is_this_machine(api, server)) is here
