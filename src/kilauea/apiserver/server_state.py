"""The state of a server: objects, kinds, clock, random numbers, authorization, and connections to pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv4Network
from random import Random
from typing import Any, Protocol

from kilauea.api.container_logs import LogSource
from kilauea.api.container_streams import PodConnections
from kilauea.api.times import SECOND, format_time
from kilauea.apiserver.account_tokens import AccountTokens
from kilauea.apiserver.budget_selectors import BudgetSelectors
from kilauea.apiserver.heavy import Heavy
from kilauea.apiserver.large_writes import LargeWrites
from kilauea.apiserver.rbac.authorizer import Authorizer
from kilauea.apiserver.resources.registry import Registry
from kilauea.apiserver.selection import Matches
from kilauea.apiserver.storage import Store
from kilauea.apiserver.streams.sessions import MOST_PORTS, MOST_PORTS_OF_TENANT, Sessions
from kilauea.apiserver.turns import LoopTurns
from kilauea.apiserver.unsent import Unsent

SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""Characters of generated names, which do not form words or look alike."""
SUFFIX_LENGTH = 5
ROUNDS = 3
"""Rounds of the loop between two steps of long lists, watches and logs."""
SERVICE_RANGE = IPv4Network("10.96.0.0/12")
"""The default range of service IPs."""
_RANDOM_BITS = ~(0xF000 << 64 | 0xC000 << 48)
_VERSION_4 = 4 << 76 | 0x8000 << 48
"""The version bits of a random UID (RFC 9562)."""


class UsageSource(Protocol):
    """The source of resource metrics."""

    def pods(self, namespace: str, name: str, now: int) -> Iterator[dict[str, Any]]:
        """Yield PodMetrics of the running pods in one or all namespaces, or of one pod."""
        ...

    def nodes(self, name: str, now: int) -> Iterator[dict[str, Any]]:
        """Yield NodeMetrics of all nodes, or of one."""
        ...


class HistorySource(Protocol):
    """The source of the history of jobs."""

    async def answer(
        self, kind: str, plural: str, namespace: str, name: str, query: Mapping[str, str]
    ) -> bytes | Iterable[bytes] | None:
        """Return the body of a response; None if the job does not exist.

        Raises:
            ValueError: a parameter cannot be used.
            LookupError: the history cannot be read now.
        """
        ...


@dataclass(slots=True, kw_only=True)
class ServerState:
    """Everything that is needed to answer a request, except admission, which also uses it.

    Attributes:
        store: the objects.
        registry: the kinds.
        now: the current time in microseconds since 1970.
        rng: the random numbers for UIDs and generated names.
        logs: the output of containers; None if nothing runs them.
        reading_turns: the turns of the steps of long lists, watches and logs, and of decisions among many rights.
        unsent: the batches of watches that clients have not read yet.
        connections: opens connections to containers; None if nothing runs them.
        sessions: the open connections to containers.
        ports: the open connections to ports of pods.
        usage: the usage of nodes and pods; None if it is not measured.
        history: the history of jobs; None if it is not recorded.
        sign: signs certificate requests with the authority of the cluster; None without one.
        accounts: the tokens of service accounts; None without a signing key.
        matches: a cache of the objects that watches select.
        budget_selectors: a cache of the selectors of disruption budgets.
        heavy: runs work that can take long.
        large_writes: processes large writes outside the event loop; None to process them in it.
        components: the parts of the control plane in this process, by their names in ComponentStatuses.
        service_range: the addresses of services; the first is that of the server.
        authorizer: decides on permissions.
    """

    store: Store = field(kw_only=False)
    registry: Registry = field(kw_only=False)
    now: Callable[[], int] = field(kw_only=False)
    rng: Random = field(kw_only=False)
    logs: LogSource | None = None
    reading_turns: LoopTurns = field(default_factory=lambda: LoopTurns(ROUNDS))
    unsent: Unsent = field(default_factory=Unsent)
    connections: PodConnections | None = None
    sessions: Sessions = field(default_factory=Sessions)
    ports: Sessions = field(default_factory=lambda: Sessions(MOST_PORTS, MOST_PORTS_OF_TENANT, "ports of pods"))
    usage: UsageSource | None = None
    history: HistorySource | None = None
    accounts: AccountTokens | None = None
    sign: Callable[[bytes, Sequence[str], int, int], bytes] | None = None
    matches: Matches = field(default_factory=Matches)
    budget_selectors: BudgetSelectors = field(default_factory=BudgetSelectors)
    heavy: Heavy
    large_writes: LargeWrites | None = None
    components: tuple[str, ...] = ("etcd-0",)
    service_range: IPv4Network = SERVICE_RANGE
    authorizer: Authorizer = field(init=False)

    def __post_init__(self) -> None:
        self.authorizer = Authorizer(self.store)

    def timestamp(self) -> str:
        """Return the current time as in metadata, in whole seconds."""
        return second_text(self.now() // SECOND)

    def new_uid(self) -> str:
        """Return a UID for a new object."""
        digits = f"{self.rng.getrandbits(128) & _RANDOM_BITS | _VERSION_4:032x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    def new_suffix(self) -> str:
        """Return the suffix of a generated name."""
        return "".join(self.rng.choices(SUFFIX_LETTERS, k=SUFFIX_LENGTH))


@lru_cache(maxsize=16)
def second_text(seconds: int) -> str:
    """Return seconds since 1970 as RFC 3339 text."""
    return format_time(seconds * SECOND)
