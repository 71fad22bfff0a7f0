"""How the commands take arguments and say that something is wrong; nothing here needs a cluster."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

from kilauea import __version__
from kilauea.cli.vcctl.command import Leaf
from kilauea.cli.vcctl.options import flag, name, number, text
from support.vcctl_runs import PROGRAMS, Console

NOWHERE = Console(Path("no-such-kubeconfig"))
AMOUNT = "use a number with an optional suffix such as 500m, 2, 1.5Gi"
LEAF_NAME = "job name (specified by --name or -N) is mandatory to view a particular job"
UPDATE = "when update queue q, weight must be specified, the value must be greater than 0"
CANNOT = [
    ("vcctl job run", "run job", "job name cannot be left blank"),
    ("vcctl job view", "view job", LEAF_NAME),
    ("vcctl job suspend", "suspend job", "job name is mandatory to suspend a particular job"),
    ("vcctl job resume", "resume job", "job name is mandatory to resume a particular job"),
    ("vcctl job restart", "restart job", "job name is mandatory to restart a particular job"),
    ("vcctl job delete", "delete job", "job name is mandatory to delete a particular job"),
    ("vcctl queue delete", "delete queue", "queue name must be specified"),
    ("vcctl queue operate", "operate queue", "queue name must be specified"),
    ("vcctl queue get", "get queue", "name is mandatory to get the particular queue details"),
    ("vcctl queue children", "children queue", "queue name must be specified"),
    ("vcctl jobflow get", "get jobflow", "name is mandatory to get the particular jobflow details"),
    ("vcctl jobflow delete", "delete jobflow", "jobflow name must be specified"),
    ("vcctl jobtemplate get", "get jobtemplate", "name is mandatory to get the particular job template details"),
    ("vcctl jobtemplate delete", "delete jobtemplate", "job template name must be specified"),
    ("vsub", "submit job", "job name cannot be left blank"),
    ("vcancel", "cancel job", "job name is mandatory to cancel a particular job"),
    ("vsuspend", "suspend job", "job name is mandatory to suspend a particular job"),
    ("vresume", "resume job", "job name is mandatory to resume a particular job"),
    ("vcctl job run -f x.json", "run job", "only support yaml file"),
    ("vcctl job run -f no.yaml", "run job", "failed to read file, err: open no.yaml: no such file or directory"),
    ("vcctl job run -N a -R cpu", "run job", "invalid argument syntax cpu, expected <resource>=<value>"),
    ("vcctl job run -N a -L cpu=x", "run job", f'cpu: "x" is not a quantity: {AMOUNT}'),
    ("vcctl queue operate -n q", "operate queue", "action can not be null"),
    (
        "vcctl queue operate -n q -a x",
        "operate queue",
        "action x invalid, valid actions are open, close and update",
    ),
    ("vcctl queue operate -n q -a update", "operate queue", UPDATE),
    ("vcctl jobflow create", "create jobflow", "failed to read file, err: open : no such file or directory"),
    ("vcctl job list", "list job", "no-such-kubeconfig: no such file: name a kubeconfig file with --kubeconfig"),
]
MISUSED = [
    ("vcctl nope", 'Error: unknown command "nope" for "vcctl"\n'),
    ("vcctl podgroup list", 'Error: unknown command "podgroup" for "vcctl"\n'),
    ("vcctl job list --bogus", "Error: unknown flag: --bogus\n"),
    ("vcctl job list -x", "Error: unknown shorthand flag: 'x' in -x\n"),
    ("vcctl job view -N", "Error: flag needs an argument: -N\n"),
    (
        "vcctl queue create -w x",
        'Error: invalid argument for "-w, --weight" flag: invalid number "x": use an integer\n',
    ),
    (
        "vcctl queue create -w 9999999999",
        'Error: invalid argument for "-w, --weight" flag: "9999999999" is out of range',
    ),
    ("vcctl job list --all-namespaces=perhaps", 'invalid value "perhaps": use true or false'),
]


@pytest.mark.parametrize(("line", "command", "words"), CANNOT)
def test_what_a_command_cannot_do_is_said_on_standard_output_with_code_255(line: str, command: str, words: str) -> None:
    assert NOWHERE.failed(*line.split()) == f"Failed to{' ' * bool(command)}{command}: {words}\n"


@pytest.mark.parametrize(("line", "words"), MISUSED)
def test_wrong_usage_is_said_on_standard_error_with_code_1(line: str, words: str) -> None:
    ran = NOWHERE(*line.split())
    assert (ran.code, ran.out) == (1, "")
    assert words in ran.err


def test_errors_do_not_stand_among_data_for_programs() -> None:
    ran = NOWHERE("vcctl", "job", "list", "-o", "json")
    assert (ran.code, ran.out) == (255, "")
    assert ran.err.startswith("Failed to list job: ")


@pytest.mark.parametrize("line", ["vcctl", "vcctl job", "vcctl queue", "vcctl help"])
def test_a_group_without_a_command_shows_its_help(line: str) -> None:
    out = NOWHERE.good(*line.split())
    assert out.startswith("Usage: vcctl")
    assert "Commands:" in out


@pytest.mark.parametrize("line", ["vcctl job nope", "vcctl pod x"])
def test_a_group_with_an_unknown_command_shows_its_help_and_says_so(line: str) -> None:
    ran = NOWHERE(*line.split())
    assert ran.code == 1
    assert "Commands:" in ran.err
    program, group, word = line.split()
    assert ran.err.endswith(f'Error: unknown command "{word}" for "{program} {group}"\n')


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("vsub", "submit a job"),
        ("vjobs", "view job information"),
        ("vqueues", "view queue information"),
        ("vcancel", "cancel a job"),
        ("vsuspend", "suspend a job"),
        ("vresume", "resume a job"),
    ],
)
def test_every_small_program_tells_what_it_does(program: str, words: str) -> None:
    for asked in ("-h", "--help"):
        assert words in NOWHERE.good(program, asked)


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_program_tells_its_version(program: str) -> None:
    assert NOWHERE.good(program, "--version") == f"{program} {__version__}\n"


def test_version_has_six_lines() -> None:
    lines = NOWHERE.good("vcctl", "-v", "4", "version").splitlines()
    labels = [line.partition(":")[0] for line in lines]
    assert labels == ["API Version", "Version", "Git SHA", "Built At", "Python Version", "OS/Arch"]
    assert lines[0] == "API Version: v1alpha1"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("-n a", {"name": "a"}),
        ("-na", {"name": "a"}),
        ("-n=a", {"name": "a"}),
        ("--name a", {"name": "a"}),
        ("--name=a", {"name": "a"}),
        ("a", {"name": "a"}),
        ("-n a b", {"name": "a"}),
        ("--other_text x", {"other_text": "x"}),
        ("--other_text=x_y", {"other_text": "x_y"}),
        ("--other-text --x_y", {"other_text": "--x_y"}),
        ("--on", {"on": True}),
        ("--on=true", {"on": True}),
        ("--on=false", {"on": False}),
        ("--on a", {"on": True, "name": "a"}),
        ("-w -3", {"weight": -3}),
        ("-v 4 --log-flush-frequency 5s --vmodule=x=1", {}),
        ("-n a -- -x", {"name": "a"}),
    ],
)
def test_arguments_are_taken_in_the_forms_of_go(words: str, expected: dict[str, object]) -> None:
    seen: dict[str, object] = {}
    given: list[click.Parameter] = [name("-n"), text("--other-text"), flag("--on", help=""), number("-w", "--weight")]
    leaf = Leaf("try", lambda cluster, **values: seen.update(values), "try", given)
    with pytest.raises(SystemExit) as end:
        leaf.main(words.split())
    assert end.value.code == 0
    assert {key: value for key, value in seen.items() if value not in ("", None, False)} == {
        key: value for key, value in expected.items() if value is not False
    }


def test_help_and_version_import_nothing_that_takes_long() -> None:
    heavy = "aiohttp numpy asyncio ssl yaml msgspec http.client kilauea.engine kilauea.api.ports".split()
    for program in PROGRAMS:
        asked = ["version"] if program == "vcctl" else ["--help"]
        module, name = ("programs", program) if program != "kilauea" else ("", "")
        start = (
            f"from kilauea.cli.vcctl.{module} import {name} as go"
            if name
            else "from kilauea.cli.main import main as go"
        )
        code = f"import sys\n{start}\nsys.argv = {[program, *asked]}\ntry:\n    go()\nexcept SystemExit:\n    pass\n"
        code += f"print([name for name in {heavy} if name in sys.modules], file=sys.stderr)"
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert result.stderr == "[]\n", program
