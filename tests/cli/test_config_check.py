"""`kilauea config check`: every finding with its line, the nearest right name, and why it matters.

KILAUEA_UPDATE_GOLDEN=1 writes the golden files again; the difference is then for review.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from kilauea.cli.main import main
from kilauea.engine import conf as conf_module
from kilauea.engine.explain.conf_check import WHY, check_conf
from kilauea.runtime.inputs.extensions import load_extensions
from kilauea.simulator.extensions import BUILT_IN

CONFIGURATIONS = Path(__file__).resolve().parent / "configurations"
GOLDEN = Path(__file__).resolve().parents[1] / "golden"
DEFAULT = Path(__file__).resolve().parents[2] / "examples" / "scheduler-conf" / "default.conf"
USABLE = {"order": True, "no-allocate": True, "bare": True, "helm": True}


def check(*arguments: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(main, ["config", "check", *arguments], input=typed)


def found(text: str, *arguments: str) -> list[dict[str, Any]]:
    """The findings about a configuration."""
    result = check("-", "-o", "json", *arguments, typed=text)
    assert result.stderr == ""
    data = json.loads(result.stdout)
    assert (data["file"], data["ok"]) == ("standard input", result.exit_code == 0)
    findings: list[dict[str, Any]] = data["findings"]
    return findings


def codes(text: str) -> list[tuple[int, str]]:
    """Line and code of the findings about a configuration."""
    return [(finding["line"], finding["code"]) for finding in found(text)]


def with_tiers(actions: str, *tiers: str) -> str:
    """A configuration; a tier is written as names of plugins, which begin with line 3 of the file."""
    lines = [f'actions: "{actions}"', "tiers:"]
    for tier in tiers:
        lines += ["- plugins:", *(f"  - name: {name}" for name in tier.split())]
    return "\n".join(lines) + "\n"


def compare(name: str, text: str) -> None:
    """The text is that of the golden file, byte for byte."""
    file = GOLDEN / name
    if os.environ.get("KILAUEA_UPDATE_GOLDEN"):
        file.write_text(text)
    assert text == file.read_text()


@pytest.mark.parametrize("path", sorted(CONFIGURATIONS.glob("*.conf")), ids=lambda path: path.stem)
@pytest.mark.parametrize("output", ["table", "json"])
def test_what_is_printed_is_the_golden_one(path: Path, output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CONFIGURATIONS)
    result = check(path.name, "-o", output)
    assert (result.exit_code, result.stderr) == (0 if USABLE.get(path.stem) else 2, "")
    compare(f"config-check-{path.stem}.{'txt' if output == 'table' else 'json'}", result.stdout)


def test_nothing_is_found_in_the_default_configuration() -> None:
    result = check(str(DEFAULT))
    assert (result.exit_code, result.stdout) == (0, f"{DEFAULT}: valid, no problems found.\n")


def test_a_tree_of_queues_needs_no_queue_to_be_checked(tmp_path: Path) -> None:
    path = tmp_path / "tree.conf"
    path.write_text(
        "actions: enqueue, allocate, backfill\n"
        "tiers: [{plugins: [{name: gang}, {name: predicates}, {name: capacity, enableHierarchy: true}]}]\n"
    )
    result = check(str(path))
    assert (result.exit_code, "does not exist" in result.stdout) == (0, False)


def test_a_file_that_is_not_there() -> None:
    result = check("nowhere.conf")
    assert (result.exit_code, result.stderr) == (2, "Error: nowhere.conf: No such file or directory\n")


def test_the_form_for_programs() -> None:
    (finding,) = found(with_tiers("enqueue, allocate", "gang overcomit proportion"))
    assert finding == {
        "line": 5,
        "column": 5,
        "severity": "error",
        "code": "unknown-plugin",
        "where": "tiers[0].plugins[1]",
        "message": "unknown plugin 'overcomit'; did you mean 'overcommit'?",
        "hint": "overcommit",
        "why": "A typo must not change the behaviour of the scheduler, so the file is not used.",
    }


def served(action: str, whom: str) -> str:
    """The last lines of a configuration: whom an action that takes back serves."""
    return f"configurations:\n- name: {action}\n  arguments: {{reclaimFor: {whom}}}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            with_tiers("enqueue, allocate", "priority gang", "overcommit predicates proportion"), [], id="good order"
        ),
        pytest.param(
            with_tiers("enqueue, allocate", "overcommit", "proportion"), [(6, "hidden-voter")], id="two tiers"
        ),
        pytest.param(with_tiers("allocate", "proportion", "overcommit"), [(6, "unused-plugin")], id="no one asks"),
        pytest.param(with_tiers("enqueue, allocate", "sla", "overcommit gang"), [], id="sla before all others"),
        pytest.param(
            with_tiers("enqueue, allocate", "overcommit", "sla"), [(6, "hidden-voter")], id="sla behind the others"
        ),
        pytest.param(
            with_tiers("enqueue, allocate", "overcommit sla"), [(5, "powerless-voter")], id="sla beside the others"
        ),
        pytest.param(
            with_tiers("enqueue, allocate, preempt", "overcommit gang", "priority"),
            [(7, "hidden-starving"), (7, "hidden-victims")],
            id="what preempt asks",
        ),
        pytest.param(
            with_tiers("enqueue, allocate, reclaim", "conformance", "proportion"),
            [(6, "hidden-victims")],
            id="what reclaim asks",
        ),
        pytest.param(
            with_tiers("allocate, preempt", "conformance"), [(1, "no-starving")], id="no one tells preempt who starves"
        ),
        pytest.param(with_tiers("allocate, gangpreempt", "conformance"), [(1, "no-starving")], id="nor gangpreempt"),
        pytest.param(with_tiers("allocate, reclaim, gangreclaim", "conformance"), [], id="reclaim serves all"),
        pytest.param(
            with_tiers("allocate, reclaim", "conformance") + served("reclaim", "pending"), [], id="and may say so"
        ),
        pytest.param(
            with_tiers("allocate, reclaim", "conformance") + served("reclaim", "starving"),
            [(1, "no-starving")],
            id="reclaim that serves starving jobs alone",
        ),
        pytest.param(
            with_tiers("allocate, gangreclaim", "conformance") + served("gangreclaim", "starving"),
            [(1, "no-starving")],
            id="gangreclaim that serves starving jobs alone",
        ),
        pytest.param(
            with_tiers("allocate, reclaim", "gang", "priority") + served("reclaim", "starving"),
            [(6, "hidden-starving")],
            id="gang tells reclaim who starves",
        ),
        pytest.param(with_tiers("allocate, reclaim", "gang", "priority"), [], id="reclaim for all asks neither"),
        pytest.param(with_tiers("enqueue, allocate", "gang"), [(1, "enqueue-without-votes")], id="no one votes"),
        pytest.param(with_tiers("enqueue, backfill", "proportion"), [(1, "no-allocate")], id="no one places"),
        pytest.param(with_tiers("allocate, enqueue", "proportion"), [(1, "action-order")], id="enqueue too late"),
        pytest.param(
            with_tiers("backfill, enqueue, allocate", "proportion"), [(1, "action-order")], id="backfill first"
        ),
        pytest.param(with_tiers("allocate, allocate", "gang"), [(1, "duplicate-action")], id="an action twice"),
        pytest.param(with_tiers("allocate", "gang", "gang"), [(6, "duplicate-plugin")], id="a plugin twice"),
        pytest.param(with_tiers("allocate", *["gang"] * 9), [(6, "duplicate-plugin")], id="a plugin in many tiers"),
        pytest.param(with_tiers("allocate", "proportion capacity"), [(5, "rival-plugins")], id="rivals"),
        pytest.param("actions: allocate\n", [(1, "no-plugins")], id="no plugins"),
        pytest.param("actions: allocate\ntiers: 3\n", [(2, "wrong-type")], id="no list"),
        pytest.param("- actions\n", [(1, "wrong-type")], id="no map"),
        pytest.param("", [(0, "wrong-type")], id="nothing"),
        pytest.param("actions:\n", [(1, "wrong-type")], id="no actions"),
        pytest.param("actions: ''\n", [(1, "empty-action")], id="empty actions"),
        pytest.param("actions: allocate,\n", [(1, "empty-action")], id="a comma too many"),
        pytest.param("actions: a\nactions: b\n", [(2, "yaml")], id="a key twice"),
        pytest.param("actions: a\n---\nactions: b\n", [(0, "yaml")], id="two documents"),
        pytest.param(
            with_tiers("allocate", "drf") + "    enabledJobOrder: true\n", [(5, "flag-spelling")], id="spelled oddly"
        ),
        pytest.param(
            with_tiers("allocate", "gang") + "configurations:\n- name: allocat\n",
            [(6, "unused-arguments")],
            id="of none",
        ),
        pytest.param(
            with_tiers("allocate", "gang")
            + "configurations:\n- name: allocate\n  arguments: {predicateErrorCache: 1}\n",
            [(7, "unknown-argument")],
            id="of an action",
        ),
    ],
)
def test_what_is_found(text: str, expected: list[tuple[int, str]]) -> None:
    assert codes(text) == expected


def test_plugins_that_are_not_asked_who_starves_are_named() -> None:
    off = "    enableJobStarving: false\n"
    text = with_tiers("allocate, preempt, reclaim", "conformance gang") + off + "  - name: priority\n" + off
    (finding,) = found(text)
    assert (finding["line"], finding["severity"], finding["code"]) == (5, "warning", "no-starving")
    assert finding["message"] == (
        "preempt serves only starving jobs, and no plugin says which jobs are starving: "
        "enableJobStarving is false for gang and priority"
    )


WORDS = st.sampled_from(
    "actions tiers plugins name arguments configurations enableJobOrder enabledHierarchy gang drf proportion capacity "
    "sla overcommit overcommit-factor enqueue allocate preempt kind ConfigMap nonsense".split()
)
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS | st.just("enqueue, allocate, preempt") | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.integers(), inner, max_size=4),
    max_leaves=12,
)
PLUGIN = st.dictionaries(WORDS, DOCUMENTS, max_size=3) | st.fixed_dictionaries({"name": WORDS, "arguments": DOCUMENTS})
TIER = st.fixed_dictionaries({"plugins": st.lists(PLUGIN, max_size=4)}) | DOCUMENTS
WHOLE = st.fixed_dictionaries(
    {
        "actions": st.lists(WORDS, max_size=4).map(", ".join) | DOCUMENTS,
        "tiers": st.lists(TIER, max_size=3) | DOCUMENTS,
        "configurations": st.lists(PLUGIN, max_size=2) | DOCUMENTS,
    }
)


@given(DOCUMENTS | WHOLE)
def test_whatever_the_document_something_is_said(document: Any) -> None:
    issues = check_conf(document, BUILT_IN.plugins, BUILT_IN.actions)
    assert all(issue.message and issue.why for issue in issues)
    errors = [issue for issue in issues if issue.severity == "error"]
    try:
        conf_module.parse_conf(document, BUILT_IN.plugins, BUILT_IN.actions)
    except conf_module.ConfError:
        assert errors
    else:
        assert not errors


def test_every_code_has_its_reason() -> None:
    source = Path(conf_module.__file__).read_text()
    used = set(re.findall(r'"([a-z]+-[a-z-]+)"', source)) - {"capacity-card", "numa-aware", "task-topology"}
    assert {code for code in used if code not in WHY} == set()


def test_an_own_plugin_is_known_and_opened(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from kilauea.engine.plugin import Plugin\n\n"
        "class Own(Plugin):\n"
        "    name = 'own'\n\n"
        "    def on_session_open(self, session):\n"
        "        session.add_job_redy(self.name, len)\n"
    )
    text = with_tiers("allocate", "own")
    assert [finding["code"] for finding in found(text)] == ["unknown-plugin"]
    (finding,) = found(text, "--plugins-dir", str(tmp_path))
    assert (finding["line"], finding["code"], finding["where"]) == (4, "plugin-fault", "tiers[0].plugins[0] (own)")
    assert "'Session' object has no attribute 'add_job_redy'" in finding["message"]
    assert "(own.py, line 7)" in finding["message"]


def test_an_own_action_may_stand_for_allocate(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from kilauea.engine.action import Action\n\nclass Own(Action):\n    name = 'place'\n"
    )
    assert found(with_tiers("enqueue, place", "proportion"), "--plugins-dir", str(tmp_path)) == []


def test_a_broken_folder_of_plugins(tmp_path: Path) -> None:
    result = check(str(DEFAULT), "--plugins-dir", str(tmp_path / "none"))
    assert (result.exit_code, result.stderr) == (2, f"Error: plugins folder {tmp_path}/none does not exist\n")


def test_every_plugin_can_be_opened_over_an_empty_cluster() -> None:
    for name in BUILT_IN.plugins:
        document = {"actions": "allocate", "tiers": [{"plugins": [{"name": name}]}]}
        issues = check_conf(document, BUILT_IN.plugins, BUILT_IN.actions)
        assert [issue.message for issue in issues if issue.code == "plugin-fault"] == []


def test_warnings_about_installed_plugins_go_to_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load_extensions([], installed=False)
    broken = type(loaded)(loaded.plugins, loaded.actions, ("entry point x is broken",))
    monkeypatch.setattr("kilauea.runtime.inputs.extensions.load_extensions", lambda *_: broken)
    result = check(str(DEFAULT))
    assert (result.exit_code, result.stderr) == (0, "warning: entry point x is broken\n")
