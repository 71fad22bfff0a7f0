"""The examples plan without warnings, and their tables are those in tests/golden.

KILAUEA_UPDATE_GOLDEN=1 writes the golden files again; the difference is then for review.
"""

from __future__ import annotations

import json
import os
import re
import runpy
from pathlib import Path

import pytest
from click.testing import CliRunner

from kilauea.cli.main import main
from kilauea.engine.cycle import default_conf
from kilauea.runtime.inputs.conf_file import read_conf

REPOSITORY = Path(__file__).resolve().parents[1]
EXAMPLES = REPOSITORY / "examples"
GOLDEN = Path(__file__).resolve().parent / "golden"
LOAD = ["--scheduler-conf", str(EXAMPLES / "scheduler-conf" / "load.conf")]
WORKLOADS = ["--scheduler-conf", str(EXAMPLES / "workloads" / "scheduler.conf")]
BINPACK = ["--scheduler-conf", str(EXAMPLES / "scheduler-conf" / "binpack.conf")]
CARDS = ["--scheduler-conf", str(EXAMPLES / "cards" / "scheduler.conf"), "-o", "wide"]


def placement(name: str) -> list[str]:
    """Options for an example in `placement`."""
    return ["--scheduler-conf", str(EXAMPLES / "placement" / f"{name}.conf"), "-o", "wide"]


def planned(folder: str, *options: str) -> str:
    """The table of an example; nothing may have been written to standard error."""
    result = CliRunner().invoke(main, ["plan", "-f", str(EXAMPLES / folder), *options])
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return result.stdout


def compare(name: str, text: str) -> None:
    """The text is that of the golden file, byte for byte."""
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("KILAUEA_UPDATE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    assert text == file.read_text()


@pytest.mark.parametrize(
    ("golden", "folder", "options"),
    [
        ("example-first-steps", "first-steps", []),
        ("example-demo", "demo", []),
        ("example-resource-claims", "resource-claims", []),
        ("example-extended-resources", "placement/extended-resources.yaml", ["-o", "wide"]),
        ("example-volumes", "volumes", []),
        ("example-shards", "shards", ["--scheduler-sharding-mode", "hard"]),
        ("example-shards-soft", "shards", ["--scheduler-sharding-mode", "soft", "-o", "wide"]),
        ("example-colocation", "placement/colocation.yaml", ["-o", "wide"]),
        ("example-demo-wide", "demo", ["-o", "wide"]),
        ("example-demo-second-cycle", "demo", ["--cycles", "2"]),
        ("example-demo-binpack", "demo", BINPACK),
        ("example-strategy-fit", "placement/strategy-fit.yaml", placement("strategy-fit")),
        ("example-task-topology", "placement/task-topology.yaml", placement("task-topology")),
        ("example-node-groups", "placement/node-groups.yaml", placement("node-groups")),
        ("example-cards", "cards", CARDS),
        ("example-mig", "placement/mig.yaml", CARDS),
        ("example-workloads", "workloads", WORKLOADS),
        ("example-load", "load", ["-o", "wide", *LOAD]),
    ],
)
def test_the_table_of_an_example_is_the_golden_one(golden: str, folder: str, options: list[str]) -> None:
    compare(golden, planned(folder, *options))


def test_the_default_configuration_written_out_is_the_built_in_one() -> None:
    written = read_conf(str(EXAMPLES / "scheduler-conf" / "default.conf"))
    assert written == default_conf()


@pytest.mark.parametrize(
    "path",
    sorted((*EXAMPLES.glob("scheduler-conf/*.conf"), *EXAMPLES.glob("placement/*.conf"))),
    ids=lambda path: path.name,
)
def test_a_configuration_has_no_findings(path: Path) -> None:
    assert read_conf(str(path)).findings == ()


def test_the_generated_files_of_the_demo_are_what_its_generator_writes() -> None:
    files = runpy.run_path(str(EXAMPLES / "demo" / "generate.py"))["files"]()
    assert {name: (EXAMPLES / "demo" / name).read_text() for name in files} == files


def test_the_index_tells_truly_which_pod_groups_of_the_demo_start() -> None:
    told = dict(re.findall(r"\| `(\w+/[\w-]+)` \| (starts|waits) \|", (EXAMPLES / "README.md").read_text()))
    plan = json.loads(planned("demo", "-o", "json"))
    started = {name.rsplit("-", 1)[0] if name[-1].isdigit() else name for name in plan["binds"]}
    waiting = {pending["podGroup"] for pending in plan["pending"]}
    assert told == dict.fromkeys(started, "starts") | dict.fromkeys(waiting, "waits")


def test_the_index_names_every_example_and_every_file_of_the_demo_that_is_written_by_hand() -> None:
    index = (EXAMPLES / "README.md").read_text()
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir()} - {"__pycache__"}
    assert {name for name in folders if f"]({name})" not in index} == set()
    manifests = {path.name for path in (EXAMPLES / "demo").glob("*.yaml")} - {"queues.yaml"}
    assert {name for name in manifests if f"`{name}`" not in index} == set()
