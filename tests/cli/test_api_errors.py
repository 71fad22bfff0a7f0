"""A cluster that cannot be read: whether it does not answer or refuses, and what to do about it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from kilauea.api.ports import ApiError
from kilauea.cli.api_errors import unread_cluster
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
    assert "object at 0x" not in result.stderr
