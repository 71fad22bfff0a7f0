"""Leader election: of several processes with the same work, only the holder of a Lease works.

    election = Election(client, clock, rng, Key("volcano-system", "volcano"), identity=f"{hostname}_{uuid}")
    await election.lead(work)       # waits for the lease, then does the work for as long as the lease is kept

There is at most one leader at a time as long as clocks run equally fast: a leader that cannot renew stops before others
may take over, and candidates never compare the wall-clock time of another machine with their own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from kilauea.api.kinds import LEASES
from kilauea.api.ports import Api, ApiError, Clock, Key
from kilauea.api.times import SECOND, format_time
from kilauea.client.namespaces import create_in_namespace

log = logging.getLogger(__name__)


class LeaseLost(Exception):
    """The lease could not be renewed; the work was stopped."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Durations in seconds: until a lease expires, until a leader stops trying to renew it, and between attempts."""

    lease: float = 15.0
    renew: float = 10.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        if not self.lease > self.renew > self.retry > 0:
            raise ValueError(
                f"lease {self.lease} s, renew deadline {self.renew} s, retry period {self.retry} s: "
                "each must be longer than the next, and all above 0"
            )


class Election:
    """One candidate for one lease.

    Args:
        api: the API server with the lease.
        clock: the candidate's own clock.
        rng: jitter, so that candidates do not compete at the same time.
        key: the key of the lease, which is created with its namespace if missing.
        identity: the unique name of this candidate.
        terms: the durations.
    """

    def __init__(
        self, api: Api, clock: Clock, rng: Random, key: Key, identity: str, terms: Terms | None = None
    ) -> None:
        self._api = api
        self._clock = clock
        self._rng = rng
        self._key = key
        self._identity = identity
        self._terms = terms or Terms()
        self._lease: dict[str, Any] = {}
        self._seen: tuple[Any, ...] = ()
        self._seen_at: int | None = None
        self._said = ""
        """The last logged message, which is not repeated."""
        self._renewed = 0
        """The start of the request that last renewed the lease; other candidates measure from a later time."""
        self.leader = ""
        """The last known holder of the lease."""

    async def lead(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, work while holding it, and release it at the end of the work or when cancelled.

        Raises:
            LeaseLost: it could not be renewed in time; the work was cancelled before.
        """
        while not await self._try():
            await self._clock.sleep(self._terms.retry * (1 + 0.2 * self._rng.random()))
        log.info("%s leads: it holds the lease %s", self._identity, self._key)
        working, renewing = asyncio.ensure_future(work()), asyncio.ensure_future(self._renew())
        try:
            await asyncio.wait({working, renewing}, return_when=asyncio.FIRST_COMPLETED)
            held = not renewing.done()
        finally:
            for task in (working, renewing):
                task.cancel()
            if renewing.done():
                log.warning("the lease %s is not ours any more: work stops", self._key)
                # Work waits for responses to its requests, and without a network none arrive.
                await self._within(self._terms.lease - self._terms.renew, _end_of(working, renewing))
            else:
                await _end_of(working, renewing)
            if self.valid:
                await self._within(self._left(), self._release())
            self.leader = ""
        if not held:
            raise LeaseLost(f"the lease {self._key} could not be renewed within {self._terms.renew:g} s")
        working.result()

    async def _renew(self) -> None:
        """Renew until that has failed for too long, or another candidate holds the lease."""
        while self.valid:
            await self._clock.sleep(min(self._terms.retry, self._left()))
            if (left := self._left()) > 0:
                await self._within(left, self._try())

    @property
    def valid(self) -> bool:
        """True if we are the leader: the lease was ours when last read, and cannot have expired since."""
        return self.leader == self._identity and self._left() > 0

    def _left(self) -> float:
        """Return the seconds for which we still lead if we cannot renew."""
        return self._terms.renew - (self._clock.monotonic() - self._renewed) / SECOND

    async def _within(self, seconds: float, doing: Awaitable[Any]) -> None:
        """Run a coroutine with a timeout."""
        done, over = asyncio.ensure_future(doing), asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait({done, over}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            done.cancel()
            over.cancel()

    async def _try(self) -> bool:
        """Acquire or renew the lease, if it is free or ours; return True if it is ours now."""
        started = self._clock.monotonic()
        try:
            await self._look()
            if not self._may_take():
                self._say_waiting()
                return False
            await self._write(self._taken())
        except ApiError as error:
            self._say_failed(error)
            return False
        self.leader, self._renewed = self._identity, started
        return True

    def _say_failed(self, error: ApiError) -> None:
        """Log that the lease cannot be read or written, without repeating the same reason."""
        message = f"lease {self._key}: {error}"
        if error.code == 403:
            message += (
                f": grant this user get, create and update on leases.coordination.k8s.io in {self._key.namespace}"
            )
        quiet = error.code == 409 or error.reported or message == self._said
        log.log(logging.DEBUG if quiet else logging.WARNING, "%s", message)
        self._said = message

    def _say_waiting(self) -> None:
        """Log which process leads, once for each."""
        message = f"waiting for the lease {self._key}, which {self.leader} holds"
        log.log(logging.DEBUG if message == self._said else logging.INFO, "%s", message)
        self._said = message

    async def _look(self) -> None:
        """Read the lease, and record when it last changed, by our own clock."""
        try:
            self._lease = await self._api.get(LEASES, self._key)
        except ApiError as error:
            if error.code != 404:
                raise
            self._lease = {}
        spec = self._spec()
        seen = (spec.get("holderIdentity"), spec.get("renewTime"), spec.get("leaseTransitions"))
        if seen != self._seen or self._seen_at is None:
            self._seen, self._seen_at = seen, self._clock.monotonic()
        self.leader = spec.get("holderIdentity") or ""

    def _spec(self) -> dict[str, Any]:
        return self._lease.get("spec") or {}

    def _may_take(self) -> bool:
        """Return True if the lease is ours or free, or its holder has not renewed it for too long."""
        if self.leader in ("", self._identity):
            return True
        seconds = float(self._spec().get("leaseDurationSeconds") or self._terms.lease)
        return self._clock.monotonic() - (self._seen_at or 0) > seconds * SECOND

    def _taken(self) -> dict[str, Any]:
        """Return the lease spec with us as the holder from now."""
        old, now = self._spec(), _micro(self._clock.now())
        mine = self.leader == self._identity
        transitions = int(old.get("leaseTransitions") or 0)
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(1, round(self._terms.lease)),
            "acquireTime": (old.get("acquireTime") or now) if mine else now,
            "renewTime": now,
            "leaseTransitions": transitions if mine or not self._lease else transitions + 1,
        }

    async def _write(self, spec: dict[str, Any]) -> None:
        """Write the lease, unless it has been written since we read it."""
        if self._lease:
            self._lease = await self._api.update(LEASES, {**self._lease, "spec": spec})
        else:
            metadata = {"namespace": self._key.namespace, "name": self._key.name}
            body = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec}
            self._lease = await create_in_namespace(self._api, LEASES, self._key.namespace, body)

    async def _release(self) -> None:
        """Release the lease, so that the next leader does not have to wait."""
        try:
            try:
                await self._write(self._given_back())
            except ApiError as error:
                if error.code != 409:
                    raise
                await self._look()  # a concurrent renewal came first
                if self.leader == self._identity:
                    await self._write(self._given_back())
        except ApiError as error:
            log.info("lease %s: could not be given back: %s", self._key, error)

    def _given_back(self) -> dict[str, Any]:
        """Return the lease spec without a holder from now."""
        now = _micro(self._clock.now())
        return {**self._spec(), "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": now, "acquireTime": now}


async def _end_of(*tasks: asyncio.Future[None]) -> None:
    """Wait until all tasks have ended, in any way; a cancellation cancels them again."""
    await asyncio.gather(*tasks, return_exceptions=True)


def _micro(us: int) -> str:
    """Format a time with microseconds, as in leases."""
    return f"{format_time(us // SECOND * SECOND).removesuffix('Z')}.{us % SECOND:06d}Z"
