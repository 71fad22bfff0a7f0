"""Arguments of plugins have the form of flags; a wrong one is named with what to write, an unknown one is ignored."""

from __future__ import annotations

import pytest

from kilauea.api.job_plugins import Arguments, PluginFault, Port, read, unknown_arguments
from kilauea.controllers.vcjobs.plugins import active
from support.jobs_at_work import JobWorld
from support.jobs_at_work import job as work
from support.jobs_at_work import task as work_task
from support.vcjob_parts import job, task


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
        (["--no-root", "--port=80"], Flags(port=80)),
        (["--no-root=x", "--port=80"], Flags(port=80)),
        (["--no-root", "x", "--port=80"], Flags(port=80)),
        (["80", "--port=80"], Flags(port=80)),
        (["--switched-on", "false"], Flags(switched_on=True)),
    ],
)
def test_arguments_are_read_as_flags_are(given: list[str], expected: Flags) -> None:
    assert read("p", Flags, given) == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
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
def test_a_wrong_value_is_named_with_what_to_write(given: list[str], message: str) -> None:
    with pytest.raises(PluginFault) as fault:
        read("p", Flags, given)
    assert str(fault.value) == message


@pytest.mark.parametrize(
    ("plugins", "plugin", "why"),
    [
        ({"tensorflow": ["--port=x"]}, "tensorflow", "argument --port is 'x': write a port from 1 to 65535"),
        ({"pytorc": []}, "pytorc", "failed to get plugin pytorc: there is pytorch"),
        ({"nothing-like-it": []}, "nothing-like-it", "failed to get plugin nothing-like-it: there is env, hcclrank"),
        ({"ray": []}, "ray", "job m doesn't have head task head: rename a task, or use --head=<task>"),
    ],
)
def test_a_job_with_a_plugin_that_cannot_work_is_told_why(plugins: dict[str, list[str]], plugin: str, why: str) -> None:
    with pytest.raises(PluginFault) as fault:
        active(job(plugins=plugins))
    assert fault.value.plugin == plugin
    assert fault.value.why.startswith(why)


@pytest.mark.parametrize(
    ("plugins", "words"),
    [
        ({"env": ["--x"]}, "spec.plugins.env: unknown argument '--x' is ignored: the plugin takes none"),
        ({"mpi": ["--prot=80"]}, "spec.plugins.mpi: unknown argument '--prot=80' is ignored: did you mean --port?"),
        (
            {"mpi": ["80"]},
            "spec.plugins.mpi: unknown argument '80' is ignored: the plugin takes --master, --worker, --port",
        ),
        (
            {"svc": ["--inject-hosts-env", "false"]},
            "spec.plugins.svc: unknown argument 'false' is ignored: did you mean --inject-hosts-env=false?",
        ),
        (
            {"ssh": ["--no-root"]},
            "spec.plugins.ssh: unknown argument '--no-root' is ignored: the plugin takes --ssh-key-file-path, "
            "--ssh-private-key, --ssh-public-key, --ssh-port",
        ),
    ],
)
def test_an_unknown_argument_is_ignored_and_named(plugins: dict[str, list[str]], words: str) -> None:
    assert unknown_arguments(plugins) == [words]
    assert len(active(job(plugins=plugins))) == 1


def test_a_job_with_an_unknown_argument_runs_and_is_told_once() -> None:
    world = JobWorld(work(work_task("a", 1), plugins={"ssh": ["--no-root"]}))
    world.start()
    assert (world.phase, world.pods()) == ("Running", ["m-a-0"])
    (told,) = [each for each in world.told if "no-root" in each]
    assert told.startswith("UnknownPluginArgument: spec.plugins.ssh: unknown argument '--no-root' is ignored")


def test_a_job_with_a_wrong_value_waits_and_is_told_why() -> None:
    world = JobWorld(work(work_task("a", 1), plugins={"ssh": ["--ssh-port=x"]}))
    world.look()
    world.look()
    assert (world.phase, world.pods()) == ("Pending", [])
    assert "argument --ssh-port is 'x': write a port from 1 to 65535, such as --ssh-port=22" in world.told[-1]


def test_plugins_act_in_one_order_however_the_job_lists_them() -> None:
    names = ["ringsconfigmap", "hcclrank", "ray", "pytorch", "mpi", "tensorflow", "env", "ssh", "svc"]
    found = [each.name for each in active(job(task("head"), plugins=dict.fromkeys(names, ())))]
    assert found == ["svc", "ssh", "env", "tensorflow", "mpi", "pytorch", "ray", "hcclrank", "ringsconfigmap"]


def test_each_plugin_but_hcclrank_is_listed_in_the_status() -> None:
    found = {each.name: each.controlled for each in active(job(plugins={"svc": [], "hcclrank": []}))}
    assert found == {"svc": ("plugin-svc", "svc"), "hcclrank": None}
