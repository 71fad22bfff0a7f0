"""A history that breaks a law becomes files from which `kilauea plan` shows the same fault."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, Phase, find, settings

from kilauea.cli.main import main
from over_time.configurations import CONFIGURATIONS
from over_time.failures import Judge, write
from over_time.history import History, play
from over_time.worlds import cases


def no_evictions(history: History) -> list[str]:
    """A law that no scheduler with preemption keeps."""
    return [f"nothing is evicted: {e.pod} for {e.by}" for m in history.quiet for e in m.plan.evictions]


def no_waiting(history: History) -> list[str]:
    """A law that a full cluster breaks."""
    return ["nothing waits: something does"] if history.moments[-1].plan.pending else []


def told_by(command: str) -> Any:
    result = CliRunner().invoke(main, [*shlex.split(command)[1:], "-o", "json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def played(name: str, judge: Judge) -> History:
    """The first random history that breaks a law."""
    quick = settings(
        max_examples=500,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    conf = CONFIGURATIONS[name]
    return play(conf, *find(cases(name), lambda case: bool(judge(play(conf, *case))), settings=quick))


@pytest.mark.parametrize("name", ["five", "tree", "gangs"])
def test_the_command_in_the_message_shows_the_fault(name: str, tmp_path: Path) -> None:
    history = played(name, no_evictions)
    *told, command = write(name, history, no_evictions(history), tmp_path, no_evictions).splitlines()
    shown = [
        f"nothing is evicted: {e['pod']} for {e['by']}" for c in told_by(command)["cycles"] for e in c["evictions"]
    ]
    assert shown == told


def test_the_files_tell_the_fault_and_the_command(tmp_path: Path) -> None:
    history = played("default", no_waiting)
    message = write("case", history, no_waiting(history), tmp_path, no_waiting)
    assert (tmp_path / "case.yaml").read_text().startswith("# nothing waits: something does\n# kilauea plan -f ")
    assert told_by(message.splitlines()[-1])["pending"]


def test_every_moment_of_a_history_is_enough_to_continue_from() -> None:
    history = played("five", no_evictions)
    for number, moment in enumerate(history.quiet):
        again = play(history.conf, moment.objects, now=moment.now)
        assert [m.plan for m in again.moments] == [m.plan for m in history.quiet[number:]]
