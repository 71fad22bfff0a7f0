"""A small file beside the log that records the newest revision acknowledged to a writer.

SQLite reads its write-ahead log up to the first damage and treats the rest as an unfinished write. The mark
distinguishes the two: it is written after each commit and before the response, without waiting for the disk, so it
never names a write that is not durable, and survives a killed process.
"""

from __future__ import annotations

import logging
import os
import zlib
from pathlib import Path

from kilauea.apiserver.storage.errors import StorageError
from kilauea.apiserver.storage.records import Durability

NAME = "store.acknowledged"
ACCEPTED = b"lost"
"""The word that users write into the file to accept the loss."""
_SIZE = 96
_BOOT = Path("/proc/sys/kernel/random/boot_id")

log = logging.getLogger(__name__)


class Mark:
    """The newest revision acknowledged; None if there is no mark."""

    def __init__(self, folder: Path, durability: Durability) -> None:
        self.path = folder / NAME
        self._kind = f"{durability} {_boot()}"
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        text = os.pread(self._descriptor, _SIZE, 0)
        self.accepted = text.strip() == ACCEPTED
        self.revision, self._written_as = (None, "") if self.accepted else _read(text)

    @property
    def is_there(self) -> bool:
        """True if the folder has a mark, or the user has accepted a loss."""
        return self.accepted or self.revision is not None

    def begin(self) -> None:
        """Create the mark if it is missing; from now on the header of the main file requires one."""
        if not self.is_there:
            self.write(0)

    def check(self, found: int) -> None:
        """Compare the newest revision of the log with the mark.

        Raises:
            StorageError: acknowledged writes are missing.
        """
        if self.accepted:
            log.warning("%s: going on at revision %d without what was lost, as accepted", self.path, found)
        elif self.revision is not None and self.revision > found:
            missing = f"the newest acknowledged is {self.revision}, the newest that can be read {found}"
            if not self._may_be_lost():
                raise StorageError(
                    f"{self.path.parent}: acknowledged writes are missing: {missing}; {way_out(self.path.parent)}"
                )
            log.warning("%s: a loss of power took writes (durability normal): %s", self.path.parent, missing)
        self.write(found)

    def write(self, revision: int) -> None:
        """Record that writes up to a revision are durable and about to be acknowledged."""
        text = f"{revision} {self._kind}"
        os.pwrite(self._descriptor, f"{text} {zlib.crc32(text.encode())}".ljust(_SIZE - 1).encode() + b"\n", 0)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _may_be_lost(self) -> bool:
        """Return True if the machine has rebooted since, and the durability does not guarantee to survive that."""
        durability, _, boot = self._written_as.partition(" ")
        return durability == "normal" and boot != _boot()


def way_out(folder: Path) -> str:
    """Return the advice for a folder with missing writes."""
    accept = f"echo {ACCEPTED.decode()} > {folder / NAME}"
    return f"restore a copy of the whole folder, or accept the loss: {accept}, and start again"


def _read(text: bytes) -> tuple[int | None, str]:
    """Return revision, durability and boot of a mark; the revision is None if the mark is empty or incomplete."""
    content, _, checksum = text.decode("latin-1").strip().rpartition(" ")
    revision, _, kind = content.partition(" ")
    if not revision.isdigit() or checksum != str(zlib.crc32(content.encode())):
        return None, ""
    return int(revision), kind


def _boot() -> str:
    """Return the ID of the current boot; `unknown` if the system has none."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return "unknown"
