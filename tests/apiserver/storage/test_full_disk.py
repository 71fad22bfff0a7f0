"""A store without space refuses writes, keeps what it has, and goes on when there is space again."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from kilauea.apiserver.storage import StorageError, Store, remedy


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


def test_a_write_that_is_durable_is_acknowledged_although_the_disk_does_not_take_the_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def written() -> list[int]:
        store = await Store.open(tmp_path)

        def refuse(*_: object) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as full:  # as file systems that never write in place can
            full.setattr(os, "pwrite", refuse)
            revisions = [(await store.write(f"/core/pods/default/{i}", None, b"%d".__mod__)).revision for i in (1, 2)]
        revisions.append((await store.write("/core/pods/default/3", None, b"%d".__mod__)).revision)
        await store.close()
        return revisions

    assert asyncio.run(written()) == [1, 2, 3]
    assert [each.getMessage() for each in caplog.records] == [
        f"{tmp_path}/store.acknowledged: No space left on device: writes are stored, but the loss of any since "
        "revision 1 would go unnoticed; free some space on the disk"
    ], "once for both writes"
    assert [revision for revision, _, _ in asyncio.run(objects(tmp_path))] == [1, 2, 3]


def test_a_mark_that_cannot_be_written_at_the_start_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(objects(tmp_path))

    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", refuse)
    with pytest.raises(StorageError, match=r"store\.acknowledged: No space left on device; free some space"):
        asyncio.run(objects(tmp_path))


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, ""), OSError(errno.EDQUOT, ""), apsw.FullError("full")])
def test_a_disk_without_space_asks_for_some(error: Exception) -> None:
    assert remedy(error) == "free some space on the disk"


async def objects(folder: Path) -> list[list[object]]:
    store = await Store.open(folder)
    page = store.list("/core/pods/")
    await store.close()
    return [[stored.revision, stored.key, stored.value.decode()] for stored in page.items]
