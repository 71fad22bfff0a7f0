"""`kilauea run` at a whole cluster: the output of its copies as they write it, its messages, signals and exit code."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from cluster.api_process import Server
from cluster.up_process import running_up, start_up
from kilauea.api.kinds import VC_JOBS
from support.vcctl_runs import Console, Objects

LONGEST = 240.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_up(tmp_path_factory.mktemp("run") / "data", "--nodes", "2", "--node-cpu", "4") as running:
        yield running


@pytest.fixture
def console(server: Server) -> Console:
    return Console(server.kubeconfig)


@pytest.fixture
def objects(server: Server) -> Objects:
    return Objects(server.client())


class Lines:
    """What a process writes, line by line, read as it comes."""

    def __init__(self, file: IO[str]) -> None:
        self._lines: queue.Queue[str] = queue.Queue()
        self._file = file
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._file:
            for line in self._file:
                self._lines.put(line.rstrip("\n"))

    def next(self, word: str = "") -> str:
        """The next line that has a word in it; what `kilauea run` says about simulated nodes is left out."""
        while True:
            line = self._lines.get(timeout=LONGEST)
            if word in line and "simulated" not in line:
                return line

    def rest(self) -> list[str]:
        """All that comes until the end."""
        self._thread.join(LONGEST)
        assert not self._thread.is_alive(), "the command does not end"
        return [self._lines.get() for _ in range(self._lines.qsize())]


class Command:
    """A command that runs: its output, its messages, and its end."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self.process = process
        self.out, self.err = Lines(process.stdout), Lines(process.stderr)

    def end(self) -> tuple[int, list[str], list[str]]:
        """Wait for its end; return its exit code and what it still wrote."""
        out, err = self.out.rest(), self.err.rest()
        return self.process.wait(LONGEST), out, err


def start(server: Server, *words: str) -> subprocess.Popen[str]:
    """Start a command."""
    return subprocess.Popen(
        [sys.executable, "-m", "kilauea", *words],
        env={**os.environ, "KUBECONFIG": str(server.kubeconfig)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def started(server: Server, *words: str) -> Iterator[Command]:
    """A command for the length of a block."""
    with start(server, *words) as process:
        try:
            yield Command(process)
        finally:
            process.kill()


def phase(objects: Objects, name: str) -> str:
    found: str = objects.one(VC_JOBS, "default", name).get("status", {}).get("state", {}).get("phase", "")
    return found


def test_run_shows_the_output_of_a_job_and_ends_with_its_exit_code(console: Console) -> None:
    ran = console("kilauea", "run", "-J", "one", "--", "sh", "-c", "echo first; sleep 1; echo last; exit 7")
    assert ran.code == 7
    assert ran.out.splitlines()[1:-1] == ["first", "last"]
    said = ran.err.splitlines()
    assert said[0] == "one: submitted to queue default: 1 copy of 1 cpu"
    assert said[-1] == "one: Failed with exit code 7"


def test_lines_of_several_copies_begin_with_the_number_of_the_copy(console: Console) -> None:
    script = "echo copy $VC_TASK_INDEX; sleep 1; echo done"
    ran = console("kilauea", "run", "-Q", "-J", "many", "-n", "3", "--", "sh", "-c", script)
    assert (ran.code, ran.err) == (0, "")
    for copy in range(3):
        own = [line for line in ran.out.splitlines() if line.startswith(f"{copy}: ")]
        assert own[1:-1] == [f"{copy}: copy {copy}", f"{copy}: done"]
    plain = console("kilauea", "run", "-Q", "-n", "2", "--no-label", "--", "sh", "-c", "echo done; sleep 1")
    assert plain.out.splitlines().count("done") == 2


def test_run_says_why_a_job_waits_and_ctrl_c_ends_the_job(server: Server, objects: Objects) -> None:
    with started(server, "run", "-J", "waits", "-c", "100", "--", "sleep", "1000") as running:
        assert "cpu" in running.err.next("waits: waits: ")
        running.process.send_signal(signal.SIGINT)
        code, out, err = running.end()
    assert (code, out) == (130, [])
    assert "waits: SIGINT: ending the job, its copies have 30s to end after SIGTERM" in "\n".join(err)
    assert phase(objects, "waits") == "Terminated"


def test_a_signal_that_comes_twice_at_once_ends_the_job_as_one_does(server: Server, objects: Objects) -> None:
    with started(server, "run", "-J", "twice", "--", "sh", "-c", "echo at work; sleep 1000") as running:
        assert running.out.next() == "at work"
        for _ in range(2):  # as `timeout` sends it: to the process, and to its group
            running.process.terminate()
        code, _, err = running.end()
    assert (code, "Left at once" in "\n".join(err)) == (143, False)
    assert phase(objects, "twice") == "Terminated"


def test_sigterm_ends_a_job_that_runs_and_what_it_has_written_is_shown(server: Server, objects: Objects) -> None:
    with started(server, "run", "-J", "termed", "--", "sh", "-c", "echo at work; sleep 1000") as running:
        assert running.out.next() == "at work"
        running.process.terminate()
        assert running.end()[0] == 143
    assert phase(objects, "termed") == "Terminated"


def test_a_job_ends_when_what_reads_its_output_has_ended(server: Server, objects: Objects) -> None:
    words = ("run", "-J", "piped", "--", "sh", "-c", "while true; do echo more; sleep 1; done")
    with start(server, *words) as running:
        try:
            assert running.stdout is not None
            assert running.stderr is not None
            running.stdout.readline()
            running.stdout.close()
            err = running.stderr.read()
            assert running.wait(LONGEST) == 141
        finally:
            running.kill()
    assert "piped: standard output was closed: ending the job" in err
    assert phase(objects, "piped") == "Terminated"


def test_a_restart_is_said_and_the_output_of_the_new_pods_follows(server: Server, console: Console) -> None:
    with started(server, "run", "-J", "again", "--", "sh", "-c", "echo attempt; sleep 1000") as running:
        assert running.out.next() == "attempt"
        console.good("vcctl", "job", "restart", "again")
        assert running.err.next("again: restarts: ")
        # The log of a pod that is deleted may be read to its last line before it goes.
        line = running.out.next()
        assert (running.out.next() if line.startswith("ended with exit code") else line) == "attempt"
        running.process.terminate()
        code, out, _ = running.end()
    assert (code, "attempt" in out) == (143, False)


def test_a_job_that_is_deleted_is_said(server: Server, console: Console) -> None:
    with started(server, "run", "-J", "gone", "--", "sh", "-c", "echo here; sleep 1000") as running:
        assert running.out.next() == "here"
        console.good("vcctl", "job", "delete", "gone")
        code, _, err = running.end()
    assert (code, err[-1]) == (1, "gone: was deleted")


def test_no_line_is_lost_or_repeated_when_the_server_is_killed_and_starts_again(tmp_path: Path) -> None:
    first = start_up(tmp_path / "data", "--nodes", "1")
    port = first.url.rpartition(":")[2]
    script = "for i in $(seq 1 20); do echo line $i; sleep 1; done"
    with started(first, "run", "-J", "long", "--", "sh", "-c", script) as running:
        seen = [running.out.next() for _ in range(3)]
        first.kill()
        running.err.next("long: the cluster does not answer, trying again")
        second = start_up(tmp_path / "data", "--nodes", "1", "--listen", f"127.0.0.1:{port}")
        try:
            code, out, err = running.end()
        finally:
            second.stop()
    assert code == 0, err
    lines = [line for line in seen + out if line.startswith("line")]
    assert lines == [f"line {number}" for number in range(1, 21)]


def test_elements_of_an_array_fail_alone_and_the_largest_exit_code_counts(console: Console, objects: Objects) -> None:
    script = "echo element $KILAUEA_ARRAY_INDEX $SLURM_ARRAY_TASK_ID; sleep 1; exit $KILAUEA_ARRAY_INDEX"
    ran = console("kilauea", "run", "-Q", "-J", "arr", "--array", "0,2,5", "--", "sh", "-c", script)
    assert ran.code == 5
    assert {f"{each}: element {each} {each}" for each in (0, 2, 5)} <= set(ran.out.splitlines())
    assert phase(objects, "arr") == "Completed"
    listed = console("kilauea", "sacct", "-n", "-P", "-j", "arr", "--format", "JobID,State,ExitCode")
    assert listed.out == "arr_0|COMPLETED|0:0\narr_2|FAILED|2:0\narr_5|FAILED|5:0\n"


def test_a_script_is_submitted_shown_and_ended(console: Console, objects: Objects, tmp_path: Path) -> None:
    script = tmp_path / "work.sh"
    script.write_text("#!/bin/sh\n#SBATCH -J work -n 2 -t 1:00:00\necho rank $SLURM_PROCID; sleep 1000\n")
    name = console("kilauea", "batch", "--parsable", str(script)).out.strip()
    end = time.monotonic() + LONGEST
    while not (shown := console("kilauea", "squeue", "-h", "-t", "R", "-n", "work", "-o", "%i %j %l %C").out):
        assert time.monotonic() < end
    assert shown == f"{name} work 1:00:00 2\n"
    assert "mix" in console("kilauea", "sinfo", "-h", "-p", "default").out
    assert console("kilauea", "scancel", name).code == 0
    while phase(objects, name) != "Terminated":
        assert time.monotonic() < end
    assert console("kilauea", "squeue", "-h", "-j", name).out == ""
    assert "CANCELLED" in console("kilauea", "sacct", "-n", "-j", name).out


def test_a_script_waits_for_the_jobs_that_it_depends_on(server: Server, console: Console) -> None:
    name = console("kilauea", "batch", "--parsable", "--wrap", "sleep 1000; exit 1").out.strip()
    with started(server, "batch", "-d", f"afternotok:{name}", "--wrap", "true") as after:
        assert f"waits here for job {name} (afternotok), then submits" in after.err.next()
        assert console("kilauea", "scancel", name).code == 0
        code, out, err = after.end()
    assert (code, out[0].startswith("Submitted batch job ")) == (0, True), err
    never = console("kilauea", "batch", "-d", f"afterok:{name}", "--wrap", "true")
    assert (never.code, never.out) == (1, "")
    assert never.err == f"Error: job {name} is Terminated: afterok can never be satisfied; not submitted\n"
