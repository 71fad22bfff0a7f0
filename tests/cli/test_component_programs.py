"""`vc-scheduler`, `vc-controller-manager` and `vc-webhook-manager`: Volcano's flags work, or say that they do not."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kilauea.cli.daemon import daemon_options
from kilauea.cli.original_flags import CONTROLLERS, KLOG, SCHEDULER, WEBHOOKS
from kilauea.cli.programs import PROGRAMS, program
from kilauea.cli.scheduler import _live

COMMON = """
master kubeconfig ca-cert-file tls-cert-file tls-private-key-file scheduler-name version healthz-address enable-healthz
kube-api-qps kube-api-burst v vmodule logtostderr alsologtostderr stderrthreshold log-dir log-file log-file-max-size
log-backtrace-at skip-headers skip-log-headers add-dir-header one-output log-flush-frequency
""".split()
ELECTION = """
feature-gates lock-object-namespace leader-elect leader-elect-lease-duration leader-elect-renew-deadline
leader-elect-retry-period leader-elect-resource-lock leader-elect-resource-name leader-elect-resource-namespace
enable-metrics listen-address
""".split()
FLAGS = {
    "vc-scheduler": """
        scheduler-conf schedule-period resync-period default-queue priority-class minimum-feasible-nodes
        minimum-percentage-nodes-to-find percentage-nodes-to-find plugins-dir csi-storage enable-pprof node-selector
        cache-dumper cache-dump-dir node-worker-threads gate-removal-worker-num ignored-provisioners
        resource-sync-timeout disable-default-scheduler-config scheduler-sharding-mode scheduler-sharding-name
        """.split()
    + ELECTION,
    "vc-controller-manager": """
        worker-threads worker-threads-for-cronjob worker-threads-for-podgroup worker-threads-for-queue
        worker-threads-for-gc max-requeue-num inherit-owner-annotations controllers scheduler-configs shard-sync-period
        enable-node-event-trigger
        """.split()
    + ELECTION,
    "vc-webhook-manager": """
        listen-address port webhook-namespace webhook-service-name webhook-url enabled-admission admission-conf
        graceful-shutdown-time enable-queue-allocated-pods-check max-queue-depth enable-root-queue-protection
        enable-cascade-child-queue-close enable-queue-closed-before-delete-check feature-gates
        """.split(),
}
"""The flags of Volcano's programs, of its newest versions."""
NO_EFFECT = {"vc-scheduler": SCHEDULER, "vc-controller-manager": CONTROLLERS, "vc-webhook-manager": WEBHOOKS}
NEEDED = {"vc-webhook-manager": ["--webhook-url=https://192.0.2.7"]}


def run(name: str, *words: str) -> Result:
    """The program with a kubeconfig that does not exist, so that it ends once its flags are read."""
    given = [*NEEDED.get(name, []), "--kubeconfig", "/no/such/file", *words]
    return CliRunner().invoke(program(name), given, prog_name=name)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_flag_of_volcano_is_an_option_with_a_purpose_or_a_reason(name: str) -> None:
    options = {word.lstrip("-"): each for each in program(name).params for word in each.opts}
    flags = {*COMMON, *FLAGS[name]}
    assert flags - options.keys() == set()
    ineffective = {flag for flag in flags if not options[flag].expose_value and flag != "version"}
    assert ineffective == flags & {*KLOG, *NO_EFFECT[name]}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_flag_without_effect_is_accepted_with_a_warning_that_says_why(name: str) -> None:
    reasons = {**KLOG, **NO_EFFECT[name]}
    ended = run(name, *(f"--{flag}=1" for flag in reasons))
    told = [line for line in ended.stderr.splitlines() if line.startswith("warning: ")]
    assert told == [f"warning: --{flag} has no effect here: {why}" for flag, why in reasons.items()]
    assert f"Error: {name}: /no/such/file: no such file" in ended.stderr
    assert ended.exit_code == 2


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_flag_gives_no_warning(name: str) -> None:
    assert "warning" not in run(name).stderr


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_unknown_flag_is_an_error_that_names_it(name: str) -> None:
    ended = run(name, "--enable-metric")
    assert ended.exit_code == 2
    assert "No such option '--enable-metric'" in ended.stderr
    assert f"Usage: {name} " in ended.stderr


@pytest.mark.parametrize("name", PROGRAMS)
def test_flags_may_have_underscores_as_in_volcano(name: str) -> None:
    ended = run(name, "--log_file=x", "--kube_api_qps=7")
    assert "warning: --log-file has no effect here" in ended.stderr
    assert "no such file" in ended.stderr


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("words", [["--version"], ["--version=true"]])
def test_version_is_printed_as_volcano_prints_it(name: str, words: list[str]) -> None:
    ended = CliRunner().invoke(program(name), words)
    assert ended.exit_code == 0
    assert re.search(r"^API Version: v1alpha1\nVersion: \d", ended.stdout)


def test_the_arguments_of_volcanos_manifest_are_honoured() -> None:
    words = "--scheduler-conf=/volcano.scheduler/volcano-scheduler.conf --enable-healthz=true --enable-metrics=true"
    words += " --leader-elect=false --kube-api-qps=2000 --kube-api-burst=3000 --schedule-period=2s -v=3"
    words += " --node-selector=role:train,role:serving --healthz-address=:11251 --scheduler-name=a --scheduler-name=b"
    given = program("vc-scheduler").make_context("vc-scheduler", words.split()).params
    daemon, live = daemon_options(given), _live(given)
    assert (daemon.lease, daemon.qps, daemon.burst) == (None, 2000, 3000)
    assert daemon.pages == (("127.0.0.1", 8080), ("", 11251))
    assert (live.names, live.period) == (("a", "b"), 2_000_000)
    assert live.node_labels == (("role", "train"), ("role", "serving"))


def test_a_wrong_node_selector_is_named_with_the_right_form() -> None:
    ended = run("vc-scheduler", "--node-selector=train")
    assert ended.exit_code == 2
    assert '--node-selector: invalid label "train": use KEY:VALUE' in ended.stderr


def test_in_a_json_log_warnings_and_the_last_error_are_json_too(caplog: pytest.LogCaptureFixture) -> None:
    ended = run("vc-controller-manager", "--logging-format=json", "--worker-threads=3")
    assert ended.exit_code == 2
    assert "warning:" not in ended.output
    assert [each.levelname for each in caplog.records] == ["WARNING", "CRITICAL"]
    assert caplog.records[1].getMessage().startswith("vc-controller-manager: /no/such/file: no such file")


def test_each_program_is_installed() -> None:
    scripts = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["scripts"]
    for name in PROGRAMS:
        module, _, function = scripts[name].partition(":")
        assert callable(getattr(import_module(module), function))


def test_the_entry_point_is_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in PROGRAMS:
        entry = getattr(import_module("kilauea.cli.programs"), name.replace("-", "_"))
        monkeypatch.setattr("sys.argv", [name, "--no-such-flag"])
        with pytest.raises(SystemExit) as ended:
            entry()
        assert ended.value.code == 2
        assert f"Usage: {name} " in capsys.readouterr().err


@pytest.mark.slow
def test_each_line_of_a_json_log_is_json(tmp_path: Path) -> None:
    words = [
        "-m",
        "kilauea",
        "scheduler",
        "--logging-format=json",
        "--enable-pprof",
        "--kubeconfig",
        str(tmp_path / "x"),
    ]
    ended = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in ended.stderr.splitlines()]
    assert [line["level"] for line in lines] == ["warning", "critical"]
    assert ended.returncode == 2
