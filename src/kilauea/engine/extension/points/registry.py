"""The functions that plugins registered, by extension point, in the order in which they are called."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from kilauea.engine.conf import PluginConf
from kilauea.engine.extension.points.answers import EventHandler, PluginFault, Rejection
from kilauea.engine.plan import Refusal

FLAGS: dict[str, tuple[str, ...]] = {
    "job_order": ("joborder",),
    "queue_order": ("queueorder",),
    "task_order": ("taskorder",),
    "sub_job_order": ("subjoborder",),
    "cluster_order": ("clusterorder",),
    "victim_queue_order": (),
    "job_ready": ("jobready",),
    "sub_job_ready": ("subjobready",),
    "job_valid": (),
    "predicate": ("predicate",),
    "pre_predicate": ("predicate",),
    "allocatable": ("allocatable",),
    "preemptive": ("preemptive",),
    "overused": ("overused",),
    "job_enqueueable": ("jobenqueued",),
    "job_enqueued": ("jobenqueued",),
    "job_pipelined": ("jobpipelined",),
    "sub_job_pipelined": ("subjobpipelined",),
    "job_starving": ("jobstarving",),
    "preemptable": ("preemptable",),
    "reclaimable": ("reclaimable",),
    "unified_evictable": (),
    "victim_tasks": ("victim",),
    "best_node": ("bestnode",),
    "node_score": ("nodeorder",),
    "batch_node_score": ("nodeorder",),
    "node_map": ("nodeorder",),
    "hyper_node_order": ("hypernodeorder",),
    "hyper_node_gradient_for_job": ("hypernodegradient",),
    "hyper_node_gradient_for_sub_job": ("hypernodegradient",),
    "target_job": ("targetjob",),
    "reserved_nodes": ("reservednodes",),
    "bind_annotations": (),
    "bind_locks": (),
}
"""Extension points with their flags, any of which enables the point; a point without a flag is always enabled."""


class Guarding(Protocol):
    """Wraps the functions that a plugin registers."""

    def around(self, point: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the wrapped function."""


class Registry:
    """The functions of plugins by extension point, and the tiers in which they are called."""

    def __init__(self, tiers: Sequence[Sequence[PluginConf]]) -> None:
        self._tiers = tiers
        self._registered: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        self._walks: dict[str, list[list[tuple[str, Any]]]] = {}
        self._guards: dict[str, Guarding] = {}
        self._opening = ""
        """The plugin that is registering."""
        self.task_traits: list[tuple[str, Callable[[Any], Hashable]]] = []
        self.on_allocate: list[tuple[str, EventHandler]] = []
        self.on_deallocate: list[tuple[str, EventHandler]] = []
        self.tells_tasks_apart = False
        """True if an event handler may depend on more than the gang and the shape of a task."""
        self.serves_claims = False
        """True if a plugin allocates devices to the claims of pods."""
        self.objections: dict[str, Refusal] = {}
        """Reasons why plugins reject tasks that were added to a node, by task."""

    def close(self) -> None:
        """Forget all plugins.

        Most functions are bound methods of plugins, which refer to the session. While they are stored here, session and
        plugins keep each other alive until the garbage collector frees them.
        """
        self._registered.clear()
        self._walks.clear()
        self._guards.clear()
        self.task_traits.clear()
        self.on_allocate.clear()
        self.on_deallocate.clear()

    @contextmanager
    def registering(self, plugin: str) -> Iterator[None]:
        """Allow only this plugin to register, so that no plugin registers under the name of another."""
        self._opening = plugin
        try:
            yield
        finally:
            self._opening = ""

    def post_guard(self, plugin: str, guard: Guarding) -> None:
        """Wrap everything that a plugin registers from now on in a guard."""
        self._guards[plugin] = guard

    @property
    def has_user_plugins(self) -> bool:
        """True if any plugin is from outside this package."""
        return bool(self._guards)

    def guarded(self, point: str, plugin: str, function: Any) -> Any:
        """Return the function, wrapped in the guard of its plugin if it has one."""
        if self._opening and plugin != self._opening:
            raise PluginFault(self._opening, point, f"it registers under the name {plugin!r}: use self.name")
        guard = self._guards.get(plugin)
        return function if guard is None or function is None else guard.around(point, function)

    def add(self, point: str, plugin: str, function: Any) -> None:
        """Register a function of a plugin at a point by name; prefer the typed `add_*` methods below."""
        self._put(point, plugin, self.guarded(point, plugin, function))

    def _put(self, point: str, plugin: str, registered: Any) -> None:
        if point not in FLAGS:
            raise KeyError(point)
        self._registered[point][plugin] = registered
        self._walks.pop(point, None)

    def tiers_of(self, point: str) -> list[list[tuple[str, Any]]]:
        """Return the tiers of a point: (plugin, function) of registered, enabled plugins, without empty tiers."""
        walk = self._walks.get(point)
        if walk is None:
            flags, registered = FLAGS[point], self._registered[point]
            if not registered:
                return []
            rows = [
                [(p.name, registered[p.name]) for p in tier if p.name in registered and p.is_enabled(*flags)]
                for tier in self._tiers
            ]
            # Cached, because points are called for every task; a registration at the point drops the cache.
            walk = self._walks[point] = [row for row in rows if row]
        return walk

    def walk(self, point: str) -> Iterator[tuple[str, Any]]:
        """Yield all functions of a point, in order."""
        for tier in self.tiers_of(point):
            yield from tier

    def ask(self, point: str, plugin: str, function: Callable[..., Any], *arguments: object) -> Any:
        """Call a plugin; every exception becomes a fault with its name."""
        try:
            return function(*arguments)
        except PluginFault:
            raise
        except Exception as error:
            raise PluginFault(plugin, point, f"{type(error).__name__}: {error}") from error

    def _first(self, point: str, *arguments: object) -> Any:
        for tier in self.tiers_of(point):
            for plugin, function in tier:
                answer = self.ask(point, plugin, function, *arguments)
                if answer is not None:
                    if not isinstance(answer, (Refusal, Rejection)):
                        raise PluginFault(plugin, point, f"expected a refusal or None, got {answer!r}")
                    return answer
        return None

    def _all(self, point: str, *arguments: object) -> list[Any]:
        return [self.ask(point, plugin, function, *arguments) for plugin, function in self.walk(point)]
