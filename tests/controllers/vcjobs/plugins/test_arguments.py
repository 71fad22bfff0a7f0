"""Arguments of plugins have the form of flags; a bad one is named, with what to write instead."""

from __future__ import annotations

import pytest

from kilauea.controllers.vcjobs.plugins import PluginFault, active
from kilauea.controllers.vcjobs.plugins.arguments import Arguments, Port, read
from vcjob_parts import job, task


class Flags(Arguments, frozen=True, rename="kebab"):
    """Arguments of a plugin."""

    task_name: str = "worker"
    port: Port = 22
    switched_on: bool = False


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], Flags()),
        (["--port=80"], Flags(port=80)),
        (["-port=80"], Flags(port=80)),
        (["--port", "80", "--task-name", "x"], Flags(port=80, task_name="x")),
        (["--task-name="], Flags(task_name="")),
        (["--task-name=a=b"], Flags(task_name="a=b")),
        (["--switched-on"], Flags(switched_on=True)),
        (["--switched-on", "--port=80"], Flags(switched_on=True, port=80)),
        (["--switched-on=T"], Flags(switched_on=True)),
        (["--switched-on=0"], Flags(switched_on=False)),
        (["--port=80", "--port=81"], Flags(port=81)),
    ],
)
def test_arguments_are_read_as_flags_are(given: list[str], expected: Flags) -> None:
    assert read("p", Flags, given) == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--prot=80"], "plugin p: unknown argument '--prot=80': did you mean --port?"),
        (["80"], "plugin p: unknown argument '80': it takes --task-name, --port, --switched-on"),
        (["--switched-on", "false"], "plugin p: unknown argument 'false': it takes --task-name, --port, --switched-on"),
        (["--port"], "plugin p: argument --port has no value: write --port=22"),
        (["--port=ssh"], "plugin p: argument --port is 'ssh': write a port from 1 to 65535, such as --port=22"),
        (["--port=0"], "plugin p: argument --port is '0': write a port from 1 to 65535, such as --port=22"),
        (["--port=65536"], "plugin p: argument --port is '65536': write a port from 1 to 65535, such as --port=22"),
        (
            ["--switched-on=yes"],
            "plugin p: argument --switched-on is 'yes': write true or false, such as --switched-on=true",
        ),
    ],
)
def test_a_bad_argument_is_named_with_what_to_write(given: list[str], message: str) -> None:
    with pytest.raises(PluginFault) as fault:
        read("p", Flags, given)
    assert str(fault.value) == message


@pytest.mark.parametrize(
    ("plugins", "plugin", "why"),
    [
        ({"tensorflow": ["--port=x"]}, "tensorflow", "argument --port is 'x': write a port from 1 to 65535"),
        ({"env": ["--x"]}, "env", "unknown argument '--x': it takes none"),
        ({"pytorc": []}, "pytorc", "failed to get plugin pytorc: there is pytorch"),
        ({"nothing-like-it": []}, "nothing-like-it", "failed to get plugin nothing-like-it: there is env, hcclrank"),
        ({"ray": []}, "ray", "job m doesn't have head task head: name a task so, or say --head=<task>"),
    ],
)
def test_a_job_with_a_plugin_that_cannot_work_is_told_why(plugins: dict[str, list[str]], plugin: str, why: str) -> None:
    with pytest.raises(PluginFault) as fault:
        active(job(plugins=plugins))
    assert fault.value.plugin == plugin
    assert fault.value.why.startswith(why)


def test_plugins_act_in_one_order_however_the_job_lists_them() -> None:
    names = ["hcclrank", "ray", "pytorch", "mpi", "tensorflow", "env", "ssh", "svc"]
    found = [each.name for each in active(job(task("head"), plugins=dict.fromkeys(names, ())))]
    assert found == ["svc", "ssh", "env", "tensorflow", "mpi", "pytorch", "ray", "hcclrank"]


def test_each_plugin_but_hcclrank_is_listed_in_the_status() -> None:
    found = {each.name: each.controlled for each in active(job(plugins={"svc": [], "hcclrank": []}))}
    assert found == {"svc": ("plugin-svc", "svc"), "hcclrank": None}
