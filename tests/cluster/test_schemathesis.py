"""Schemathesis against our own OpenAPI: requests made from it, bad ones too, never get an answer of 500 and above.

A few operations of each kind of verb by default; all of them with the hypothesis profile `thorough`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from cluster.api_process import Server

THOROUGH = settings().max_examples > 100
EXAMPLES = 20 if THOROUGH else 4
DOCUMENTS = {
    "api/v1": "/api/v1/namespaces/{namespace}/(pods|configmaps)",
    "apis/apps/v1": "/apis/apps/v1/namespaces/{namespace}/deployments",
    "apis/rbac.authorization.k8s.io/v1": "roles",
    "apis/batch.volcano.sh/v1alpha1": "/jobs",
}
"""Which paths are tried of which document; all of them when thorough."""
# Answers are as the real server gives them, where the OpenAPI of Kubernetes says less: 400 and others are not in it.
CHECKS = "never_breaks,content_type_conformance,has_the_schema"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_no_request_made_from_the_openapi_breaks_the_server(document: str, server: Server, tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("schemathesis")), "run", f"{server.url}/openapi/v3/{document}"]
    command += ["--header", f"Authorization: Bearer {server.token}", "--tls-verify", str(server.authority)]
    command += ["--url", server.url, "--checks", CHECKS, "--phases", "fuzzing", "--mode", "all"]
    command += ["--max-examples", str(EXAMPLES), "--seed", "1", "--request-timeout", "20", "--workers", "2"]
    command += ["--no-color", "--generation-database", "none", "--warnings", "off"]
    if not THOROUGH:
        command += ["--include-path-regex", DOCUMENTS[document]]
    environment = os.environ | {"SCHEMATHESIS_HOOKS": "schemathesis_hooks", "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=3000, cwd=tmp_path, env=environment, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert server.client().get("/api/v1/namespaces")["items"]
