"""The FlowSchema and the priority level of a request."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

import msgspec
from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from kilauea.apiserver.request import RequestInfo, User
from kilauea.apiserver.seats import Flow, Seats
from kilauea.apiserver.storage import Store

SERVER_SEATS = 600
"""Total seats of all levels, as by default in kube-apiserver."""
SCHEMA_HEADER, LEVEL_HEADER = "X-Kubernetes-Pf-Flowschema-Uid", "X-Kubernetes-Pf-Prioritylevel-Uid"
_GROUP = "flowcontrol.apiserver.k8s.io"
_SCHEMAS, _LEVELS = f"/{_GROUP}/flowschemas/", f"/{_GROUP}/prioritylevelconfigurations/"
_ANY = "*"
_LONG = frozenset({"attach", "exec", "log", "portforward", "proxy"})
"""Subresources with long-running requests, which take no seat."""


class _Name(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""


class _Metadata(msgspec.Struct, frozen=True):
    name: str = ""
    uid: str = ""


class _Subject(msgspec.Struct, frozen=True, rename="camel"):
    user: _Name | None = None
    group: _Name | None = None
    service_account: _Name | None = None

    def means(self, user: User) -> bool:
        """Return True if it matches the user or a group of the user."""
        if self.group is not None:
            return self.group.name in user.groups or self.group.name == _ANY
        if self.user is not None:
            return self.user.name in (user.name, _ANY)
        account = self.service_account
        if account is None:
            return False
        start = f"system:serviceaccount:{account.namespace}:"
        return user.name.startswith(start) if account.name == _ANY else user.name == start + account.name


class _ResourceRule(msgspec.Struct, frozen=True, rename="camel"):
    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    cluster_scope: bool = False
    namespaces: tuple[str, ...] = ()

    def means(self, info: RequestInfo) -> bool:
        """Return True if it matches the resource of a request."""
        resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
        return (
            _names(self.verbs, info.verb)
            and _names(self.api_groups, info.group)
            and _names(self.resources, resource)
            and (_names(self.namespaces, info.namespace) if info.namespace else self.cluster_scope)
        )


class _PathRule(msgspec.Struct, frozen=True):
    verbs: tuple[str, ...] = ()
    urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")

    def means(self, method: str, path: str) -> bool:
        """Return True if it matches the path of a request."""
        return _names(self.verbs, method.lower()) and any(
            url in (path, _ANY) or (url.endswith("/*") and path.startswith(url[:-1])) for url in self.urls
        )


class _Rule(msgspec.Struct, frozen=True, rename="camel"):
    subjects: tuple[_Subject, ...] = ()
    resource_rules: tuple[_ResourceRule, ...] = ()
    non_resource_rules: tuple[_PathRule, ...] = ()

    def means(self, user: User, method: str, path: str, info: RequestInfo | None) -> bool:
        """Return True if it matches a request."""
        if not any(each.means(user) for each in self.subjects):
            return False
        if info is None:
            return any(each.means(method, path) for each in self.non_resource_rules)
        return any(each.means(info) for each in self.resource_rules)


class _Distinguisher(msgspec.Struct, frozen=True):
    type: str = ""


class _SchemaSpec(msgspec.Struct, frozen=True, rename="camel"):
    priority_level_configuration: _Name = _Name()
    matching_precedence: int = 0
    distinguisher_method: _Distinguisher | None = None
    rules: tuple[_Rule, ...] | None = None


class _Schema(msgspec.Struct, frozen=True):
    metadata: _Metadata
    spec: _SchemaSpec


class _Queuing(msgspec.Struct, frozen=True, rename="camel"):
    hand_size: int = 0
    queue_length_limit: int = 0


class _Response(msgspec.Struct, frozen=True):
    queuing: _Queuing | None = None


class _Limited(msgspec.Struct, frozen=True, rename="camel"):
    nominal_concurrency_shares: int = 0
    limit_response: _Response = _Response()

    @property
    def room(self) -> int:
        """The maximum number of queued requests of one flow: the capacity of its hand of queues."""
        queuing = self.limit_response.queuing
        return queuing.hand_size * queuing.queue_length_limit if queuing is not None else 0


class _LevelSpec(msgspec.Struct, frozen=True):
    type: str = ""
    limited: _Limited | None = None
    exempt: _Limited | None = None

    @property
    def shares(self) -> int:
        """Its nominal share of the seats."""
        found = self.limited or self.exempt
        return found.nominal_concurrency_shares if found is not None else 0


class _Level(msgspec.Struct, frozen=True):
    metadata: _Metadata
    spec: _LevelSpec


_schema_of, _level_of = msgspec.json.Decoder(_Schema).decode, msgspec.json.Decoder(_Level).decode


def _names(words: tuple[str, ...], word: str) -> bool:
    return word in words or _ANY in words


class FlowControl:
    """Finds the FlowSchema of a request, and keeps the seats of the levels.

    Args:
        store: the store of FlowSchemas and levels, which are parsed again only after a change.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read = (-1, -1)
        self._schemas: list[tuple[_Schema, Flow]] = []
        self._seats: dict[str, Seats] = {}

    def flow_of(self, user: User, method: str, path: str, info: RequestInfo | None) -> Flow | None:
        """Return the flow of a request; None for a long-running one, and if no FlowSchema matches.

        Args:
            user: the effective user.
            method: the HTTP method.
            path: the decoded path.
            info: the parsed path; None if it is not that of a resource.
        """
        if info is not None and info.subresource in _LONG:
            return None
        self._bring_up_to_date()
        for schema, flow in self._schemas:
            if any(rule.means(user, method, path, info) for rule in schema.spec.rules or ()):
                return flow if flow.seats is None else flow._replace(name=_flow_name(schema, user, info))
        return None

    def levels(self) -> Iterator[tuple[str, Seats]]:
        """Yield the names of the levels with limited seats, and their seats."""
        self._bring_up_to_date()
        return iter(sorted(self._seats.items()))

    def _bring_up_to_date(self) -> None:
        # Called for every request: two revisions show if anything has to be read again.
        newest = (self._store.newest(_SCHEMAS), self._store.newest(_LEVELS))
        if newest == self._read:
            return
        levels = {}
        for stored in self._store.list(_LEVELS).items:
            level = _level_of(stored.value)
            levels[level.metadata.name] = level
        self._seats = self._seats_of(levels)
        schemas = [_schema_of(stored.value) for stored in self._store.list(_SCHEMAS).items]
        schemas.sort(key=lambda each: (each.spec.matching_precedence, each.metadata.name))
        self._schemas = []
        for schema in schemas:
            found = levels.get(schema.spec.priority_level_configuration.name)
            if found is not None:  # a schema is not used while its level is missing
                headers = ((SCHEMA_HEADER, schema.metadata.uid), (LEVEL_HEADER, found.metadata.uid))
                self._schemas.append((schema, Flow(headers, self._seats.get(found.metadata.name), "")))
        self._read = newest

    def _seats_of(self, levels: dict[str, _Level]) -> dict[str, Seats]:
        shares = sum(each.spec.shares for each in levels.values())
        seats = {}
        for name, level in levels.items():
            if level.spec.limited is not None:
                # The seats of a level survive its changes, as requests hold some and wait for others.
                seats[name] = self._seats.get(name) or Seats()
                most = ceil(SERVER_SEATS * level.spec.shares / shares) if shares else 0
                seats[name].allow(most, level.spec.limited.room)
        return seats


def _flow_name(schema: _Schema, user: User, info: RequestInfo | None) -> str:
    """Return the name of a flow; FlowSchemas of the same level have different flows."""
    method = schema.spec.distinguisher_method
    kind = method.type if method is not None else ""
    told = user.name if kind == "ByUser" else info.namespace if kind == "ByNamespace" and info is not None else ""
    return f"{schema.metadata.name}/{told}"


class FlowMetrics(Collector):
    """Metrics of the seats of the levels."""

    def __init__(self, flows: FlowControl) -> None:
        self._flows = flows

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics."""
        start, label = "apiserver_flowcontrol", ("priority_level",)
        nominal = GaugeMetricFamily(f"{start}_nominal_limit_seats", "Seats of a priority level", labels=label)
        taken = GaugeMetricFamily(f"{start}_current_executing_seats", "Seats that are taken", labels=label)
        waiting = GaugeMetricFamily(f"{start}_current_inqueue_requests", "Requests that wait", labels=label)
        served = CounterMetricFamily(f"{start}_dispatched_requests_total", "Requests that got a seat", labels=label)
        refused = CounterMetricFamily(f"{start}_rejected_requests_total", "Requests that found none", labels=label)
        for name, seats in self._flows.levels():
            nominal.add_metric((name,), seats.most)
            taken.add_metric((name,), seats.taken)
            waiting.add_metric((name,), seats.waiting)
            served.add_metric((name,), seats.dispatched)
            refused.add_metric((name,), seats.refused)
        yield from (nominal, taken, waiting, served, refused)
