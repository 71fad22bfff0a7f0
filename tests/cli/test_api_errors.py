"""A cluster that cannot be read: whether it does not answer or refuses, and what to do about it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from kilauea.api.ports import ApiError
from kilauea.cli.api_errors import refused_job, unread_cluster
from kilauea.cli.main import main


def test_a_server_that_refuses_the_user_is_not_said_to_be_silent() -> None:
    error = ApiError(401, "Unauthorized", "Unauthorized")
    error.add_note("list of pods")
    assert unread_cluster(error) == (
        "the cluster refuses the request (list of pods): Unauthorized: the server does not accept the credentials of "
        "the kubeconfig; renew them, or name another file with --kubeconfig"
    )


@pytest.mark.parametrize("line", ["plan", "explain job j", "queues"])
def test_a_server_that_does_not_answer_is_named_by_its_address(line: str, tmp_path: Path) -> None:
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (tmp_path / "config").write_text(yaml.safe_dump(kubeconfig))
    result = CliRunner().invoke(main, [*line.split(), "--kubeconfig", str(tmp_path / "config")])
    assert result.exit_code == 1
    assert "the cluster does not answer (list of pods): https://127.0.0.1:1" in result.stderr
    assert result.stderr.endswith("; start the cluster (`kilauea up`), or name another file with --kubeconfig\n")
    assert "object at 0x" not in result.stderr


def test_a_job_for_a_queue_that_does_not_exist_is_answered_with_how_to_create_it() -> None:
    denied = 'unable to find job queue: queue.scheduling.volcano.sh "research" not found'
    assert refused_job(ApiError(403, "Forbidden", f"{denied};")) == (
        f"{denied}; `kilauea queues` lists the queues, `vcctl queue create -n research` creates this one"
    )


def test_a_job_for_a_namespace_that_does_not_exist_is_answered_with_how_to_create_it() -> None:
    error = ApiError(404, "NotFound", 'namespaces "team" not found', {"name": "team", "kind": "namespaces"})
    assert refused_job(error) == (
        'namespaces "team" not found; `kubectl get namespaces` lists them, `kubectl create namespace team` creates '
        "this one"
    )


def test_a_job_that_is_refused_for_something_else_is_answered_with_the_words_of_the_server() -> None:
    assert refused_job(ApiError(404, "NotFound", "jobs not found", {"kind": "jobs"})) == "jobs not found"
    assert refused_job(ApiError(403, "Forbidden", "exceeded quota: team")) == "exceeded quota: team"
