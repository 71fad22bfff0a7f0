"""What files and plugins say reaches a terminal without anything that it would obey."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from kilauea.api.printing import printable
from kilauea.cli.data_text import escaped_json, json_text, yaml_text
from kilauea.cli.main import main
from kilauea.cli.table import table

RED = "\x1b[31mred"
BACKWARDS = "\u202egpj"
TWO_LINES = "one\ntwo"
SHOWN = {RED: r"\x1b[31mred", BACKWARDS: r"\u202egpj", TWO_LINES: r"one\ntwo"}

NODE = {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4", "pods": "9"}}}


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(main, arguments)
    assert not (set(result.output) - {"\n"}) & set("\x1b\u202e\r"), "a terminal would obey"
    return result


def group(name: str, **spec: Any) -> dict[str, Any]:
    return {"kind": "PodGroup", "metadata": {"name": name}, "spec": spec, "status": {"phase": "Inqueue"}}


def pod(name: str, of: str) -> dict[str, Any]:
    metadata = {"name": name, "annotations": {"scheduling.k8s.io/group-name": of}}
    return {"kind": "Pod", "metadata": metadata, "spec": {"schedulerName": "volcano", "containers": [{"name": "c"}]}}


def written(folder: Path, *objects: dict[str, Any], name: str = "cluster.json") -> str:
    file = folder / name
    file.write_text(json.dumps({"kind": "List", "items": [NODE, *objects]}))
    return str(file)


def test_text_without_such_characters_is_left_as_it_is() -> None:
    assert printable("Zürich 東京 naïve 1.5Gi") == "Zürich 東京 naïve 1.5Gi"


@pytest.mark.parametrize(("text", "shown"), SHOWN.items())
def test_such_characters_are_spelled_out(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable(shown) == shown


@given(st.text(st.characters()))
def test_any_text_becomes_one_line_that_can_be_printed(text: str) -> None:
    assert printable(text).isprintable()
    printable(text).encode()


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.dictionaries(TEXTS, TEXTS))
def test_any_data_is_printed_harmlessly_and_reads_back_as_it_was(data: dict[str, str]) -> None:
    in_json = [json_text(data), escaped_json(json.dumps(data, ensure_ascii=False))]
    in_yaml = yaml_text(data, sort_keys=False)
    assert all(printed.replace("\n", "").isprintable() for printed in [*in_json, in_yaml])
    assert [*map(json.loads, in_json), yaml.safe_load(in_yaml)] == [data] * 3


def test_data_that_prints_is_left_as_it_is() -> None:
    data = {"city": "Zürich 東京", "lines": "one\ntwo\n"}
    assert json_text(data) == json.dumps(data, indent=2, ensure_ascii=False)
    assert yaml_text(data, sort_keys=False) == yaml.safe_dump(data, sort_keys=False, allow_unicode=True)


@pytest.mark.parametrize("text", ["\x9b31mred", BACKWARDS])
@pytest.mark.parametrize("output", ["json", "yaml"])
def test_documents_show_what_objects_refer_to_harmlessly(text: str, output: str, tmp_path: Path) -> None:
    file = written(tmp_path, group("g", queue=text, minMember=1), pod("p", "g"))
    for words in (["plan", "-f", file], ["plan", "-f", file, "--explain", "default/g"]):
        printed = run(*words, "-o", output).stdout
        assert printed.replace("\n", "").isprintable()
        assert text in json.dumps(yaml.safe_load(printed), ensure_ascii=False)


def test_columns_are_as_wide_as_what_is_shown() -> None:
    assert table(["A", "B"], [[RED, "1"], ["x", "2"]]) == [
        "A             B",
        r"\x1b[31mred   1",
        "x             2",
    ]


@pytest.mark.parametrize(("text", "shown"), SHOWN.items())
def test_an_object_with_such_a_name_is_left_out_and_named(text: str, shown: str, tmp_path: Path) -> None:
    result = run("plan", "-f", written(tmp_path, {"kind": "Queue", "metadata": {"name": text}}))
    assert result.exit_code == 2
    assert f'"{shown}" is not a name' in result.stderr
    assert len(result.stderr.splitlines()) == 2  # the warning, and that the plan is not complete


@pytest.mark.parametrize(("text", "shown"), SHOWN.items())
@pytest.mark.parametrize("output", ["table", "wide"])
def test_what_objects_refer_to_is_shown_harmlessly(text: str, shown: str, output: str, tmp_path: Path) -> None:
    file = written(tmp_path, group("g", queue=text, minMember=1), pod("p", "g"))
    result = run("plan", "-f", file, "-o", output)
    assert f"queue {shown} of pod group default/g does not exist" in result.stdout
    assert f"warning: queue {shown}: it does not exist" in result.stderr
    assert (
        f"create queue {shown} (`vcctl queue create -n '{shown}'`), or correct the queue of its job"
        in run("plan", "-f", file, "--explain", "default/g").stdout
    )


@pytest.mark.parametrize(("text", "shown"), SHOWN.items())
def test_names_of_files_are_shown_harmlessly(text: str, shown: str, tmp_path: Path) -> None:
    broken = tmp_path / text
    broken.write_text("{")
    assert f"{shown}: " in run("queues", "-f", str(broken)).stderr
    assert f"{shown}: cannot be used" in run("config", "check", str(broken)).stdout
    assert run("plan", "-f", str(tmp_path / "none" / text)).exit_code == 2


def test_what_plugins_say_is_shown_harmlessly(tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text(
        "from kilauea.engine.plugin import Plugin\n\n\n"
        "class Loud(Plugin):\n    name = 'loud'\n\n"
        f"    def on_session_open(self, session):\n        raise ValueError({RED + TWO_LINES!r})\n"
    )
    conf = tmp_path / "scheduler.conf"
    conf.write_text("actions: allocate\ntiers:\n- plugins:\n  - name: loud\n")
    options = ("--scheduler-conf", str(conf), "--plugins-dir", str(tmp_path))
    result = run("plan", "-f", written(tmp_path), *options)
    assert r"\x1b[31mredone\ntwo" in result.stderr
    checked = run("config", "check", str(conf), "--plugins-dir", str(tmp_path))
    assert r"\x1b[31mredone\ntwo" in checked.stdout
