"""Checks of probes and lifecycle handlers of a container."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kilauea.apiserver.fields import (
    check_name,
    check_not_negative,
    check_range,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.base import Object

PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_SCHEMES = ("HTTP", "HTTPS")
_HEADER = re.compile(r"[-A-Za-z0-9]+")
_HEADER_WORDS = (
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for "
    "validation is '[-A-Za-z0-9]+')"
)
_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_PORT_MARKS, _LETTER = re.compile(r"[-a-z0-9]+"), re.compile(r"[a-z]")
_PORT_NAME = re.compile(r"(?=.{1,15}\Z)(?=.*[a-z])[a-z0-9](-?[a-z0-9])*")


def port_name_problems(name: str) -> tuple[str, ...]:
    """Return the errors in the name of a port."""
    if _PORT_NAME.fullmatch(name):
        return ()
    found = []
    if len(name) > 15:
        found.append("must be no more than 15 characters")
    if not _PORT_MARKS.fullmatch(name):
        found.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not _LETTER.search(name):
        found.append("must contain at least one letter (a-z)")
    if "--" in name:
        found.append("must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        found.append("must not begin or end with a hyphen")
    return tuple(found)


def check_port(path: str, port: Any) -> list[Cause]:
    """Check a port number or name."""
    if isinstance(port, str):
        return check_name(path, port, port_name_problems(port))
    return check_range(path, port or 0, 1, 65535)


def check_probes(path: str, container: Object, grace: int) -> Iterator[Cause]:
    """Check the probes of a container.

    Args:
        path: the path of the container.
        container: the container with defaults.
        grace: the termination grace period of the pod in seconds.
    """
    for field in PROBES:
        probe = container.get(field)
        if probe is not None:
            yield from _check_probe(f"{path}.{field}", probe, grace, is_readiness=field == "readinessProbe")


def _check_probe(path: str, probe: Object, grace: int, *, is_readiness: bool) -> Iterator[Cause]:
    yield from _check_handler(path, probe, grace)
    for field in _NUMBERS:
        yield from check_not_negative(f"{path}.{field}", probe.get(field))
    seconds = probe.get("terminationGracePeriodSeconds")
    where = f"{path}.terminationGracePeriodSeconds"
    if seconds is not None and seconds <= 0:
        yield invalid_value(where, seconds, "must be greater than 0")
    if is_readiness:
        if seconds is not None:
            yield invalid_value(where, seconds, "must not be set for readinessProbes")
    elif probe.get("successThreshold", 1) != 1:
        yield invalid_value(f"{path}.successThreshold", probe["successThreshold"], "must be 1")


def check_lifecycle(path: str, lifecycle: Object, grace: int) -> Iterator[Cause]:
    """Check the postStart and preStop handlers of a container; `grace` is the grace period in seconds."""
    for field in ("postStart", "preStop"):
        if lifecycle.get(field) is not None:
            yield from _check_handler(f"{path}.{field}", lifecycle[field], grace)


def _check_handler(path: str, handler: Object, grace: int) -> Iterator[Cause]:
    """Check that a handler has exactly one action."""
    kinds = [kind for kind in _HANDLERS if handler.get(kind) is not None]
    if not kinds:
        yield required(path, "must specify a handler type")
        return
    yield from _HANDLERS[kinds[0]](f"{path}.{kinds[0]}", handler[kinds[0]], grace)
    for kind in kinds[1:]:
        yield forbidden_field(f"{path}.{kind}", "may not specify more than 1 handler type")


def _command(path: str, action: Object, grace: int) -> Iterator[Cause]:
    if not action.get("command"):
        yield required(f"{path}.command")


def _http_get(path: str, action: Object, grace: int) -> Iterator[Cause]:
    if not action.get("path"):
        yield required(f"{path}.path")
    yield from check_port(f"{path}.port", action.get("port"))
    if action.get("scheme", "HTTP") not in _SCHEMES:
        yield not_supported(f"{path}.scheme", action["scheme"], _SCHEMES)
    for header in action.get("httpHeaders") or ():
        name = header.get("name", "")
        if not _HEADER.fullmatch(name):
            yield invalid_value(f"{path}.httpHeaders", name, _HEADER_WORDS)


def _any_port(path: str, action: Object, grace: int) -> Iterator[Cause]:
    yield from check_port(f"{path}.port", action.get("port"))


def _sleep(path: str, action: Object, grace: int) -> Iterator[Cause]:
    seconds = action.get("seconds", 0)
    if not 0 <= seconds <= grace:
        message = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
        yield invalid_value(path, seconds, message)


_HANDLERS: Mapping[str, Callable[[str, Object, int], Iterator[Cause]]] = {
    "exec": _command,
    "httpGet": _http_get,
    "tcpSocket": _any_port,
    "grpc": _any_port,
    "sleep": _sleep,
}
"""Checks by kind of handler, in order."""
