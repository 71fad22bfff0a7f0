"""`kilauea run` where pods are processes of this machine: its standard input, its signals, and its exit code."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.api_process import Server
from cluster.processes.process_cluster import process_cluster
from support.vcctl_runs import Console

SECONDS = 240.0
"""After which a command that does not end is given up."""
SMALL = ("run", "-Q", "-c", "100m")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with process_cluster(tmp_path_factory.mktemp("run")) as cluster:
        yield cluster.start()


@pytest.fixture(autouse=True)
def heeded_signals() -> Iterator[None]:
    """Commands inherit ignored signals: SIGHUP under nohup, SIGINT in a shell's background. They heed them here."""
    ignored = [each for each in (signal.SIGINT, signal.SIGHUP) if signal.getsignal(each) is signal.SIG_IGN]
    for each in ignored:
        signal.signal(each, signal.SIG_DFL)
    yield
    for each in ignored:
        signal.signal(each, signal.SIG_IGN)


def begin(server: Server, *words: str, stdin: Any = subprocess.DEVNULL, **options: Any) -> subprocess.Popen[str]:
    """Start a command of kilauea."""
    return subprocess.Popen(
        [sys.executable, "-m", "kilauea", *words],
        env={**os.environ, "KUBECONFIG": str(server.kubeconfig)},
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def ran(server: Server, *words: str, given: str | None = None) -> tuple[int, str, str]:
    """Run a command of kilauea to its end; return its exit code, its output and its messages."""
    with begin(server, *words, stdin=subprocess.DEVNULL if given is None else subprocess.PIPE) as process:
        try:
            out, err = process.communicate(given, timeout=SECONDS)
        finally:
            process.kill()
    return process.returncode, out, err


def test_every_copy_gets_all_of_the_standard_input(server: Server) -> None:
    code, out, err = ran(server, *SMALL, "-n", "2", "--", "sh", "-c", "cat; exit 3", given="one\ntwo\n")
    assert (code, sorted(out.splitlines())) == (3, ["0: one", "0: two", "1: one", "1: two"]), err


def test_input_that_is_larger_than_all_buffers_comes_whole(server: Server) -> None:
    given = "0123456789abcde\n" * 500_000
    assert ran(server, *SMALL, "--", "wc", "-lc", given=given)[:2] == (0, f" 500000 {len(given)}\n")


def test_without_input_a_command_finds_its_end_at_once(server: Server) -> None:
    assert ran(server, *SMALL, "--", "cat") == (0, "", "")
    assert ran(server, *SMALL, "--input", "none", "--", "cat", given="not read") == (0, "", "")
    assert ran(server, *SMALL, "--array", "0,1", "--", "cat", given="not read") == (0, "", "")


def test_a_command_may_end_before_it_has_read_its_input(server: Server) -> None:
    code, out, err = ran(server, *SMALL, "--", "sh", "-c", "read line; echo $line; exit 5", given="first\n" * 100_000)
    assert (code, out, err.count("\n")) == (5, "first\n", 1)


def test_what_is_typed_reaches_the_command_and_ctrl_c_ends_it(server: Server) -> None:
    ours, theirs = os.openpty()

    def in_terminal() -> None:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    script = "read name; echo hello $name; trap 'echo interrupted; exit 9' INT; while :; do sleep 0.05; done"
    with begin(server, *SMALL, "--", "sh", "-c", script, stdin=theirs, preexec_fn=in_terminal) as process:
        try:
            assert process.stdout is not None
            os.write(ours, b"world\n")
            assert process.stdout.readline() == "hello world\n"
            os.write(ours, b"\x03")
            out, err = process.communicate(timeout=SECONDS)
        finally:
            process.kill()
            os.close(ours)
            os.close(theirs)
    assert (process.returncode, out) == (130, "interrupted\n")
    assert "30s to end after SIGINT" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_program_gets_the_signal_that_was_sent(server: Server, number: signal.Signals) -> None:
    name = number.name.removeprefix("SIG")
    inner = f"trap 'echo {name}; exit 1' {name}; echo ready; while :; do sleep 0.05; done"
    # The shell around it does nothing about the signal, and does not go on to its next command.
    with begin(server, *SMALL, "--", "sh", "-c", f'sh -c "{inner}"; echo next command') as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            process.send_signal(number)
            out, _ = process.communicate(timeout=SECONDS)
        finally:
            process.kill()
    assert (process.returncode, out) == (128 + number, f"{name}\n")


def test_a_program_that_does_nothing_about_a_signal_ends_at_once(server: Server) -> None:
    with begin(server, *SMALL, "--", "sh", "-c", "echo ready; exec sleep 1000") as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            started = time.monotonic()
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=SECONDS)
        finally:
            process.kill()
    assert process.returncode == 130
    assert time.monotonic() - started < 25, "it had to be killed after its grace period of 30 s"


def test_copies_that_start_again_find_their_input_at_its_end(server: Server, tmp_path: Path) -> None:
    mark = tmp_path / "started"
    script = f"if [ -e {mark} ]; then cat; echo again; else touch {mark}; cat; echo first; sleep 1000; fi"
    words = (*SMALL, "-J", "again", "-D", str(tmp_path), "--", "sh", "-c", script)
    with begin(server, *words, stdin=subprocess.PIPE) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("given\n")
            process.stdin.close()
            assert [process.stdout.readline() for _ in range(2)] == ["given\n", "first\n"]
            Console(server.kubeconfig).good("vcctl", "job", "restart", "again")
            assert process.stdout.read() == "again\n"
            assert process.wait(SECONDS) == 0
        finally:
            process.kill()


def test_the_exit_code_of_a_script_is_that_of_batch_with_wait(server: Server) -> None:
    for words, code in ((("--wrap", "exit 4"), 4), (("--array", "0,6,3", "--wrap", "exit $SLURM_ARRAY_TASK_ID"), 6)):
        assert ran(server, "batch", "--wait", *words)[0] == code
