"""A log that is read over lost connections: each line comes once, whatever the pieces and wherever it was cut."""

from __future__ import annotations

import pytest

from kilauea.client.container_output import LogPosition

LOG = (
    b"2026-01-01T00:00:01.100000000Z one\n"
    b"2026-01-01T00:00:01.200000000Z two\n"
    b"2026-01-01T00:00:02.000000000Z \n"
    b"2026-01-01T00:00:02.500000000Z four of 2026\n"
    b"2026-01-01T00:00:03.000000000Z five\n"
)
TEXT = b"one\ntwo\n\nfour of 2026\nfive\n"


def sent(since: str) -> bytes:
    """The log as a server sends it that knows seconds only."""
    return b"".join(line for line in LOG.splitlines(keepends=True) if line[:19].decode() >= since[:19])


@pytest.mark.parametrize("size", [1, 2, 7, 29, 64, 1000])
def test_the_moments_are_taken_off_whatever_the_pieces(size: int) -> None:
    position = LogPosition()
    position.reconnect()
    assert b"".join(position.new_text(LOG[at : at + size]) for at in range(0, len(LOG), size)) == TEXT


@pytest.mark.parametrize("cut", range(len(LOG)))
def test_each_line_comes_once_when_the_connection_is_lost(cut: int) -> None:
    position = LogPosition()
    position.reconnect()
    text = position.new_text(LOG[:cut])
    position.reconnect()  # in vain
    position.reconnect()
    again = sent(position.since)
    text += position.new_text(again[: len(again) // 2])
    position.reconnect()
    assert text + position.new_text(sent(position.since)) == TEXT


def test_since_has_the_time_zone_of_the_log() -> None:
    position = LogPosition()
    position.reconnect()
    assert position.since == ""
    assert position.new_text(b"2026-01-01T01:00:01.1+01:00 here\n") == b"here\n"
    assert position.since == "2026-01-01T01:00:01+01:00"


def test_a_line_out_of_order_is_not_counted_because_it_is_not_sent_again() -> None:
    position = LogPosition()
    position.reconnect()
    position.new_text(b"2026-01-01T00:00:02Z b\n2026-01-01T00:00:01Z a\n")
    position.reconnect()
    assert position.new_text(b"2026-01-01T00:00:02Z b\n2026-01-01T00:00:02Z c\n") == b"c\n"


def test_a_message_of_the_node_is_passed_on() -> None:
    position = LogPosition()
    position.reconnect()
    assert position.new_text(b"failed to open the log file\n") == b"failed to open the log file\n"
    long = b"unable-to-retrieve-container-logs-for-" + b"x" * 64 + b"\n"
    assert position.new_text(long) == long
