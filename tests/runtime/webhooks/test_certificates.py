"""The Secret of the webhooks: made once for all who serve, renewed in time, left alone while it is good."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from kilauea.api.kinds import SECRETS
from kilauea.api.ports import Key
from kilauea.api.times import SECOND
from kilauea.runtime.webhooks.certificates import SECRET, CertificateError, Files, FileSource, SecretSource
from support.controlled import Cluster

DAY = 86_400 * SECOND
START = 1_900_000_000 * SECOND


class Time:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.micros = START

    def now(self) -> int:
        """Microseconds since 1970."""
        return self.micros

    def monotonic(self) -> int:
        """The same, since no one sets this clock backward."""
        return self.micros

    async def sleep(self, seconds: float) -> None:
        """No one waits here."""
        raise AssertionError(seconds)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """The API server in memory."""
    made = Cluster()
    yield made
    made.close()


def source(cluster: Cluster, clock: Time) -> SecretSource:
    """A process that serves."""
    return SecretSource(cluster.client, Key("volcano-system", SECRET), ["webhooks.volcano-system.svc"], clock)


def test_processes_that_start_together_serve_with_the_same_certificate(cluster: Cluster) -> None:
    sources = [source(cluster, Time()) for _ in range(3)]

    async def together() -> None:
        found = await asyncio.gather(*(each.look() for each in sources))
        assert len(set(found)) == 1

    cluster.api.run(together())
    secret = cluster.api.run(cluster.client.get(SECRETS, Key("volcano-system", "volcano-admission-secret")))
    assert sorted(secret["data"]) == ["ca.crt", "ca.key", "tls.crt", "tls.key"]


def test_what_one_renews_the_others_take_over_within_a_minute(cluster: Cluster) -> None:
    clock = Time()
    one, other = source(cluster, clock), source(cluster, clock)
    first = cluster.api.run(one.look())
    assert cluster.api.run(other.look()) == first
    clock.micros += 300 * DAY
    assert cluster.api.run(one.look()) is first
    clock.micros += 40 * DAY
    second = cluster.api.run(one.look())
    assert second.certificate != first.certificate
    assert second.bundle == first.bundle
    assert cluster.api.run(other.look()) == second
    assert cluster.api.run(other.look()) is cluster.api.run(other.look())


def test_files_are_read_again_and_missing_ones_are_named(cluster: Cluster, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("tls.crt", "tls.key", "ca.crt")]
    for path in paths:
        path.write_bytes(b"one")
    files = FileSource(Files(*paths))
    first = cluster.api.run(files.look())
    assert cluster.api.run(files.look()) is first
    paths[0].write_bytes(b"two")
    assert cluster.api.run(files.look()).certificate == b"two"
    paths[1].unlink()
    with pytest.raises(CertificateError, match=r"tls\.key: cannot be read"):
        cluster.api.run(files.look())
