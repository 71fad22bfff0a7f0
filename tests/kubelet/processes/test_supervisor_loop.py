"""The event loop of the supervisor."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from kilauea.kubelet.processes.supervisor.loop import Loop


@pytest.fixture
def loop() -> Iterator[Loop]:
    before = signal.getsignal(signal.SIGCHLD)
    made = Loop()
    yield made
    for end in made._wake:
        end.close()
    made._selector.close()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, before)


def test_what_was_ready_before_its_number_was_given_to_another_is_not_called(loop: Loop) -> None:
    called: list[str] = []
    pipes = [os.pipe() for _ in range(2)]

    def replace(own: int, other: int) -> None:
        """Close the other pipe, and open one that gets its number."""
        called.append("first")
        loop.forget(own)
        loop.forget(other)
        os.close(other)
        reader, writer = os.pipe()
        assert reader == other
        loop.watch(reader, new)
        loop.after(0, lambda: os.write(writer, b"x"))

    def new() -> None:
        called.append("new")
        loop.stop()

    (one, to_one), (two, to_two) = pipes
    loop.watch(one, lambda: replace(one, two))
    loop.watch(two, lambda: replace(two, one))
    for writer in (to_one, to_two):
        os.write(writer, b"x")
    loop.run()
    assert called == ["first", "new"]


def test_a_callback_that_fails_leaves_the_others_alone(loop: Loop, capfd: pytest.CaptureFixture[str]) -> None:
    loop.after(0, lambda: 1 // 0)
    loop.after(0, loop.stop)
    loop.run()
    assert "ZeroDivisionError" in capfd.readouterr().err
