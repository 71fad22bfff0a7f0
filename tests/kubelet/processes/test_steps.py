"""Steps of a new process that uses the memory of the one which starts it, until its command runs."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest

from kilauea.kubelet.processes.supervisor.steps import Step, Steps

libc = ctypes.PyDLL(None, use_errno=True)
pytestmark = pytest.mark.skipif(not hasattr(libc, "makecontext"), reason="the C library has no contexts")


def command(path: str, *words: str) -> Step:
    argv = (ctypes.c_char_p * (len(words) + 2))(path.encode(), *(word.encode() for word in words), None)
    return "exec", libc.execve, (path.encode(), argv, (ctypes.c_char_p * 1)(None))


def exit_code(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def children() -> set[int]:
    """Ids of this process's children, ended ones included until something waits for them."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            _, _, fields = stat.read_text().rpartition(")")  # a command may hold spaces and parentheses
        except OSError:
            continue  # ended since the listing
        parents[int(stat.parent.name)] = int(fields.split()[1])
    return {pid for pid, parent in parents.items() if parent == os.getpid()}


def test_steps_are_done_in_their_order_before_the_command(tmp_path: Path) -> None:
    steps = Steps(8)
    for number in range(20):
        reader, writer = os.pipe()
        script = command("/bin/sh", "-c", f"echo {number} $(/bin/pwd); exit {number}")
        both: list[Step] = [("first", libc.chdir, (b"/",)), ("second", libc.chdir, (os.fsencode(tmp_path),))]
        pid = steps.start([*both, ("setsid", libc.setsid, ()), ("dup2", libc.dup2, (writer, 1)), script])
        os.close(writer)
        with os.fdopen(reader) as file:
            assert file.read() == f"{number} {tmp_path}\n"
        assert os.getcwd() != str(tmp_path)
        assert exit_code(pid) == number


def test_a_command_that_cannot_be_run_is_named_and_leaves_no_process() -> None:
    before = children()
    with pytest.raises(FileNotFoundError) as raised:
        Steps(2).start([("setsid", libc.setsid, ()), command("/missing")])
    assert raised.value.filename == "exec"
    assert children() <= before


def test_a_process_in_which_another_step_fails_is_ended(tmp_path: Path) -> None:
    before = children()
    mark = tmp_path / "mark"
    with pytest.raises(FileNotFoundError) as raised:
        Steps(2).start([("chdir", libc.chdir, (b"/missing",)), command("/bin/sh", "-c", f"sleep 1; : > {mark}")])
    assert raised.value.filename != "exec"
    assert children() <= before
    assert not mark.exists()


def test_open_files_and_variables_of_this_process_are_as_they_were(tmp_path: Path) -> None:
    os.environ["KILAUEA_TEST"] = "one"
    before = sorted(os.listdir("/proc/self/fd"))
    assert (
        exit_code(Steps(3).start([("close", libc.close, (1,)), command("/bin/sh", "-c", 'test -z "$KILAUEA_TEST"')]))
        == 0
    )
    assert sorted(os.listdir("/proc/self/fd")) == before
    assert os.environ.pop("KILAUEA_TEST") == "one"
