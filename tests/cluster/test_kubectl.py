"""kubectl against the server prints what the transcripts say.

KILAUEA_UPDATE_GOLDEN=1 writes the transcripts again; the difference is then for review.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cluster.api_process import Server
from cluster.transcript import FOLDER, play


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_kubectl_prints_what_the_transcript_says(path: Path, server: Server, tmp_path: Path) -> None:
    played = play(path, server.kubeconfig, tmp_path)
    if os.environ.get("KILAUEA_UPDATE_GOLDEN"):
        path.write_text(played)
    assert played == path.read_text()
