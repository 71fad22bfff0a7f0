"""Errors of the store."""

from __future__ import annotations

from kilauea.apiserver.storage.records import Stored


class StorageError(Exception):
    """The data folder cannot be used; the message names the file and the remedy."""


class WriteFailed(StorageError):
    """A write did not become durable; no reader has seen it, and it may be retried."""


class Conflict(Exception):
    """The object is not at the revision that the writer saw; `current` is the current object."""

    def __init__(self, current: Stored) -> None:
        super().__init__(f"{current.key}: is at revision {current.revision}")
        self.current = current


class Missing(Exception):
    """The object to update or delete does not exist."""

    def __init__(self, key: str) -> None:
        super().__init__(f"{key}: does not exist")
        self.key = key


class Expired(Exception):
    """The revision is older than the history; the reader must list again."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"revision {asked} is too old; history begins at {oldest}")
        self.asked = asked
        self.oldest = oldest


class TooNew(Exception):
    """The revision has not been reached."""

    def __init__(self, asked: int, current: int) -> None:
        super().__init__(f"revision {asked} is not reached; the newest is {current}")
        self.asked = asked
        self.current = current
