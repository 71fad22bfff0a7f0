"""The output of `kilauea doctor`: a line for each check, then what to do; JSON of a stable form; exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kilauea.cli import doctor as command
from kilauea.cli.main import main
from kilauea.runtime.doctor.findings import ERROR, SKIPPED, WARNING, Check, Finding

SERVER = "https://192.0.2.1:6443"
QUEUE = Finding(
    ERROR, "PodGroup t/g", "spec.queue", "researchers", "queue researchers does not exist", "use queue research"
)
SOON = Finding(WARNING, "Secret n/s", "data[tls.crt]", "expires 2026-12-01", "it expires soon", "restart the webhooks")
UNREAD = Finding(SKIPPED, "ConfigMaps", "", "", "forbidden", "grant your user get on configmaps")
GOOD = Check("server", f"{SERVER} answers")


def run(monkeypatch: pytest.MonkeyPatch, checks: list[Check], *words: str) -> tuple[int, str]:
    """Exit code and output for the checks of a cluster."""
    monkeypatch.setattr(command, "_examined", lambda kubeconfig, folders: (checks, SERVER))
    done = CliRunner().invoke(main, ["doctor", *words])
    return done.exit_code, done.output


def test_each_check_has_a_line_and_each_finding_a_fix_errors_first(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = [
        GOOD,
        Check("configuration", "forbidden", (UNREAD,)),
        Check("webhooks", "it expires soon", (SOON,)),
        Check("names", "queue researchers does not exist", (QUEUE,)),
    ]
    code, text = run(monkeypatch, checks)
    assert code == 1
    assert text.splitlines() == [
        "CHECK           STATUS    SUMMARY",
        "server          ok        https://192.0.2.1:6443 answers",
        "configuration   skipped   forbidden",
        "webhooks        warning   it expires soon",
        "names           error     queue researchers does not exist",
        "",
        "What to do:",
        "",
        "error: PodGroup t/g, spec.queue: researchers",
        "  queue researchers does not exist",
        "  Fix: use queue research",
        "",
        "warning: Secret n/s, data[tls.crt]: expires 2026-12-01",
        "  it expires soon",
        "  Fix: restart the webhooks",
        "",
        "skipped: ConfigMaps",
        "  forbidden",
        "  Fix: grant your user get on configmaps",
    ]


def test_warnings_alone_do_not_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, [Check("webhooks", "", (SOON,)), Check("configuration", "", (UNREAD,))])[0] == 0


def test_a_healthy_cluster_needs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    code, text = run(monkeypatch, [GOOD])
    assert code == 0
    assert "What to do" not in text


def test_json_has_the_fields_of_each_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    code, text = run(monkeypatch, [GOOD, Check("names", "queue researchers does not exist", (QUEUE,))], "-o", "json")
    assert code == 1
    assert json.loads(text) == {
        "server": SERVER,
        "ok": False,
        "checks": [
            {"name": "server", "status": "ok", "summary": f"{SERVER} answers", "findings": []},
            {
                "name": "names",
                "status": "error",
                "summary": "queue researchers does not exist",
                "findings": [
                    {
                        "severity": "error",
                        "object": "PodGroup t/g",
                        "field": "spec.queue",
                        "value": "researchers",
                        "message": "queue researchers does not exist",
                        "fix": "use queue research",
                    }
                ],
            },
        ],
    }


def test_control_characters_of_objects_are_spelled_out(monkeypatch: pytest.MonkeyPatch) -> None:
    evil = Finding(ERROR, "Pod t/a", "spec.schedulerName", "\x1b[31m", "bad \x1b[2J name", "use another")
    assert "\x1b" not in run(monkeypatch, [Check("names", "\x1b", (evil,))])[1]


def test_without_a_cluster_the_usage_is_wrong(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["doctor", "--kubeconfig", str(tmp_path / "none")])
    assert done.exit_code == 2
    assert "name a kubeconfig file with --kubeconfig" in done.output


def test_a_server_that_does_not_answer_is_an_error_with_a_fix(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    cluster = {"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    user = {"name": "u", "user": {"token": "t"}}
    config = {"clusters": [cluster], "contexts": [context], "users": [user], "current-context": "c"}
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **config}))
    done = CliRunner().invoke(main, ["doctor", "--kubeconfig", str(path)])
    assert done.exit_code == 1
    assert "https://127.0.0.1:1: GET /version: Connection refused" in done.output
    assert "check that the server runs, and clusters[].cluster.server of the kubeconfig" in done.output
