"""A server that is lost and found again is told of once, with the reason and what to do."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from random import Random
from typing import Any

import pytest

from kilauea.api.kinds import LEASES, PODS, QUEUES, VC_JOBS
from kilauea.api.ports import ApiError, Key, Listed, Resource
from kilauea.api.times import SECOND
from kilauea.client.access import AccessError
from kilauea.client.advice import advice
from kilauea.client.lease import Election
from kilauea.client.reflector import Reflector
from kilauea.client.reporting import Reporting
from kilauea.client.transport import Answer, unreachable

REFUSED = "https://h:6443: GET /api/v1/pods: Connection refused"


class Clock:
    """A clock that is moved by sleeping."""

    def __init__(self) -> None:
        self.time = 0

    def now(self) -> int:
        return self.time

    def monotonic(self) -> int:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += round(seconds * SECOND)
        await asyncio.sleep(0)


class Line:
    """A connection that answers as told: with an error, or with a status."""

    def __init__(self) -> None:
        self.outcome: ApiError | int = 200
        self.pieces: list[bytes | ApiError] = []

    async def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        if isinstance(self.outcome, ApiError):
            raise self.outcome
        return Answer(self.outcome, {}, b"{}")

    async def stream(self, target: str, headers: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        for piece in self.pieces:
            if isinstance(piece, ApiError):
                raise piece
            yield piece

    async def close(self) -> None: ...


def asked(transport: Reporting) -> ApiError | None:
    """The error of a request."""
    try:
        asyncio.run(transport.request("GET", "/", {}, b""))
    except ApiError as error:
        return error
    return None


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged for people, so far."""
    words = [each.getMessage() for each in caplog.records if each.levelno >= logging.INFO]
    caplog.clear()
    return words


@pytest.fixture(autouse=True)
def _all_messages(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)


def test_an_outage_is_one_message_at_its_beginning_and_one_at_its_end(caplog: pytest.LogCaptureFixture) -> None:
    line, clock = Line(), Clock()
    transport = Reporting(line, clock)
    line.outcome = unreachable(REFUSED)
    for _ in range(5):
        error = asked(transport)
        assert error is not None
        assert error.reported
    assert told(caplog) == [
        f"the API server cannot be used: {REFUSED}: check that the server runs, and clusters[].cluster.server of the "
        "kubeconfig; trying again"
    ]
    assert transport.fault == "https://h:6443: Connection refused"
    clock.time += 7 * SECOND
    line.outcome = 200
    assert asked(transport) is None
    assert told(caplog) == ["the API server answers again, after 7 s"]
    assert transport.fault == ""


def test_an_outage_that_lasts_is_told_of_again_each_minute(caplog: pytest.LogCaptureFixture) -> None:
    line, clock = Line(), Clock()
    transport = Reporting(line, clock)
    line.outcome = unreachable(REFUSED)
    for _ in range(130):
        asked(transport)
        clock.time += SECOND
    assert len(told(caplog)) == 3


def test_another_reason_is_told_of_at_once_and_another_request_is_not(caplog: pytest.LogCaptureFixture) -> None:
    line = Line()
    transport = Reporting(line, Clock())
    line.outcome = unreachable(REFUSED)
    asked(transport)
    line.outcome = unreachable(REFUSED.replace("/api/v1/pods", "/version"))
    asked(transport)
    assert len(told(caplog)) == 1
    line.outcome = 401
    error = asked(transport)
    assert error is not None
    assert (error.code, error.reported) == (401, True)
    assert "renew users[].user of the kubeconfig" in told(caplog)[0]


def test_refusals_and_writes_held_back_are_no_outage(caplog: pytest.LogCaptureFixture) -> None:
    line = Line()
    transport = Reporting(line, Clock())
    line.outcome = ApiError(0, "LeaseLost", "POST is not sent")
    error = asked(transport)
    assert error is not None
    assert not error.reported
    line.outcome = 403
    assert asked(transport) is None
    assert told(caplog) == []


def test_a_stream_that_breaks_off_is_no_outage_and_one_that_cannot_begin_is(caplog: pytest.LogCaptureFixture) -> None:
    line = Line()
    transport = Reporting(line, Clock())

    async def read() -> None:
        async for _ in transport.stream("/", {}):
            pass

    line.pieces = [b"x\n", unreachable("https://h: GET /: reset")]
    with pytest.raises(ApiError):
        asyncio.run(read())
    assert told(caplog) == []
    line.pieces = [unreachable("https://h: GET /: reset")]
    with pytest.raises(ApiError):
        asyncio.run(read())
    assert len(told(caplog)) == 1


def test_a_quiet_connection_reports_for_debugging_only(caplog: pytest.LogCaptureFixture) -> None:
    line = Line()
    transport = Reporting(line, Clock(), quiet=True)
    line.outcome = unreachable(REFUSED)
    error = asked(transport)
    assert error is not None
    assert error.reported
    assert told(caplog) == []


# --- what to do


@pytest.mark.parametrize(
    ("error", "resource", "words"),
    [
        (ApiError(403, "Forbidden", "no"), PODS, "grant this user get, list and watch on pods"),
        (ApiError(403, "Forbidden", "no"), QUEUES, "on queues.scheduling.volcano.sh"),
        (ApiError(404, "NotFound", "no"), VC_JOBS, "kubectl apply -f deploy/crds/jobs.batch.volcano.sh.yaml"),
        (ApiError(404, "NotFound", "no"), PODS, ""),
        (ApiError(500, "InternalError", "no"), PODS, ""),
        (unreachable("h: [SSL: WRONG_VERSION_NUMBER] wrong version number"), None, "use http://"),
    ],
)
def test_advice_follows_from_the_answer(error: ApiError, resource: Resource | None, words: str) -> None:
    found = advice(error, resource)
    assert words in found
    assert bool(found) == bool(words)


def test_an_error_that_says_what_to_do_gets_no_other_advice() -> None:
    error = unreachable("/token: no such file: give another one")
    error.__cause__ = AccessError("x")
    assert advice(error) == ""


class Refusing:
    """An API that refuses everything."""

    def __init__(self, error: ApiError) -> None:
        self.error = error

    async def list(self, *args: Any, **more: Any) -> Listed:
        raise self.error

    get = create = list


class Nothing:
    """A handler that is told nothing."""

    def on_relist(self, *args: Any) -> None: ...

    def on_events(self, *args: Any) -> None: ...


def follow(error: ApiError, resource: Resource) -> None:
    """Try to list a kind for some virtual seconds."""
    clock = Clock()

    async def run() -> None:
        api: Any = Refusing(error)
        following = asyncio.create_task(Reflector(api, resource, Nothing(), clock, Random(0)).run())
        while clock.time < 10 * SECOND:
            await asyncio.sleep(0)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)

    asyncio.run(run())


def test_a_missing_definition_and_a_missing_right_are_told_with_the_fix(caplog: pytest.LogCaptureFixture) -> None:
    follow(ApiError(404, "NotFound", "the server could not find the requested resource"), QUEUES)
    assert "install its definition, `kubectl apply -f deploy/crds/queues.scheduling.volcano.sh.yaml`" in told(caplog)[0]
    follow(ApiError(403, "Forbidden", "pods is forbidden"), PODS)
    assert "pods is forbidden: grant this user get, list and watch on pods" in told(caplog)[0]


def test_what_the_connection_has_told_is_not_told_for_each_kind(caplog: pytest.LogCaptureFixture) -> None:
    error = unreachable(REFUSED)
    error.reported = True
    follow(error, PODS)
    assert told(caplog) == []


def stand(api: Any) -> None:
    """Stand for election for some virtual seconds."""
    clock = Clock()

    async def run() -> None:
        election = Election(api, clock, Random(0), Key("volcano-system", "volcano"), "me")
        standing = asyncio.create_task(election.lead(lambda: asyncio.sleep(1000)))
        while clock.time < 10 * SECOND:
            await asyncio.sleep(0)
        standing.cancel()
        await asyncio.gather(standing, return_exceptions=True)

    asyncio.run(run())


def test_a_lease_that_may_not_be_read_is_told_once_with_the_right(caplog: pytest.LogCaptureFixture) -> None:
    stand(Refusing(ApiError(403, "Forbidden", "leases is forbidden")))
    assert told(caplog) == [
        "lease volcano-system/volcano: leases is forbidden: grant this user get, create and update on "
        "leases.coordination.k8s.io in volcano-system"
    ]


def test_a_process_that_waits_says_who_leads_once(caplog: pytest.LogCaptureFixture) -> None:
    class Held:
        """A lease of another, who renews it."""

        turn = 0

        async def get(self, *args: Any) -> dict[str, Any]:
            self.turn += 1
            spec = {"holderIdentity": "other", "renewTime": str(self.turn), "leaseDurationSeconds": 15}
            return {"kind": LEASES.kind, "spec": spec}

    stand(Held())
    assert told(caplog) == ["waiting for the lease volcano-system/volcano, which other holds"]
