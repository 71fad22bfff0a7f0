"""Proposals of `kilauea advise` are true: made as they say and simulated, they have that gain and those losers."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from kilauea.cli.main import main

NODES = "name,cpu,memory,gpu\n" + "".join(f"n{number},8,64Gi,8\n" for number in range(3))
PLUGINS = ("priority", "gang", "predicates", "nodeorder")
WEIGHTS = {"actions": "enqueue, allocate, backfill", "plugins": [*PLUGINS, "proportion"]}
AMOUNTS = {"actions": "enqueue, allocate, reclaim", "plugins": [*PLUGINS, "capacity"]}
CARD = "nvidia.com/gpu"


def jobs(step: int) -> str:
    """A trace of short gangs and long single pods; `step` seconds are between two of them."""
    return "submit,duration,pods,gpu,queue\n" + "".join(
        f"{number * step},{120 + number % 5 * 900},{1 + number % 3},{1 + number % 4},{'abb'[number % 3]}\n"
        for number in range(36)
    )


def queue(name: str, cards: int) -> dict[str, Any]:
    """A queue that deserves a number of cards."""
    deserved = {"cpu": str(cards), "memory": f"{8 * cards}Gi", CARD: str(cards)}
    spec = {"weight": 1, "reclaimable": True, "deserved": deserved}
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def written(conf: dict[str, Any]) -> str:
    """A configuration as a file has it."""
    tiers = [{"plugins": [each if isinstance(each, dict) else {"name": each} for each in conf["plugins"]]}]
    return yaml.safe_dump({"actions": conf["actions"], "tiers": tiers})


def applied(
    fix: str, conf: dict[str, Any], queues: list[dict[str, Any]]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The configuration and the queues after what a line of advice says."""
    queues = json.loads(json.dumps(queues))
    specs = {each["metadata"]["name"]: each["spec"] for each in queues}
    if fix.startswith("kubectl"):
        for command in fix.split("; "):
            *_, name, _, _, _, patch = shlex.split(command)
            specs[name].update(json.loads(patch)["spec"])
    elif "actions:" in fix:
        conf = conf | {"actions": fix.partition('"')[2].rstrip('"')}
    elif "remove the plugin binpack" in fix:
        conf = conf | {"plugins": [each for each in conf["plugins"] if each != "binpack"]}
    else:
        plugin = yaml.safe_load(fix.partition(": ")[2])
        conf = conf | {"plugins": [*conf["plugins"], plugin]}
    return conf, queues


def simulated(folder: Path, conf: dict[str, Any], queues: list[dict[str, Any]]) -> dict[str, Any]:
    """The figures of a simulation."""
    (folder / "conf").write_text(written(conf))
    (folder / "queues.yaml").write_text(yaml.safe_dump_all(queues))
    words = ["simulate", *files(folder), "-o", "json"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)["configurations"][0]["runs"][0]
    return found


def files(folder: Path) -> list[str]:
    """Options that name the cluster, the trace and the configuration."""
    named = (("-f", "queues.yaml"), ("--nodes", "nodes.csv"), ("--trace", "jobs.csv"), ("--conf", "conf"))
    return [word for option, name in named for word in (option, str(folder / name))]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("conf", "step", "changes"),
    [
        pytest.param(WEIGHTS, 100, {"weight", "without", "with"}, id="weights, a busy trace"),
        pytest.param(AMOUNTS, 60, {"deserved", "with"}, id="deserved amounts, a busier trace"),
    ],
)
def test_a_change_that_is_made_as_advised_has_the_gain_and_the_losers_that_were_told(
    tmp_path: Path, conf: dict[str, Any], step: int, changes: set[str]
) -> None:
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "jobs.csv").write_text(jobs(step))
    queues = [queue("a", 16), queue("b", 8)]
    base = simulated(tmp_path, conf, queues)
    result = CliRunner().invoke(main, ["advise", *files(tmp_path), "-o", "json"])
    assert result.exit_code == 0, result.stderr
    proposals = json.loads(result.stdout)["proposals"]
    assert {each["change"].split(" ")[0] for each in proposals} == changes
    for each in proposals:
        after = simulated(tmp_path, *applied(each["fix"], conf, queues))
        gain = after["wait"]["mean"] - base["wait"]["mean"]
        assert gain == pytest.approx(each["wait_mean"]["mean"], abs=0.001), each
        grown = {
            name: found["wait"]["mean"] - base["queues"][name]["wait"]["mean"]
            for name, found in after["queues"].items()
            if found["wait"]["mean"] is not None
        }
        losers = {re.split(r"[ ?]", name)[0] for name in each["losers"]}
        noticed = {name for name, more in grown.items() if more > 0.05 * max(base["queues"][name]["wait"]["mean"], 1)}
        assert losers == noticed, each
    assert any(abs(each["wait_mean"]["mean"]) > 1 for each in proposals), (
        "a trace on which nothing matters tests nothing"
    )
