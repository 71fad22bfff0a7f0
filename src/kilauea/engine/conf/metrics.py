"""The section `metrics` of the configuration: the monitoring system that provides the loads of nodes.

The engine does not query services: the scheduler's process reads the loads (`kilauea.runtime.scheduler.loads`), and
plugins find them in the state. All values are text in Volcano's files; numbers and booleans are accepted as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kilauea.api.times import SECOND, parse_duration
from kilauea.api.wellknown import parse_bool

PROMETHEUS, ADAPTOR, ELASTICSEARCH = "prometheus", "prometheus_adaptor", "elasticsearch"
TYPES = (PROMETHEUS, ADAPTOR, ELASTICSEARCH)
ALIASES = {"prometheus_adapt": ADAPTOR, "prometheus_adapter": ADAPTOR}
"""Other names of the types; the first is used in Volcano's documents."""
SHORTEST = SECOND
"""Minimum interval, in microseconds."""


@dataclass(frozen=True, slots=True)
class MetricsConf:
    """A monitoring system, and how to query it."""

    type: str = ""
    """One of `TYPES`; empty if no loads are read."""
    address: str = ""
    """URL of the system; empty for the custom metrics API of the cluster itself."""
    interval: int = 30 * SECOND
    """Microseconds between two queries. The loads do not include pods that have run for less."""
    insecure: bool = False
    """True to accept any certificate."""
    index: str = "metricbeat-*"
    """Index of Elasticsearch."""
    username: str = ""
    """User of Elasticsearch."""
    password: str = field(default="", repr=False)
    """Password of that user."""
    hostname_field: str = "host.hostname"
    """Field of Elasticsearch with the name of the node."""


NO_METRICS = MetricsConf()
"""No monitoring system."""


class Fault(NamedTuple):
    """An invalid entry of the section."""

    key: str
    message: str
    code: str


FIELDS = {
    "type": "type",
    "address": "address",
    "interval": "interval",
    "tls.insecureSkipVerify": "insecure",
    "elasticsearch.index": "index",
    "elasticsearch.username": "username",
    "elasticsearch.password": "password",
    "elasticsearch.hostnameFieldName": "hostname_field",
}
"""Fields of `MetricsConf`, by key."""


def read_metrics(given: Mapping[Any, object]) -> tuple[MetricsConf, list[Fault]]:
    """Read the section, with its errors. An invalid entry keeps its default; without a valid type, nothing is read.

    Args:
        given: the known keys of the section.
    """
    values: dict[str, Any] = {}
    faults: list[Fault] = []
    for key, name in FIELDS.items():
        value = given.get(key)
        if value is None:
            continue
        read = _READERS.get(name, _text)(value)
        if isinstance(read, _Wrong):
            shown = "this value" if name == "password" else repr(value)
            faults.append(Fault(key, f"{key} takes {read.wanted}, not {shown}; {read.effect}", read.code))
        else:
            values[name] = read
    conf = MetricsConf(**values)
    for fault in _missing(conf):
        faults.append(fault)
        conf = NO_METRICS
    return conf, faults


class _Wrong(NamedTuple):
    wanted: str
    effect: str = "its default is kept"
    code: str = "wrong-value"


def _text(value: object) -> str | _Wrong:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return _Wrong("text", code="wrong-type")
    return str(value).strip()


def _type(value: object) -> str | _Wrong:
    """The type by its name.

    The message for an unknown system is Volcano's.
    """
    if value == "":
        return ""
    known = ALIASES.get(str(value), str(value))
    return known if known in TYPES else _Wrong(" or ".join(TYPES), "no loads of nodes are read")


def _interval(value: object) -> int | _Wrong:
    try:
        interval = parse_duration(value) if isinstance(value, str) else 0
    except ValueError:
        interval = 0
    return interval if interval >= SHORTEST else _Wrong("a duration of at least 1s such as 30s")


def _boolean(value: object) -> bool | _Wrong:
    read = value if isinstance(value, bool) else parse_bool(value) if isinstance(value, str) else None
    return _Wrong("true or false") if read is None else read


def _address(value: object) -> str | _Wrong:
    text = value.strip().rstrip("/") if isinstance(value, str) else ""
    if text == "" or text.startswith(("http://", "https://")):
        return text
    return _Wrong("a URL such as http://prometheus.monitoring:9090", "no loads of nodes are read")


_READERS: dict[str, Any] = {"type": _type, "interval": _interval, "insecure": _boolean, "address": _address}


def _missing(conf: MetricsConf) -> Iterator[Fault]:
    if conf.type in (PROMETHEUS, ELASTICSEARCH) and not conf.address:
        message = "metrics address is empty: give the URL of the monitoring system; no loads of nodes are read"
        yield Fault("address", message, "wrong-value")
