"""How long pods take to end, by what their containers say."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.api.times import SECOND
from kilauea.nodes.stopping import FOR_EVER, stop_time
from support.simulated import pod

LOOP = "while true; do sleep 1; done"
FUNCTION = f"_term(){{\n\tsleep 5\n\texit 143\n}}\ntrap _term SIGTERM\n{LOOP}"


@pytest.mark.parametrize(
    ("script", "seconds"),
    [
        (LOOP, 0),
        (f"trap 'sleep 3; exit 0' TERM; {LOOP}", 3),
        (f'trap "sleep 3 && exit 1" INT TERM; {LOOP}', 3),
        (f"trap 'exit 0' 15\n{LOOP}", 0),
        (FUNCTION, 5),
        (f"trap -- 'sleep 3; exit' SIGTERM; {LOOP}", 3),
        pytest.param(f"trap '' TERM; {LOOP}", None, id="ignores the signal"),
        pytest.param(f"trap 'echo no' TERM; {LOOP}", None, id="goes on after its handler"),
        pytest.param(f"trap 'sleep 3; exit' INT; {LOOP}", 0, id="another signal"),
        pytest.param(f"trap missing TERM; {LOOP}", 0, id="no such function"),
        pytest.param(f"trap 'my-program; exit' TERM; {LOOP}", 0, id="an unknown command"),
        pytest.param("echo it is a trap", 0, id="only the word"),
    ],
)
def test_a_command_takes_as_long_to_end_as_its_trap(script: str, seconds: int | None) -> None:
    assert stop_time(pod(command=script)) == (FOR_EVER if seconds is None else seconds * SECOND)


@pytest.mark.parametrize(
    ("hook", "seconds"),
    [
        ({"sleep": {"seconds": 4}}, 4),
        ({"exec": {"command": ["sh", "-c", "sleep 7"]}}, 7),
        ({"exec": {"command": ["sleep", "2"]}}, 2),
        ({"exec": {"command": ["my-program"]}}, 0),
        ({"exec": {"command": ["sh", "-c", LOOP]}}, None),
        ({"httpGet": {"port": 80}}, 0),
    ],
)
def test_a_hook_takes_as_long_as_it_says(hook: dict[str, Any], seconds: int | None) -> None:
    made = pod()
    made["spec"]["containers"][0]["lifecycle"] = {"preStop": hook}
    assert stop_time(made) == (FOR_EVER if seconds is None else seconds * SECOND)


def test_the_signal_comes_after_the_hook() -> None:
    made = pod(command=FUNCTION)
    made["spec"]["containers"][0]["lifecycle"] = {"preStop": {"sleep": {"seconds": 4}}}
    assert stop_time(made) == 9 * SECOND
