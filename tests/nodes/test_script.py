"""Commands of containers, and what they are taken to do."""

from __future__ import annotations

import pytest

from kilauea.api.times import SECOND
from kilauea.nodes.script import read_script


@pytest.mark.parametrize(
    ("text", "seconds", "code", "output"),
    [
        ("sleep 5", 5, 0, ()),
        ("sleep 1m", 60, 0, ()),
        ("sleep 0.5", 0.5, 0, ()),
        ("sleep 1 2", 3, 0, ()),
        ("sleep 5; exit 3", 5, 3, ()),
        ("echo hello; sleep 2; echo 'good bye'", 2, 0, ("hello", "good bye")),
        ("sleep 1 && exit 2", 1, 2, ()),
        ("sleep 1 || exit 2", 1, 0, ()),
        ("false || exit 4", 0, 4, ()),
        ("false && sleep 9", 0, 1, ()),
        ("exit 300", 0, 44, ()),
        ("false; exit", 0, 1, ()),
        ("set -e\nsleep 1 # a while\nexit 1\n", 1, 1, ()),
        ("python train.py && sleep 3", 3, 0, ()),
        ("exec sleep 4", 4, 0, ()),
        ("sleep 1; exit 0; sleep 100", 1, 0, ()),
        ("echo only", 0, 0, ("only",)),
    ],
)
def test_a_shell_command_takes_as_long_as_its_sleeps(text, seconds, code, output):
    script = read_script(("sh", "-c", text), ())
    assert script.tells_time
    assert (script.run_time, script.exit_code, script.output) == (seconds * SECOND, code, output)


@pytest.mark.parametrize(
    "text", ["while true; do echo x; sleep 1; done", "sleep infinity", "tail -f /dev/null", "while :; do sleep 9; done"]
)
def test_loops_without_an_end_run_for_ever(text):
    assert read_script(("/bin/bash", "-ec", text), ()).run_time is None
    assert read_script(("/bin/bash", "-ec", text), ()).tells_time


@pytest.mark.parametrize(
    "words",
    [(), ("nginx",), ("sh",), ("sh", "-c"), ("sh", "-c", "echo 'x"), ("sh", "-c", "python x.py"), ("sleep", "$N")],
)
def test_other_commands_do_not_tell_their_time(words):
    assert not read_script(words, ()).tells_time


def test_arguments_go_on_where_the_command_ends():
    assert read_script(("sh", "-c"), ("sleep 7",)).run_time == 7 * SECOND
    assert read_script((), ("sleep", "8")).run_time == 8 * SECOND
    assert read_script(("/bin/sleep",), ("9",)).run_time == 9 * SECOND
