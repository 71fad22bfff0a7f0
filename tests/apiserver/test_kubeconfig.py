"""The kubeconfig that a server writes: beside what is in the file already."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

import pytest
import yaml

from kilauea.apiserver.http.credentials import Credentials, load_credentials, write_private
from kilauea.apiserver.http.kubeconfig import write_kubeconfig

URL = "https://127.0.0.1:1"


@pytest.fixture
def credentials(tmp_path: Path) -> Credentials:
    return load_credentials(tmp_path / "credentials", "127.0.0.1", datetime.datetime.now(datetime.UTC))


def test_other_clusters_of_the_file_stay(tmp_path: Path, credentials: Credentials) -> None:
    file = tmp_path / "config"
    other = {
        "apiVersion": "v1",
        "kind": "Config",
        "preferences": {"colors": True},
        "clusters": [{"name": "production", "cluster": {"server": "https://prod"}}, {"name": "kilauea", "cluster": {}}],
        "users": [{"name": "me", "user": {"token": "secret"}}],
        "contexts": [{"name": "production", "context": {"cluster": "production", "user": "me"}}],
        "current-context": "production",
    }
    file.write_text(yaml.safe_dump(other))
    for _ in range(2):
        write_kubeconfig(file, URL, credentials)
    found = yaml.safe_load(file.read_text())
    assert [(each["name"], each["cluster"]["server"]) for each in found["clusters"]] == [
        ("kilauea", URL),
        ("production", "https://prod"),
    ]
    assert [each["name"] for each in found["users"]] == ["kubernetes-admin", "me"]
    assert [each["name"] for each in found["contexts"]] == ["kilauea", "production"]
    assert (found["current-context"], found["preferences"]) == ("kilauea", {"colors": True})


@pytest.mark.parametrize("text", ["a: [", "- a", "kind: Pod", "kind: Config\nclusters: {}"])
def test_a_file_that_is_not_a_kubeconfig_is_not_written_over(
    tmp_path: Path, credentials: Credentials, text: str
) -> None:
    file = tmp_path / "config"
    file.write_text(text)
    with pytest.raises(OSError, match="not a kubeconfig"):
        write_kubeconfig(file, URL, credentials)
    assert file.read_text() == text


def test_a_pipe_is_not_waited_for(tmp_path: Path, credentials: Credentials) -> None:
    file = tmp_path / "config"
    os.mkfifo(file)
    with pytest.raises(OSError, match="not a kubeconfig: it is a pipe or a device"):
        write_kubeconfig(file, URL, credentials)


def test_a_link_in_a_folder_of_others_is_not_followed(tmp_path: Path) -> None:
    precious, file = tmp_path / "precious", tmp_path / "config"
    precious.write_text("kept")
    (tmp_path / f".config.{os.getpid()}").symlink_to(precious)
    file.symlink_to(precious)
    write_private(file, b"token")
    assert (precious.read_text(), file.read_text(), file.is_symlink()) == ("kept", "token", False)
    assert file.stat().st_mode & 0o777 == 0o600
