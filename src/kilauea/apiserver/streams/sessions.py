"""Limits on conversations that go on at the same time, so that no user takes all descriptors of the server."""

from __future__ import annotations

from collections import Counter

from kilauea.apiserver import status
from kilauea.apiserver.status import ApiFault

MOST, MOST_OF_USER = 1024, 256
RETRY_SECONDS = 1


class Sessions:
    """The conversations that go on, by user."""

    def __init__(self, most: int = MOST, most_of_user: int = MOST_OF_USER) -> None:
        self._most = most
        self._most_of_user = most_of_user
        self._users: Counter[str] = Counter()

    def begin(self, user: str) -> None:
        """Count a conversation.

        Raises:
            ApiFault: there are too many (429).
        """
        if self._users[user] >= self._most_of_user:
            raise _too_many(f"user {user} has", self._most_of_user)
        if self._users.total() >= self._most:
            raise _too_many("the server has", self._most)
        self._users[user] += 1

    def end(self, user: str) -> None:
        """Count one less."""
        self._users[user] -= 1
        if not self._users[user]:
            del self._users[user]


def _too_many(whose: str, limit: int) -> ApiFault:
    words = f"{whose} {limit} connections to containers, which is the limit; end some of them first"
    return status.too_many_requests(words, (), RETRY_SECONDS)
