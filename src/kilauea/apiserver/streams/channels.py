"""The channel protocols of Kubernetes: each message begins with the number of its channel.

In the base64 variants a message is text: the number as a digit, and the data in base64. Version 5 adds a message that
closes a channel, so that standard input can end while output goes on.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error
from typing import NamedTuple

STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
CLOSE = 255
"""The channel of a message in version 5 that closes the channel named next."""
V4, V5 = "v4.channel.k8s.io", "v5.channel.k8s.io"
V4_BASE64 = "v4.base64.channel.k8s.io"
V1, V1_BASE64 = "channel.k8s.io", "base64.channel.k8s.io"
COMMANDS = (V5, V4, V4_BASE64, V1, V1_BASE64, "")
"""Protocols of exec and attach; the empty one is for clients that do not name one."""
PORTS = (V4, V4_BASE64, "")
"""Protocols of port-forward."""
TEXTS = frozenset({V4_BASE64, V1_BASE64})
"""Protocols whose messages are text."""
OLD = frozenset({V1, V1_BASE64, ""})
"""Protocols of exec and attach whose error channel has text instead of a status."""


class Message(NamedTuple):
    """Data of a channel."""

    channel: int
    data: bytes


def pack(protocol: str, message: Message) -> bytes | str:
    """Encode a message for a WebSocket."""
    if protocol in TEXTS:
        return f"{message.channel}{b64encode(message.data).decode()}"
    return bytes((message.channel,)) + message.data


def unpack(protocol: str, content: bytes) -> Message | None:
    """Decode a message from a WebSocket; return None without a channel, or if it is not base64, as kubelets do."""
    if not content:
        return None
    if protocol not in TEXTS:
        return Message(content[0], content[1:])
    try:
        return Message(content[0] - ord("0"), b64decode(content[1:], validate=True))
    except Error:
        return None


def closed_channel(protocol: str, message: Message) -> int | None:
    """Return the channel that a message closes; None for another kind of message."""
    if protocol == V5 and message.channel == CLOSE and len(message.data) == 1:
        return message.data[0]
    return None
