"""Files of environment variables that containers write for those that start after them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from kilauea.nodes.env_files import LARGEST, EnvFileError, value_in
from kilauea.nodes.environment import ConfigError, PodFacts, container_environment

POD: dict[str, Any] = {"metadata": {"name": "p", "namespace": "ns"}, "spec": {"containers": []}}
TEXT = """
# written by the first container
MODE='fast'  # for now
  INDENTED='yes'
LINES='one
two # no comment
three'
SPACED= 'no'
EMPTY=''
MODE='later'
"""


def written(folder: Path, text: str) -> Path:
    (folder / "config.env").write_text(text)
    return folder


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("MODE", "fast"),
        ("INDENTED", "yes"),
        ("LINES", "one\ntwo # no comment\nthree"),
        ("SPACED", ""),
        ("EMPTY", ""),
        ("OTHER", ""),
    ],
)
def test_a_value_is_what_stands_between_single_quotes(tmp_path: Path, key: str, value: str) -> None:
    assert value_in(written(tmp_path, TEXT), "config.env", key) == value


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("A='1'\nB", "line 2: missing '='"),
        ("='1'", "line 1: empty variable name"),
        ("A ='1'", "line 1: whitespace before '='"),
        ("A=1", "line 1: value must be enclosed in single quotes"),
        ("A='1' 2", "line 1: unexpected content after closing quote"),
        ("A='1\n2", "starting at line 1: unclosed single quote"),
    ],
)
def test_a_line_of_another_form_is_named(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(EnvFileError, match=problem):
        value_in(written(tmp_path, text), "config.env", "Z")


def test_only_regular_files_of_the_volume_are_read(tmp_path: Path) -> None:
    volume, other = tmp_path / "volume", tmp_path / "other"
    volume.mkdir()
    other.write_text("A='secret'")
    (volume / "link").symlink_to(other)
    os.mkfifo(volume / "pipe")
    (volume / "folder").mkdir()
    (volume / "large").write_bytes(b"#" * (LARGEST + 1))
    (volume / "inside").write_text("A='1'")
    (volume / "folder" / "inside").symlink_to("../inside")
    for path in ("link", "pipe", "folder", "large", "missing", "../other"):
        with pytest.raises(EnvFileError, match="failed to open"):
            value_in(volume, path, "A")
    assert value_in(volume, "folder/inside", "A") == "1"


def test_a_variable_has_the_value_in_the_file(tmp_path: Path) -> None:
    facts = PodFacts(POD, volumes={"config": written(tmp_path, TEXT)})

    def variables(**reference: Any) -> dict[str, str]:
        source = {"volumeName": "config", "path": "config.env", **reference}
        container = {"name": "main", "env": [{"name": "A", "valueFrom": {"fileKeyRef": source}}]}
        return container_environment(container, facts, lambda resource, key: None, {})

    assert variables(key="MODE") == {"A": "fast"}
    assert variables(key="OTHER", optional=True) == {}
    with pytest.raises(ConfigError, match='environment variable key "OTHER" not found'):
        variables(key="OTHER")
    with pytest.raises(ConfigError, match="couldn't parse env file"):
        variables(key="MODE", path="other.env")
    with pytest.raises(ConfigError, match='cannot find the volume "else"'):
        variables(key="MODE", volumeName="else")
