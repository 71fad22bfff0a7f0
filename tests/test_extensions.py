"""Plugins and actions of the user: how they are found, what is said when they are wrong, and what stops them."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from click.testing import CliRunner, Result

from kilauea.cli.main import main
from kilauea.engine.action import Action
from kilauea.engine.conf import SchedulerConf
from kilauea.engine.cycle import cycle
from kilauea.engine.extension import PERMIT
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.tasks import Task
from kilauea.engine.plan import Plan
from kilauea.engine.plugin import Plugin
from kilauea.engine.plugins import PLUGINS
from kilauea.engine.session import Session
from kilauea.runtime.inputs.extensions import ExtensionError, load_extensions
from kilauea.runtime.watchdog import watchdog
from kilauea.simulator.extensions import Extensions
from support.builders import Objects, binds, conf, gang, node, parsed, queue, state_of
from support.probes import action_called, fingerprint, plugin_called

PLUGIN = """
from kilauea.engine.plugin import Plugin

class {of}(Plugin):
    name = {name!r}
"""
ACTION = """
from kilauea.engine.action import Action

class {of}(Action):
    name = {name!r}
"""


def folder(path: Path, **files: str) -> str:
    """A folder with Python files."""
    path.mkdir(exist_ok=True)
    for name, text in files.items():
        (path / f"{name}.py").write_text(text)
    return str(path)


def load(*folders: str) -> Extensions:
    return load_extensions(folders, installed=False)


def fault(*folders: str) -> str:
    with pytest.raises(ExtensionError) as error:
        load(*folders)
    return str(error.value)


# --- folders


def test_every_file_of_every_folder_is_loaded(tmp_path: Path) -> None:
    one = folder(tmp_path / "one", a=PLUGIN.format(of="A", name="first"), b=ACTION.format(of="B", name="step"))
    two = folder(tmp_path / "two", a=PLUGIN.format(of="A", name="second"))
    extensions = load(one, two)
    assert set(extensions.plugins) - set(PLUGINS) == {"first", "second"}
    assert extensions.actions["step"].__name__ == "B"
    assert extensions.bring_any
    assert extensions.warnings == ()


def test_without_folders_there_is_what_the_package_brings() -> None:
    extensions = load()
    assert extensions.plugins == PLUGINS
    assert not extensions.bring_any


def test_a_folder_is_read_again_each_time_and_nothing_is_written_into_it(tmp_path: Path) -> None:
    path = folder(tmp_path / "p", a=PLUGIN.format(of="A", name="before"))
    assert "before" in load(path).plugins
    folder(tmp_path / "p", a=PLUGIN.format(of="A", name="behind"))
    assert "behind" in load(path).plugins
    assert [f.name for f in Path(path).iterdir()] == ["a.py"]


def test_files_share_what_is_in_a_file_with_an_underscore(tmp_path: Path) -> None:
    shared = PLUGIN.format(of="_Base", name="") + "\nLIMIT = 7\n"
    user = "from ._shared import _Base, LIMIT\n\nclass Own(_Base):\n    name = f'own-{LIMIT}'\n"
    extensions = load(folder(tmp_path / "p", _shared=shared, own=user))
    assert set(extensions.plugins) - set(PLUGINS) == {"own-7"}


def test_a_class_that_a_file_only_imports_does_not_count(tmp_path: Path) -> None:
    text = "from kilauea.engine.plugins.gang import Gang\n" + PLUGIN.format(of="A", name="a") + "\nB = A\n"
    assert set(load(folder(tmp_path / "p", a=text)).plugins) - set(PLUGINS) == {"a"}


def test_a_file_without_plugin_and_action_is_warned_about(tmp_path: Path) -> None:
    (warning,) = load(folder(tmp_path / "p", util="X = 1\n")).warnings
    assert "p/util.py defines no plugin and no action: derive a class from Plugin or Action" in warning


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("import nowhere_at_all", "line 1 cannot be imported: ModuleNotFoundError", id="missing module"),
        pytest.param("import nowhere_at_all", "; install nowhere_at_all, or correct the import", id="advice"),
        pytest.param("x = 1\nclass A(:\n", "line 2 cannot be imported: SyntaxError", id="no Python"),
        pytest.param("x = 1\n\nx.y\n", "line 3 cannot be imported: AttributeError", id="raises"),
        pytest.param("import sys\nsys.exit(3)\n", "line 2 cannot be imported: SystemExit: 3", id="ends the process"),
        pytest.param(PLUGIN.format(of="A", name=""), "class A has no name: write name =", id="no name"),
        pytest.param(PLUGIN.format(of="A", name=7), "class A has no name", id="a number for a name"),
        pytest.param(PLUGIN.format(of="A", name="a, b"), "class A has the name 'a, b': use letters", id="odd name"),
        pytest.param(PLUGIN.format(of="A", name="gang"), "already a plugin gang in kilauea itself", id="taken plugin"),
        pytest.param(ACTION.format(of="A", name="enqueue"), "already an action enqueue in kilauea", id="taken action"),
        pytest.param(PLUGIN.format(of="A", name="numaaware"), "an alias of plugin numa-aware", id="alias"),
        pytest.param(PLUGIN.format(of="A", name="a") + "    Arguments = int\n", "is not a dataclass", id="arguments"),
        pytest.param(
            "from dataclasses import dataclass\n\n@dataclass\nclass Arguments:\n    weight: int = 1\n"
            + PLUGIN.format(of="A", name="a")
            + "    Arguments = Arguments\n",
            "field weight of Arguments has no key: write it as argument(",
            id="arguments without keys",
        ),
    ],
)
def test_what_is_wrong_in_a_file(tmp_path: Path, text: str, expected: str) -> None:
    found = fault(folder(tmp_path / "p", bad=text))
    assert found.startswith(f"{tmp_path}/p/bad.py")
    assert expected in found


def test_a_name_that_two_files_take(tmp_path: Path) -> None:
    text = PLUGIN.format(of="A", name="same")
    found = fault(folder(tmp_path / "p", a=text, b=text))
    assert found == (
        f"{tmp_path}/p/b.py: class A: there is already a plugin same in {tmp_path}/p/a.py: choose a different name"
    )


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    found = fault(folder(tmp_path / "p", a="x.y", b="1/0"), str(tmp_path / "none"), str(tmp_path / "p" / "a.py"))
    assert [line.rsplit(" ", 1)[-1] for line in found.splitlines()] == ["used:", "defined", "zero", "exist", "it"]


def test_a_folder_without_files(tmp_path: Path) -> None:
    assert "contains no .py files" in fault(folder(tmp_path / "p"))


def test_a_file_with_a_dot_in_its_name(tmp_path: Path) -> None:
    path = folder(tmp_path / "p", **{"a.b": "x = 1"})
    assert "a.b.py cannot be imported: ImportError: its name contains a dot" in fault(path)


# --- installed packages


def install(path: Path, monkeypatch: pytest.MonkeyPatch, module: str, **entries: str) -> None:
    """An installed package with a module and entry points."""
    meta = path / "own_plugins-1.0.dist-info"
    meta.mkdir(parents=True)
    (meta / "METADATA").write_text("Metadata-Version: 2.1\nName: own-plugins\nVersion: 1.0\n")
    lines = [f"{name} = {value}" for name, value in entries.items()]
    (meta / "entry_points.txt").write_text("\n".join(["[kilauea.plugins]", *lines]) + "\n")
    (path / "own_plugins_module.py").write_text(module)
    monkeypatch.syspath_prepend(str(path))
    monkeypatch.delitem(sys.modules, "own_plugins_module", raising=False)


def test_installed_packages_name_classes_or_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = PLUGIN.format(of="A", name="installed") + ACTION.format(of="B", name="installed-step")
    install(tmp_path, monkeypatch, module, all="own_plugins_module")
    extensions = load_extensions([])
    assert {"installed"} == set(extensions.plugins) - set(PLUGINS)
    assert "installed-step" in extensions.actions
    assert extensions.warnings == ()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("own_plugins_module:Missing", "cannot be loaded: AttributeError"),
        ("nowhere_at_all:A", "cannot be loaded: ModuleNotFoundError"),
        ("own_plugins_module:x", "is neither a plugin nor an action"),
        ("own_plugins_module:Gang", "there is already a plugin gang in kilauea itself"),
    ],
)
def test_a_broken_entry_point_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, expected: str
) -> None:
    install(tmp_path, monkeypatch, "x = 1\n" + PLUGIN.format(of="Gang", name="gang"), own=value)
    extensions = load_extensions([])
    assert extensions.plugins == PLUGINS
    (warning,) = extensions.warnings
    assert warning.startswith(f"entry point own = {value} of package own-plugins")
    assert expected in warning
    assert warning.endswith("; it is left out")


def test_a_folder_comes_before_an_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "site", monkeypatch, PLUGIN.format(of="A", name="own"), own="own_plugins_module:A")
    extensions = load_extensions([folder(tmp_path / "p", own=PLUGIN.format(of="Mine", name="own"))])
    assert extensions.plugins["own"].__name__ == "Mine"
    assert "there is already a plugin own" in extensions.warnings[0]


# --- the command


CLUSTER = """
apiVersion: v1
kind: List
items:
- {kind: Node, apiVersion: v1, metadata: {name: n1}, status: {allocatable: {cpu: "4", memory: 8Gi, pods: "9"}}}
"""


def command(tmp_path: Path, configuration: str, *options: str) -> Result:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    (tmp_path / "scheduler.conf").write_text(configuration)
    files = ["-f", str(tmp_path / "cluster.yaml"), "--scheduler-conf", str(tmp_path / "scheduler.conf")]
    return CliRunner().invoke(main, ["plan", *files, *options])


def test_a_broken_folder_ends_the_command_with_exit_code_2(tmp_path: Path) -> None:
    path = folder(tmp_path / "p", bad="x.y")
    result = command(tmp_path, "actions: allocate\n", "--plugins-dir", path)
    assert result.exit_code == 2
    assert result.stderr == (
        f"Error: {tmp_path}/p/bad.py, line 1 cannot be imported: NameError: name 'x' is not defined\n"
    )


def test_errors_of_the_configuration_name_file_and_line(tmp_path: Path) -> None:
    text = "actions: allocate, backfil\ntiers:\n- plugins:\n  - name: gang\n  - name: drff\n"
    result = command(tmp_path, text)
    path = tmp_path / "scheduler.conf"
    assert result.exit_code == 2
    assert f"  {path}:1: actions: unknown action 'backfil'; did you mean 'backfill'?\n" in result.stderr
    assert f"  {path}:5: tiers[0].plugins[1]: unknown plugin 'drff'; did you mean 'drf'?\n" in result.stderr


def test_warnings_of_the_configuration_name_file_and_line(tmp_path: Path) -> None:
    text = "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n    enableJobReddy: true\n"
    result = command(tmp_path, text)
    assert result.exit_code == 0
    assert result.stderr == (
        f"warning: {tmp_path}/scheduler.conf:5: tiers[0].plugins[0] (gang): "
        "unknown key 'enableJobReddy'; did you mean 'enableJobReady'?\n"
    )


def test_a_folder_without_a_configuration_that_names_its_plugins(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    path = folder(tmp_path / "p", own=PLUGIN.format(of="A", name="own"))
    result = CliRunner().invoke(main, ["plan", "-f", str(tmp_path / "cluster.yaml"), "--plugins-dir", path])
    assert result.exit_code == 0
    assert "--plugins-dir has no effect without --scheduler-conf" in result.stderr


def test_an_own_plugin_that_fails_is_named_with_file_and_line(tmp_path: Path) -> None:
    text = PLUGIN.format(of="A", name="own") + "    def on_session_open(self, session):\n        session.nothing()\n"
    path = folder(tmp_path / "p", own=text)
    result = command(
        tmp_path, "actions: allocate\ntiers: [{plugins: [{name: own}]}]\n", "--plugins-dir", path, "--cycles", "2"
    )
    assert result.exit_code == 0
    assert result.stderr == (
        "warning: plugin own: failed in on_session_open: AttributeError: 'Session' object has no attribute 'nothing' "
        "(own.py, line 7); the cycle continues without it\n"
    )


# --- what a guard makes of answers


TIERS = (["gang", "own"], ["predicates", "proportion"])
WITH_OWN = conf("enqueue, allocate, backfill", *TIERS)
WITHOUT = conf("enqueue, allocate, backfill", ["gang"], ["predicates", "proportion"])


def cluster() -> list[Objects]:
    return [
        [node("n1"), node("n2"), queue("q")],
        gang("a", 2, phase="Pending", resources={"cpu": 1}),
        gang("b", 2),
        gang("c", 1, cpu="99"),
        gang("d", 9),
    ]


SOON = 0.05
"""Seconds after which a call that hangs is stopped here. Calls that do not hang get more: machines can be slow."""


def decided(
    *given: Any,
    plugins: tuple[type[Plugin], ...],
    actions: tuple[type[Action], ...] = (),
    seconds: float = 60,
) -> Plan:
    """The plan of a cycle under a watchdog; nothing may be left in the state."""
    state = state_of(cluster())
    before = fingerprint(state)
    usable, all_plugins, all_actions = parsed(given[0] if given else WITH_OWN, plugins, actions)
    with watchdog(seconds, seconds) as dog:
        plan = cycle(state, usable, 0, None, plugins=all_plugins, actions=all_actions, watchdog=dog)
    assert fingerprint(state) == before
    return plan


def undisturbed() -> Plan:
    return decided(WITHOUT, plugins=())


def own(register: Callable[[Session], None]) -> type[Plugin]:
    return plugin_called("own", register)


def fault_of(plan: Plan) -> str:
    """What the plan says of the plugin; the rest of the plan is that without it."""
    assert [f.where for f in plan.findings] == ["plugin own"]
    assert plan.binds == undisturbed().binds
    return plan.findings[0].message


@pytest.mark.parametrize(
    ("register", "expected"),
    [
        pytest.param(
            lambda s: s.add_job_ready("own", lambda job: None),
            "failed in job_ready: expected True or False, got None",
            id="no answer to a question",
        ),
        pytest.param(
            lambda s: s.add_job_pipelined("own", lambda job: False),
            "failed in job_pipelined: expected PERMIT, ABSTAIN or REJECT, got False",
            id="a truth value for a vote",
        ),
        pytest.param(
            lambda s: s.add_job_enqueueable("own", lambda job: (True, None)),
            "failed in job_enqueueable: expected PERMIT, ABSTAIN or REJECT, got True",
            id="a truth value for a vote with a reason",
        ),
        pytest.param(
            lambda s: s.add_job_order("own", lambda job: float("nan")),
            "failed in job_order: the sort key is not a number",
            id="a sort key that is not a number",
        ),
        pytest.param(
            lambda s: s.add_predicate("own", lambda shape, nodes: np.True_, applies=lambda shape: 1 / 0),
            "failed in applies: ZeroDivisionError: division by zero",
            id="a condition that raises",
        ),
        pytest.param(
            lambda s: s.add_node_score("own", lambda shape, nodes: nodes.used.__setitem__(0, 1)),
            "failed in node_score: ValueError: assignment destination is read-only",
            id="writing to the figures of nodes",
        ),
        pytest.param(
            lambda s: s.add_node_score("own", lambda shape, nodes: sys.exit(3)),
            "failed in node_score: SystemExit: 3",
            id="ending the process",
        ),
        pytest.param(
            lambda s: s.add_job_order("gang", lambda job: 0),
            "failed in job_order: it registers under the name 'gang': use self.name",
            id="another plugin's name",
        ),
    ],
)
def test_a_wrong_answer_of_an_own_plugin(register: Callable[[Session], None], expected: str) -> None:
    assert expected in fault_of(decided(plugins=(own(register),)))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(lambda tasks: ([], True), "expected PERMIT, ABSTAIN or REJECT, got True", id="no vote"),
        pytest.param(lambda tasks: ("no", PERMIT), "n is not among the candidates", id="a text"),
        pytest.param(lambda tasks: (tasks, PERMIT), "ns/b-w-0 is not among the candidates", id="a stranger"),
        pytest.param(lambda tasks: (3, PERMIT), "expected a list of tasks, got int 3", id="no list"),
    ],
)
def test_a_wrong_answer_about_victims(answer: Callable[[Any], Any], expected: str) -> None:
    def ask(session: Session) -> None:
        tasks = session.state.tasks
        session.preemptable(tasks["ns/a-w-0"], [tasks["ns/a-w-0"]])

    def register(session: Session) -> None:
        session.add_preemptable("own", lambda *_: answer([session.state.tasks["ns/b-w-0"]]))

    asking = conf("ask, enqueue, allocate, backfill", ["own"], ["gang"], TIERS[1])
    plan = decided(asking, plugins=(own(register),), actions=(action_called("ask", ask),))
    assert expected in fault_of(plan)


def test_lists_are_copies() -> None:
    def ask(session: Session) -> None:
        tasks = list(session.state.tasks.values())
        count = len(tasks)
        assert session.victim_tasks(tasks) == tasks[:1]
        assert len(tasks) == count

    def register(session: Session) -> None:
        session.add_victim_tasks("own", lambda tasks: [cast(list[Task], tasks).pop(0)])

    asking = conf("ask, enqueue, allocate, backfill", *TIERS)
    assert decided(asking, plugins=(own(register),), actions=(action_called("ask", ask),)).findings == ()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (None, "expected lists of numbers of domains, got None"),
        ([[0.5]], "expected lists of numbers of domains"),
        ([[7]], "there is no domain 7, only 1"),
    ],
)
def test_a_wrong_answer_about_domains(answer: Any, expected: str) -> None:
    def ask(session: Session) -> None:
        session.hyper_node_gradient("hyper_node_gradient_for_job", session.state.jobs["ns/a"], 0, "Allocate")

    def register(session: Session) -> None:
        session.add_hyper_node_gradient_for_job("own", lambda *_: answer)

    asking = conf("ask, enqueue, allocate, backfill", *TIERS)
    assert expected in fault_of(decided(asking, plugins=(own(register),), actions=(action_called("ask", ask),)))


def test_a_fault_is_that_of_the_plugin_that_was_asked_last() -> None:
    def asking(session: Session) -> None:
        session.add_job_order(
            "own", lambda job: session.allocatable(session.queues["q"], next(iter(job.tasks.values())))
        )

    def failing(queue: Queue, task: Task) -> None:
        raise ZeroDivisionError

    def raising(session: Session) -> None:
        session.add_allocatable("other", failing)

    both = conf("enqueue, allocate", ["gang", "own", "other"], TIERS[1])
    plan = decided(both, plugins=(own(asking), plugin_called("other", raising)))
    assert plan.findings[0].where == "plugin other"


# --- what does not come back


def forever(*_: Any) -> Any:
    while True:
        pass


def holding_on(*_: Any) -> Any:
    """Catches whatever comes."""
    while True:
        with contextlib.suppress(BaseException):
            sum(range(100))


def hanging_in(point: str, function: Callable[..., Any] = forever) -> type[Plugin]:
    return own(lambda session: getattr(session, f"add_{point}")("own", function))


@pytest.mark.parametrize(
    "point",
    (
        "job_order queue_order task_order job_ready job_valid allocatable pre_predicate overused job_enqueueable "
        "job_enqueued predicate node_score batch_node_score"
    ).split(),
)
def test_a_plugin_that_hangs_at_a_point(point: str) -> None:
    plan = decided(plugins=(hanging_in(point),), seconds=SOON)
    assert f"failed in {point}: no answer after 0.05 s (test_extensions.py, line " in fault_of(plan)


@pytest.mark.parametrize("point", ["on_allocate", "on_deallocate"])
def test_a_plugin_that_hangs_when_it_is_told_of_a_placement(point: str) -> None:
    handlers = {"on_allocate": lambda *_: None, "on_deallocate": lambda *_: None, point: forever}
    told = own(lambda session: session.add_event_handler("own", *handlers.values()))
    assert f"failed in {point}: no answer" in fault_of(decided(plugins=(told,), seconds=SOON))


def test_a_plugin_that_hangs_in_either_half_of_a_node_map() -> None:
    def ones(_: Any, nodes: Any) -> Any:
        return np.ones(len(nodes))

    first = own(lambda s: s.add_node_map("own", forever, lambda _, scores: scores))
    second = own(lambda s: s.add_node_map("own", ones, forever))
    assert "failed in node_map: no answer" in fault_of(decided(plugins=(first,), seconds=SOON))
    assert "failed in node_reduce: no answer" in fault_of(decided(plugins=(second,), seconds=SOON))


@pytest.mark.parametrize("step", ["__init__", "on_session_open", "on_session_close"])
def test_a_plugin_that_hangs_at_its_steps(step: str) -> None:
    hanging = plugin_called("own", lambda _: None)
    setattr(hanging, step, forever)
    assert "no answer after" in fault_of(decided(plugins=(hanging,), seconds=SOON))


def test_a_plugin_that_catches_everything_is_stopped_too() -> None:
    assert "no answer after" in fault_of(decided(plugins=(hanging_in("job_order", holding_on),), seconds=SOON))


def test_a_plugin_that_waits_for_something_is_woken() -> None:
    never = threading.Event()
    waiting = hanging_in("job_order", lambda _: never.wait(30))
    assert "no answer after" in fault_of(decided(plugins=(waiting,), seconds=SOON))


def test_two_plugins_that_hang_are_both_left_out() -> None:
    both = conf("enqueue, allocate, backfill", ["gang", "own", "other"], TIERS[1])
    other = plugin_called("other", lambda s: s.add_job_order("other", forever))
    plan = decided(both, plugins=(hanging_in("queue_order"), other), seconds=SOON)
    assert sorted(f.where for f in plan.findings) == ["plugin other", "plugin own"]
    assert plan.binds == undisturbed().binds


def test_an_action_that_hangs_is_left_out_and_undone() -> None:
    def act(session: Session) -> None:
        session.statement().allocate(session.state.tasks["ns/b-w-0"], 1)
        forever()

    plan = decided(
        conf("act, enqueue, allocate, backfill", *TIERS[1:], ["gang"]),
        plugins=(),
        actions=(action_called("act", act),),
        seconds=SOON,
    )
    assert [f.where for f in plan.findings] == ["action act"]
    assert "failed in execute: no answer after 0.05 s (" in plan.findings[0].message
    assert plan.binds == undisturbed().binds


def test_the_time_of_a_plugin_inside_an_action_is_its_own() -> None:
    state = state_of(cluster())

    def ask(session: Session) -> None:
        session.job_ready(session.state.jobs["ns/a"])

    asking = action_called("ask", ask)
    given = conf("ask, enqueue, allocate", *TIERS)
    usable, plugins, actions = parsed(given, [hanging_in("job_ready")], [asking])
    with watchdog(0.05, 30) as dog:
        plan = cycle(state, usable, 0, None, plugins=plugins, actions=actions, watchdog=dog)
    assert [f.where for f in plan.findings] == ["plugin own"]


def test_what_is_in_time_is_left_alone() -> None:
    calls: list[str] = []

    def order(job: Job) -> int:
        calls.append(job.name)
        return 0

    plan = decided(plugins=(own(lambda s: s.add_job_order("own", order)),))
    assert (plan.findings, plan.binds) == ((), undisturbed().binds)
    assert calls


def test_code_of_the_engine_is_never_interrupted() -> None:
    """A plugin that spends its time in the engine is stopped between two calls, with the engine's figures whole."""
    state = state_of(cluster())
    before = fingerprint(state)

    def busy(session: Session) -> None:
        while True:
            statement = session.statement()
            for task in session.state.tasks.values():
                if not task.node:
                    statement.allocate(task, 0)
            statement.discard()

    usable, plugins, actions = parsed(conf("act, allocate", ["gang"]), (), [action_called("act", busy)])
    for _ in range(5):
        with watchdog(0.02, 0.02) as dog:
            plan = cycle(state, usable, 0, None, plugins=plugins, actions=actions, watchdog=dog)
        assert [f.where for f in plan.findings] == ["action act"]
        assert fingerprint(state) == before


def test_in_another_thread_a_thread_keeps_the_time() -> None:
    found: list[Any] = []

    def work() -> None:
        try:
            for function in (forever, holding_on):
                found.append(fault_of(decided(plugins=(hanging_in("job_order", function),), seconds=SOON)))
            found.append(binds(decided(plugins=(own(lambda s: s.add_job_order("own", lambda job: 0)),))))
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(60)
    assert [("no answer after 0.05 s" in str(text)) for text in found] == [True, True, False]
    assert found[2] == binds(undisturbed())


def test_the_alarm_is_given_back() -> None:
    rung: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(1))
    try:
        signal.setitimer(signal.ITIMER_REAL, 100)
        decided(plugins=(hanging_in("job_order"),), seconds=SOON)
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 90
        signal.raise_signal(signal.SIGALRM)
        assert rung == [1]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_plugins_of_this_package_are_not_watched() -> None:
    class Counting:
        calls = 0

        def call(self, kind: str, function: Callable[..., Any], *arguments: object) -> Any:
            self.calls += 1
            return function(*arguments)

    dog = Counting()
    usable: SchedulerConf = parsed(WITHOUT)[0]
    cycle(state_of(cluster()), usable, 0, None, watchdog=dog)
    assert dog.calls == 0
