"""Commands of containers, and what they are taken to do."""

from __future__ import annotations

import itertools

import pytest

from kilauea.api.times import SECOND
from kilauea.nodes.identity import Identity
from kilauea.nodes.script import Script, read_script


def printed(script: Script) -> tuple[str, ...]:
    return tuple(text for _, text in script.output)


@pytest.mark.parametrize(
    ("text", "seconds", "code", "output"),
    [
        ("for i in 1 2 3; do echo step $i; sleep 2; done", 6, 0, ("step 1", "step 2", "step 3")),
        ("for i in $(seq 1 3); do sleep $i; done; exit 2", 6, 2, ()),
        ('for i in {1..3}; do\n  echo "$i of 3"\n  sleep 1\ndone', 3, 0, ("1 of 3", "2 of 3", "3 of 3")),
        ("for ((i=0;i<4;i++)); do sleep 1; done", 4, 0, ()),
        ("i=0; while [ $i -lt 3 ]; do i=$((i+1)); sleep 1; done; echo done $i", 3, 0, ("done 3",)),
        ("N=4; sleep $((N*2))", 8, 0, ()),
        ("N=4 && echo '$N' \"${N}x\" ${M:-none}", 0, 0, ("$N 4x none",)),
        ('if [ -z "$X" ]; then sleep 3; else sleep 9; fi', 3, 0, ()),
        ("while true; do sleep 1; if [ $? -eq 0 ]; then break; fi; done", 1, 0, ()),
        ("(sleep 1; false) || { echo failed; exit 5; }", 1, 5, ("failed",)),
        ("seq 3; printf '%s is %d\\n' a 7", 0, 0, ("1", "2", "3", "a is 7")),
        ("echo now 2>&1 > /dev/null; sleep 2", 2, 0, ()),
        ("echo now > /dev/stderr; echo then >&2; sleep 2 2> /tmp/errors", 2, 0, ("now", "then")),
        ("echo $(date); sleep 1", 1, 0, ("$(date)",)),
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
        ("expr 7 % 2; N=$(expr 2 + 3); sleep $N", 5, 0, ("1",)),
        ("if [ $(expr 3 % 2) -ne 0 ]; then exit 1; else exit 0; fi", 0, 1, ()),
        ("if [ $(expr 4 % 2) -ne 0 ]; then exit 1; else exit 0; fi", 0, 0, ()),
    ],
)
def test_a_shell_command_takes_as_long_as_its_sleeps(
    text: str, seconds: float, code: int, output: tuple[str, ...]
) -> None:
    script = read_script(("sh", "-c", text), ())
    assert script.tells_time
    assert (script.run_time, script.exit_code, printed(script)) == (seconds * SECOND, code, output)


@pytest.mark.parametrize(
    "text",
    [
        "mkdir -p /var/run/sshd; /usr/sbin/sshd -D",
        "while true; do echo x; sleep 1; done",
        "sleep infinity",
        "tail -f /dev/null",
        "while :; do sleep 9; done",
    ],
)
def test_loops_without_an_end_run_for_ever(text: str) -> None:
    assert read_script(("/bin/bash", "-ec", text), ()).run_time is None
    assert read_script(("/bin/bash", "-ec", text), ()).tells_time


@pytest.mark.parametrize(
    "words",
    [(), ("nginx",), ("sh",), ("sh", "-c"), ("sh", "-c", "echo 'x"), ("sh", "-c", "python x.py"), ("sleep", "$N")],
)
def test_other_commands_do_not_tell_their_time(words: tuple[str, ...]) -> None:
    assert not read_script(words, ()).tells_time


def test_arguments_go_on_where_the_command_ends() -> None:
    assert read_script(("sh", "-c"), ("sleep 7",)).run_time == 7 * SECOND
    assert read_script((), ("sleep", "8")).run_time == 8 * SECOND
    assert read_script(("/bin/sleep",), ("9",)).run_time == 9 * SECOND


def test_lines_come_when_the_script_has_come_to_them() -> None:
    script = read_script(("sh", "-c", "for i in 1 2; do echo step $i; sleep 2; done; echo end"), ())
    assert list(script.output) == [(0, "step 1"), (2 * SECOND, "step 2"), (4 * SECOND, "end")]


def test_a_loop_without_an_end_prints_on_and_on() -> None:
    script = read_script(("sh", "-c", "i=0; while true; do i=$((i+1)); echo round $i; sleep 10; done"), ())
    lines = script.output
    assert [next(lines) for _ in range(3)] == [(0, "round 1"), (10 * SECOND, "round 2"), (20 * SECOND, "round 3")]


def test_variables_of_the_container_are_known() -> None:
    environment = (("SECONDS_LONG", "7"),)
    assert read_script(("sh", "-c", "sleep $SECONDS_LONG"), (), environment).run_time == 7 * SECOND
    assert read_script(("sleep",), ("$(SECONDS_LONG)",), environment).run_time == 7 * SECOND


def test_two_dollars_stand_for_one() -> None:
    assert printed(read_script(("echo", "$$(NAME)"), (), (("NAME", "x"),))) == ("$(NAME)",)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("env", ["A=1", "key-1=two", "lines"]),
        ("printenv", ["A=1", "key-1=two", "lines"]),
        ("A=2; B=3; env", ["A=2", "key-1=two", "lines"]),
        ("B=3; export B; env", ["A=1", "B=3", "key-1=two", "lines"]),
        ("export B=3; printenv B A", ["3", "1"]),
        ("printenv MISSING || echo none", ["none"]),
        ("printenv A && echo some", ["1", "some"]),
        ("env C=1 python train.py", []),
    ],
)
def test_programs_print_the_variables_that_they_have(text: str, lines: list[str]) -> None:
    environment = (("key-1", "two\nlines"), ("A", "1"))
    assert printed(read_script(("sh", "-c", text), (), environment)) == tuple(lines)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("echo $(hostname)';'$(hostname -f)", ["web-0;web-0.web.default.svc.cluster.local"]),
        ("id", ["uid=1001 gid=0(root) groups=0(root),1234,5678"]),
        ("id -u; id -g; id -G", ["1001", "0", "0 1234 5678"]),
        ("/bin/sysctl kernel/shm_rmid_forced", ["kernel.shm_rmid_forced = 1"]),
        ("sysctl -n kernel.shm_rmid_forced", ["1"]),
        ("[ $(id -u) = 1001 ] && echo not root", ["not root"]),
    ],
)
def test_programs_print_who_and_where_their_container_is(text: str, lines: list[str]) -> None:
    parameters = (("kernel.shm_rmid_forced", "1"),)
    identity = Identity("web-0", "web-0.web.default.svc.cluster.local", 1001, 0, (1234, 5678), parameters)
    script = read_script(("sh", "-c", text), (), (), identity)
    assert printed(script) == tuple(lines)
    assert (script.tells_time, script.run_time) == (True, 0)


@pytest.mark.parametrize("text", ["id -Z", "hostname -i", "sysctl kernel.msgmax", "sysctl -a"])
def test_what_is_not_known_of_a_container_does_not_tell_its_time(text: str) -> None:
    script = read_script(("sh", "-c", text), (), (), Identity("web-0"))
    assert (printed(script), script.tells_time) == ((), False)


@pytest.mark.parametrize(
    "text",
    [
        "case x in y) sleep 1;; esac",
        "f() { sleep 1; }; f",
        "cat x | sh",
        "echo $((",
        "for",
        "if true",
        "done",
        "echo `",
    ],
)
def test_what_is_beyond_the_reader_does_not_tell_its_time(text: str) -> None:
    assert not read_script(("sh", "-c", text), ()).tells_time


def test_scripts_that_would_take_a_machine_for_ever_are_given_up() -> None:
    for text in (
        "while [ 1 -lt 2 ]; do echo x; done",
        "for i in {1..999999999}; do sleep 1; done",
        "echo $((9**9**9))",
    ):
        script = read_script(("sh", "-c", text), ())
        assert script.run_time in (None, 0)
    nested = "for i in $(seq 5000); do x=$(for j in $(seq 5000); do :; done); done"
    growing = 'while true; do x=$x$x$x; x=${x}aaaaaaaa; if [ "$x" = y ]; then break; fi; done'
    for text in (nested, growing, "break", "((" * 3000, "$(" * 3000):
        for _ in itertools.islice(read_script(("sh", "-c", text), ()).output, 10):
            pass


@pytest.mark.parametrize(
    ("text", "until", "fallback", "message"),
    [
        ("echo -n OK > /dev/termination-log", 0, False, "OK"),
        (
            "echo started >/dev/termination-log; sleep 2; echo over >> '/dev/termination-log'",
            2,
            False,
            "started\nover\n",
        ),
        ("echo started > /dev/termination-log; sleep 2; echo over > /dev/termination-log", 2, False, "over\n"),
        ("echo started > /dev/termination-log; sleep 2; echo over > /dev/termination-log", 1, False, "started\n"),
        ('MESSAGE=/dev/termination-log; printf "%s left" 3 1> "$MESSAGE"', 0, False, "3 left"),
        ("echo -n OK > /tmp/other", 0, False, ""),
        ("echo DONE", 0, False, ""),
        ("echo one; echo DONE; false", 0, True, "one\nDONE"),
        ("echo one; sleep 5; echo two; false", 2, True, "one"),
        ("echo DONE; echo -n OK > /dev/termination-log; false", 0, True, "OK"),
        ("while true; do echo x; sleep 1; done", 2, True, "x\nx\nx"),
    ],
)
def test_a_script_leaves_a_termination_message(text: str, until: int, fallback: bool, message: str) -> None:
    script = read_script(("sh", "-c", text), ())
    assert script.message("/dev/termination-log", until * SECOND, fallback) == message


def test_termination_messages_are_as_long_as_those_of_kubelets() -> None:
    script = read_script(("sh", "-c", "for i in $(seq 5000); do echo $i >> /m; done; seq 5000"), ())
    assert script.message("/m", 0, False) == "".join(f"{i}\n" for i in range(1, 5001))[:4096]
    assert script.message("/n", 0, True) == "\n".join(map(str, range(4921, 5001)))
