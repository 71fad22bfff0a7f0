"""The pages in docs/reference are what docs/generate_reference.py writes."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path
from typing import Any

import pytest

from kilauea.api.crds.kinds import KINDS
from kilauea.cli.main import SUBCOMMANDS
from kilauea.engine.explain.group import RULES
from kilauea.engine.extension import FLAGS
from kilauea.engine.plugins import PLUGINS
from kilauea.engine.session import Session

DOCS = Path(__file__).resolve().parents[1] / "docs"
SCRIPT: dict[str, Any] = runpy.run_path(str(DOCS / "generate_reference.py"))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SCRIPT["PAGES"]))
def test_a_page_is_up_to_date(name: str) -> None:
    written = (DOCS / "reference" / name).read_text()
    assert written == SCRIPT["PAGES"][name](), "run: python docs/generate_reference.py"


@pytest.mark.parametrize("name", sorted(SCRIPT["PICTURES"]))
def test_a_picture_is_up_to_date(name: str) -> None:
    written = (DOCS / "pictures" / name).read_text()
    assert written == SCRIPT["PICTURES"][name](), "run: python docs/generate_reference.py"


def test_every_page_is_made() -> None:
    assert {path.name for path in (DOCS / "pictures").iterdir()} == set(SCRIPT["PICTURES"])
    assert {path.name for path in (DOCS / "reference").glob("*.md")} == set(SCRIPT["PAGES"])


def test_every_plugin_and_every_registration_is_on_a_page() -> None:
    plugins = (DOCS / "reference" / "plugins.md").read_text()
    assert [name for name in PLUGINS if f"\n## {name}\n" not in plugins] == []
    session = (DOCS / "reference" / "session.md").read_text()
    registrations = [f"add_{point}" for point in FLAGS if hasattr(Session, f"add_{point}")]
    assert len(registrations) > 30
    assert [name for name in registrations if f"**`{name}(" not in session] == []


def test_every_program_and_every_subcommand_is_on_a_page() -> None:
    text = "".join((DOCS / "reference" / name).read_text() for name in ("kilauea.md", "vcctl.md"))
    scripts = tomllib.loads((DOCS.parent / "pyproject.toml").read_text())["project"]["scripts"]
    wanted = {*scripts, *(f"kilauea {name}" for name in SUBCOMMANDS), "vcctl job run", "vcctl queue tree"}
    assert {name for name in wanted if not re.search(rf"^#+ {name}$", text, re.M)} == set()


def test_every_kind_and_every_code_of_an_explanation_is_on_a_page() -> None:
    resources = (DOCS / "reference" / "resources.md").read_text()
    assert [each.resource.kind for each in KINDS if f"\n## {each.resource.kind}\n" not in resources] == []
    assert "| `spec.guarantee.resource` |" in resources
    reasons = (DOCS / "reference" / "reasons.md").read_text()
    assert [code for code in RULES if f"| `{code}` |" not in reasons] == []
    assert "| `MaxRetryReached` | Warning | vcjobs controller |" in reasons


def test_every_reason_for_which_something_waits_has_a_rule() -> None:
    """The codes that the engine writes as literals; others come through a name that is one of these."""
    calls = runpy.run_path(str(DOCS / "generators" / "reasons.py"))
    codes = {
        calls["_text"](call.args[place], names)
        for kind, place in (("Refusal", 0), ("Pending", 2))
        for path, call, names in calls["_calls"](kind)
        if (calls["SOURCE"] / "engine") in path.parents and len(call.args) > place
    } - {""}
    assert {"AdmissionGivenBack", "ResourceQuotaInsufficient", "GangWaiting"} <= codes
    assert codes - set(RULES) == set()


@pytest.mark.slow
def test_every_reason_of_a_node_a_queue_or_an_event_that_is_a_literal_is_on_a_page() -> None:
    calls = runpy.run_path(str(DOCS / "generators" / "reasons.py"))
    page = (DOCS / "reference" / "reasons.md").read_text()
    for kind, place in (("Rejection", 0), ("QueueFault", 2), ("Record", 2), ("SpareReason", 0)):
        found = {
            calls["_text"](call.args[place], names)
            for _, call, names in calls["_calls"](kind)
            if len(call.args) > place + 1
        } - {""}
        assert found
        assert {code for code in found if f"| `{code}` |" not in page} == set()


@pytest.mark.slow
def test_every_reason_of_an_event_that_is_passed_on_is_on_a_page() -> None:
    """Where a reason comes through a variable, the generator finds its values or has a list of them."""
    generator = runpy.run_path(str(DOCS / "generators" / "reasons.py"))
    page = (DOCS / "reference" / "reasons.md").read_text()
    told = list(generator["_told"]())
    reasons = {reason for _, _, (_, some, _) in told for reason in some}
    assert {"WaitForFirstConsumer", "QueueError", "PodOSNotSupported", "ProbeWarning", "Killing"} <= reasons
    assert {place for place, _, (kinds, some, _) in told if not (kinds and some)} == set(generator["ELSEWHERE"])
    elsewhere = {reason for some in generator["ELSEWHERE"].values() for reason in some}
    assert {reason for reason in reasons | elsewhere if f"| `{reason}` |" not in page} == set()


def test_the_attributes_of_the_session_are_there() -> None:
    held = {name for (name, *_) in SCRIPT["_attributes_of_session"]()}
    source = Path(SCRIPT["Session"].__init__.__code__.co_filename).read_text()
    assert {name for name in held if f"self.{name.strip('`')}" not in source} == set()


def test_every_member_of_the_list_has_a_docstring() -> None:
    assert [name for name in SCRIPT["SESSION_METHODS"] if not getattr(Session, name).__doc__] == []


def test_the_meaning_of_a_metric_begins_with_its_kind_and_names_its_unit() -> None:
    rows = [row.split(" | ") for row in SCRIPT["PAGES"]["metrics.md"]().splitlines() if row.startswith("| `")]
    kinds = "Number|Time|Whether|Bytes|Thousandths|Memory|Percentage|Weight|Largest|Dominant share"
    for name, _, _, meaning in rows:
        assert re.match(f"({kinds}) ", meaning), name
        for unit in ("milliseconds", "seconds"):
            assert not re.search(f"_{unit}`", name) or f" in {unit}" in meaning, name
    assert len(rows) > 50
