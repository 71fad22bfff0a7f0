"""A store without space refuses writes, keeps what it has, and goes on when there is space again."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from kilauea.apiserver.storage import Store


@pytest.mark.parametrize(("kind", "reason"), [("file-size", "disk I/O error"), ("pages", "database or disk is full")])
def test_writes_without_space_fail_and_later_ones_succeed(kind: str, reason: str, tmp_path: Path) -> None:
    command = [sys.executable, str(Path(__file__).with_name("full_disk_child.py")), str(tmp_path), kind]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=60).stdout)
    *limited, after = told["rounds"]
    written = [result for results in told["rounds"] for result in results if isinstance(result, int)]
    failure = f"the write could not be stored: {reason}"
    assert failure in limited[0] + limited[1]
    assert set(limited[-1]) == {failure}
    assert failure not in after
    # A failed write leaves no trace: not in the revisions, not in what watchers and readers see.
    assert sorted(written) == list(range(21, 21 + len(written)))
    assert [revision for revision, _, _ in told["events"]] == list(range(1, 21 + len(written)))
    assert all(value == f"{revision} " * 400 for revision, _, value in told["events"])
    assert told["objects"] == asyncio.run(objects(tmp_path))


async def objects(folder: Path) -> list[list[object]]:
    store = await Store.open(folder)
    page = store.list("/core/pods/")
    await store.close()
    return [[stored.revision, stored.key, stored.value.decode()] for stored in page.items]
