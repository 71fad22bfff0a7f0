"""`kilauea simulate`, `compare` and `advise`: what they print, and what they refuse."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kilauea.cli.main import main
from kilauea.simulator.replay.comparing import difference, quantile

NODES = "name,cpu,memory,gpu\nn0,8,64Gi,8\nn1,8,64Gi,8\n"
JOBS = "submit,duration,pods,gpu,queue\n" + "".join(
    f"{number * 200},{300 + number % 7 * 300},{1 + number % 2},{2 + number % 3},{'ab'[number % 2]}\n"
    for number in range(24)
)
LARGER = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: a}\nspec: {weight: 3}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A cluster, a trace and a variant."""
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "jobs.csv").write_text(JOBS)
    (tmp_path / "larger.yaml").write_text(LARGER)
    return tmp_path


def run(folder: Path, *words: str) -> Result:
    """The result of a command; files are those of the folder."""
    files = [word.replace("@", f"{folder}/") for word in words]
    return CliRunner().invoke(main, files)


def simulated(folder: Path, *more: str) -> Result:
    """The result of a simulation of the trace."""
    return run(folder, "simulate", "--nodes", "@nodes.csv", "--trace", "@jobs.csv", *more)


def reported(folder: Path, *more: str) -> dict[str, Any]:
    """The report of a simulation."""
    result = simulated(folder, *more, "-o", "json")
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_the_table_has_a_column_for_each_configuration_and_a_line_for_each_queue(folder: Path) -> None:
    result = simulated(folder, "--variant", "larger=@larger.yaml")
    lines = result.stdout.splitlines()
    assert lines[0].endswith("jobs.csv (csv): 24 jobs, 36 pods over 1.3h")
    assert lines[2].split() == ["built-in", "larger"]
    assert ["jobs", "completed", "24", "24"] in [line.split() for line in lines]
    assert [line.split()[:2] for line in lines if line.startswith(("a ", "b "))] == [
        ["a", "built-in"],
        ["a", "larger"],
        ["b", "built-in"],
        ["b", "larger"],
    ]
    assert "queue b of 12 jobs does not exist: added with weight 1" in result.stderr
    assert "2 simulations of 24 jobs" in result.stderr


def test_reports_are_the_same_byte_for_byte_and_have_no_wall_clock(folder: Path) -> None:
    first, second = (simulated(folder, "-o", "json").stdout for _ in range(2))
    assert first == second


@pytest.mark.slow
def test_load_and_window_change_what_is_simulated(folder: Path) -> None:
    assert reported(folder, "--from", "1000s", "--for", "2000s")["trace"]["jobs"] == 10
    calm, busy = (reported(folder, "--load", load)["configurations"][0]["runs"][0] for load in ("0.2", "3"))
    assert calm["wait"]["mean"] < busy["wait"]["mean"]


class Page(HTMLParser):
    """The tags of a page, and the texts in them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]


def test_the_page_is_complete_in_itself_and_shows_markup_as_text(folder: Path) -> None:
    (folder / "<script>alert(1)<").write_text(LARGER)
    result = simulated(folder, "--variant", "<b>x</b>=@<script>alert(1)<", "--page", "@page.html")
    assert result.exit_code == 0, result.stderr
    text = (folder / "page.html").read_text()
    page = Page(text)
    assert not {"script", "link", "img", "b"} & set(page.tags)
    assert page.links == []
    assert "&lt;b&gt;x&lt;/b&gt;" in text
    assert page.tags.count("svg") >= 7
    # Without colour, the second configuration differs by its dashes and its hatching, also in the legend.
    assert text.count('class="line s1" stroke-dasharray="6 3"') >= 2 * text.count("time since the start") - 2
    assert 'class="bar s1"' in text
    assert 'fill="url(#hatch-1)"' in text
    assert "default-src 'none'" in text


@pytest.mark.slow
def test_compare_gives_intervals_over_pairs_of_traces(folder: Path) -> None:
    report = simulated(folder, "--variant", "larger=@larger.yaml", "--seeds", "3", "-o", "json").stdout
    (folder / "report.json").write_text(report)
    result = run(folder, "compare", "@report.json")
    assert result.exit_code == 0, result.stderr
    assert "Student's t at 95% over the differences on 3 traces" in result.stdout
    data = json.loads(run(folder, "compare", "@report.json", "-o", "json").stdout)
    [comparison] = data["comparisons"]
    waits = {each["queue"]: each for each in comparison["figures"] if each["figure"] == "wait mean"}
    assert set(waits) == {None, "a", "b"}
    assert waits["a"]["mean"] < 0 or waits["a"]["verdict"] != "better"
    assert all(each["low"] <= each["mean"] <= each["high"] for each in comparison["figures"])


def test_one_trace_gives_no_interval(folder: Path) -> None:
    report = simulated(folder, "--variant", "larger=@larger.yaml", "-o", "json").stdout
    (folder / "report.json").write_text(report)
    assert "simulate with --seeds 10 or more" in run(folder, "compare", "@report.json").stdout


def test_configurations_of_other_traces_are_not_compared(folder: Path) -> None:
    (folder / "one.json").write_text(simulated(folder, "-o", "json").stdout)
    (folder / "two.json").write_text(simulated(folder, "--load", "2", "-o", "json").stdout)
    result = run(folder, "compare", "@one.json", "@two.json")
    assert result.exit_code == 2
    assert "ran on other traces or under other conditions" in result.stderr


@pytest.mark.slow
def test_advice_names_the_change_the_gain_and_the_losers(folder: Path) -> None:
    result = run(folder, "advise", "--nodes", "@nodes.csv", "--trace", "@jobs.csv", "-o", "json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)["proposals"]
    changes = {each["change"] for each in found}
    assert {"without backfill", "with binpack, weight 10", "weight of a: 1 to 2", "weight of b: 1 to 2"} == changes
    gains = [each["wait_mean"]["mean"] for each in found]
    assert gains == sorted(gains)
    assert next(each for each in found if each["change"].startswith("weight of a"))["fix"] == (
        """kubectl patch queue a --type merge -p '{"spec":{"weight":2}}'"""
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param("simulate --trace @absent.csv", "absent.csv: No such file or directory", id="no trace"),
        pytest.param("simulate --trace @jobs.csv", "no nodes: specify a cluster with -f", id="no nodes"),
        pytest.param(
            "simulate --nodes @nodes.csv --trace @jobs.csv --from 10h", "no job is submitted between", id="no jobs left"
        ),
        pytest.param(
            "simulate --nodes @nodes.csv --trace @jobs.csv --variant x",
            "'x' is not NAME=PATH",
            id="no name of a variant",
        ),
        pytest.param("simulate --nodes @jobs.csv --trace @jobs.csv", "not a table of nodes", id="jobs as nodes"),
        pytest.param("simulate --nodes @nodes.csv --trace @nodes.csv", "no column submit", id="nodes as jobs"),
        pytest.param("simulate --nodes @nodes.csv --trace @", "is a folder: specify a file", id="a folder"),
        pytest.param(
            "simulate --nodes @nodes.csv --trace @jobs.csv --page @absent/page.html",
            "there is no folder",
            id="no folder",
        ),
        pytest.param("compare @jobs.csv", "not JSON", id="no report"),
        pytest.param("compare @absent.json", "No such file or directory", id="no file"),
        pytest.param(
            "advise --nodes @nodes.csv --trace @jobs.csv --for-queue c",
            "the trace has no jobs in c",
            id="unknown queue",
        ),
    ],
)
def test_what_cannot_be_used_is_refused(folder: Path, words: str, message: str) -> None:
    result = run(folder, *words.split())
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize(
    ("second", "better", "verdict"),
    [
        pytest.param([9.0, 8.9, 9.1], -1, "better", id="less is better"),
        pytest.param([9.0, 8.9, 9.1], 1, "worse", id="more is better"),
        pytest.param([5.0, 15.0, 10.2], -1, "unclear", id="the interval contains zero"),
        pytest.param([10.0, 10.0, 10.0], -1, "same", id="no difference"),
        pytest.param([9.0, 8.9, 9.1], 0, "changed", id="neither is better"),
    ],
)
def test_a_verdict_follows_from_the_interval(second: list[float], better: int, verdict: str) -> None:
    found = difference([10.0, 10.0, 10.0], second, better)
    assert found is not None
    assert found.verdict == verdict


def test_quantiles_of_student_come_close_to_the_normal_ones() -> None:
    assert quantile(1) == 12.706
    assert quantile(60) == pytest.approx(2.000, abs=0.002)
    assert quantile(10**6) == pytest.approx(1.960, abs=0.001)
