"""A complete cluster in one process: API server, scheduler, controllers and simulated nodes.

The components call the server directly instead of over HTTP (`kilauea.runtime.cluster.direct`), and are otherwise those
of any cluster. Their whole state is in the objects, so a new process continues where the last one ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from kilauea.admission.review import Settings
from kilauea.api.kinds import NODES
from kilauea.api.ports import Controller, Key, Obj, Resource
from kilauea.api.wellknown import ALL_SCHEDULERS, GANG_SCHEDULERS
from kilauea.apiserver.admission.chain import admission_steps
from kilauea.apiserver.admission.without_effect import WithoutEffect
from kilauea.apiserver.backend import Backend
from kilauea.apiserver.core import ApiServer
from kilauea.apiserver.rest.history import HISTORY
from kilauea.apiserver.rest.metrics import METRICS
from kilauea.client.limits import RateLimit
from kilauea.client.recording import Recorder
from kilauea.client.rest import Client
from kilauea.client.view import Cache
from kilauea.controllers.autoscalers import AutoscalerController
from kilauea.controllers.configuration import ConfigurationController
from kilauea.controllers.hypernodes.discovery import CONFIGURATION
from kilauea.controllers.load_balancers import LoadBalancerController
from kilauea.controllers.registry import kubernetes_controllers, volcano_controllers
from kilauea.controllers.unserved import UnservedPodController
from kilauea.kubelet.network import NetworkRanges, claimed_ranges
from kilauea.nodes.annotations import is_simulated
from kilauea.nodes.heartbeats import Heartbeats, speaks_for
from kilauea.nodes.logs import PodLogs
from kilauea.nodes.machine import Machine
from kilauea.nodes.pods import Pods
from kilauea.nodes.program import JOB_RUN_TIME
from kilauea.nodes.registration import Registration, node_name
from kilauea.nodes.usage import SimulatedUsage
from kilauea.runtime.clock import SystemClock
from kilauea.runtime.cluster.admission import VolcanoAdmission
from kilauea.runtime.cluster.advising import Advisor, Words
from kilauea.runtime.cluster.apiserver import ServerOptions, serve
from kilauea.runtime.cluster.dashboard import dashboard_of_cluster
from kilauea.runtime.cluster.direct import DirectClient
from kilauea.runtime.cluster.in_process import discovered
from kilauea.runtime.cluster.manifests import Manifest, ManifestError, apply_manifests, read_manifests
from kilauea.runtime.daemon import StartError
from kilauea.runtime.history.recorder import Recorder as HistoryRecorder
from kilauea.runtime.history.serving import ServedHistory, Submissions
from kilauea.runtime.inputs.files import SourceError
from kilauea.runtime.inputs.template_rules import template_errors
from kilauea.runtime.manager.fabric import FabricDiscovery
from kilauea.runtime.manager.reconciling import Driver
from kilauea.runtime.manager.stalls import Stalls
from kilauea.runtime.scheduler.conf_map import conf_in_cluster, default_text, text_of
from kilauea.runtime.scheduler.conf_reload import ConfReload
from kilauea.runtime.scheduler.live import LiveOptions, LiveScheduler
from kilauea.runtime.tasks import take_short_turns
from kilauea.telemetry.metrics import SchedulerMetrics

if TYPE_CHECKING:
    from kilauea.runtime.cluster.machine_pods import MachineOptions, MachinePods

EVENTS = 1500
"""Events written per second, a few at a time: fewer while the cluster is busy, as each waits for its turn.

More than the pods that can start in a second, with one event each, so that none of these events is dropped.
"""
RENEW_SECONDS = 30
"""Seconds between two heartbeats of a node, which are most of the work of an idle cluster.

Well below the grace period of nodes: without a network, none is lost.
"""
DECODED = 1000
"""Number of decoded objects that the server caches, about as many as are written for the start of a pod."""
HISTORY_FOLDER = "history"
"""Folder of the history, in that of the cluster."""
HISTORY_GATHER_SECONDS = 1.0
"""Seconds for which events are collected for the history."""
LOOK_SECONDS = 0.01
PATIENCE_SECONDS = 60
"""Seconds after which the server listens although the cluster is incomplete: otherwise it could not be repaired."""
_NOT_READY = (
    "the cluster is not complete after %d seconds, but the server listens: required kinds may be missing or "
    "replaced (kubectl get crds), or nodes may be rejected (kubectl get events -A)"
)
_LEFT_OVER = (
    "%d simulated nodes of earlier runs remain, and pods on them are not executed; kilauea run and kilauea batch avoid "
    "them; to keep other pods off them, too, run kubectl delete node %s"
)
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Up:
    """Parts of the cluster to run, and their options.

    Attributes:
        server: options of the API server.
        nodes: number of nodes to register; existing ones stay.
        machine: size of each node.
        manifests: files and folders of objects to apply at the start.
        scheduler_conf: file with the scheduler's configuration; None for the one in the cluster.
        scheduler: True to run the scheduler.
        run_time: microseconds for commands of unknown run time; 0 for no end.
        words: returns the change that lets a group start as a sentence, for events; None for no such events.
        pods: how this machine runs pods as processes; None if all nodes are simulated.
    """

    server: ServerOptions
    nodes: int
    machine: Machine
    manifests: tuple[Path, ...] = ()
    scheduler_conf: Path | None = None
    scheduler: bool = True
    run_time: int = JOB_RUN_TIME
    words: Words | None = None
    pods: MachineOptions | None = None


async def run_up(
    up: Up, ready: Callable[[str, str], None], stop: asyncio.Event, again: Callable[[str], None] = lambda link: None
) -> None:
    """Run until told to stop.

    Args:
        up: the parts to run.
        ready: called with the address, and the link to the dashboard (empty if it cannot listen), once pods can be
            scheduled.
        stop: ends everything when it is set.
        again: called with the next link to the dashboard when one was used.

    Raises:
        StartError: it cannot start.
    """
    take_short_turns()
    try:
        manifests = read_manifests([str(path) for path in up.manifests])
    except (SourceError, ManifestError) as error:
        raise StartError(str(error)) from error
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    links: list[str] = []

    def listening(found: str) -> None:
        address.set_result(found)
        ready(found, links[-1])

    def linked(link: str) -> None:
        links.append(link)
        if len(links) > 1:
            again(link)

    if up.pods is None:
        await serve(up.server, listening, stop, partial(_components, up, manifests, stop, address, linked, None))
        return
    with claimed_ranges(up.server.data_dir) as ranges:
        server = replace(up.server, service_range=ranges.services)
        await serve(server, listening, stop, partial(_components, up, manifests, stop, address, linked, ranges))


@asynccontextmanager
async def _components(
    up: Up,
    manifests: Sequence[Manifest],
    stop: asyncio.Event,
    address: asyncio.Future[str],
    linked: Callable[[str], None],
    ranges: NetworkRanges | None,
    api: ApiServer,
    authority: str,
) -> AsyncIterator[None]:
    """The components besides the server; the block starts once pods can be scheduled and the manifests are applied."""
    clock, rng, cache = SystemClock(), Random(up.server.seed), Cache()

    def client(component: str) -> Client:
        return DirectClient(api, component, Random(rng.random()))

    controllers = client("kilauea-controllers")
    recorder = Recorder(controllers, clock, RateLimit(EVENTS, EVENTS, clock))
    machine, stalls = None, Stalls(clock)
    if up.pods is not None and ranges is not None:
        from kilauea.runtime.cluster.machine_pods import MachinePods  # noqa: PLC0415 - 3 MB that simulated nodes save

        data = up.server.data_dir.resolve()
        machine = MachinePods(up.pods, ranges, client("kubelet"), cache, clock, recorder.record, data, address)
    kubernetes = kubernetes_controllers(
        stalls.running_since, partial(_is_ours, machine), authority, api.backend.sign, partial(discovered, api)
    )
    simulated: list[Controller] = [AutoscalerController(), LoadBalancerController(), *_nodes(up, machine)]
    controlled = [*volcano_controllers(GANG_SCHEDULERS), *kubernetes, *simulated, *_scheduling(up)]
    driver = Driver(controllers, cache, clock, rng, recorder.record, controlled)
    fabric = FabricDiscovery(controllers, cache, clock, recorder.record, CONFIGURATION)
    api.backend.logs = PodLogs(cache, up.run_time)
    api.backend.usage = SimulatedUsage(cache)
    history = _history(up, api, clock)
    _join(up, api.backend, history)
    work: list[Coroutine[Any, Any, None]] = [
        cache.run(controllers, clock, rng),
        *(each.run() for each in (driver, stalls, fabric, recorder, history)),
    ]
    if machine is not None:
        api.backend.logs, api.backend.connections = machine.logs(api.backend.logs), machine.connections()
        api.backend.usage = machine.usage(api.backend.usage)
        work.append(machine.run())
    scheduler, applied = None, asyncio.Event()
    if up.scheduler:
        metrics = SchedulerMetrics()
        api.documents.metrics.append(metrics.registry)
        scheduler = _scheduler(up, client("kilauea-scheduler"), clock, rng, recorder, cache, metrics, history)
        # The first cycle needs all manifests: with half of them, queues would have no nodes, or gangs no pods.
        work += [scheduler.watch(), _after(applied, scheduler.schedule)]
        recorder.busy = partial(_have_work, driver, scheduler)
        if up.words is not None:
            work.append(Advisor(client("kilauea-advisor"), cache, clock, recorder.record, up.words).run())

    async def begin() -> None:
        await cache.complete()
        missing = names = [*map(node_name, range(up.nodes)), *(machine.names if machine is not None else ())]
        while (scheduler is not None and scheduler.not_ready()) or missing:
            await clock.sleep(LOOK_SECONDS)
            missing = _missing(cache, missing)
        if machine is not None and (more := _left_over(cache, names)):
            log.warning(_LEFT_OVER, len(more), " ".join(more))
        await apply_manifests(client("kilauea-up"), manifests, partial(_resource_of, api), "kilauea-up")

    dashboard = dashboard_of_cluster(api, client("kilauea-dashboard"), up.server, scheduler, linked)
    async with _opened(machine), _running(work, stop), dashboard:
        beginning = asyncio.ensure_future(begin())
        try:
            await _unless(stop, _ended(beginning, PATIENCE_SECONDS))
            if beginning.done():
                beginning.result()
            elif not stop.is_set():
                log.warning(_NOT_READY, PATIENCE_SECONDS)
            applied.set()
            yield
        except ManifestError as error:
            raise StartError(str(error)) from error
        finally:
            beginning.cancel()
            await asyncio.gather(beginning, return_exceptions=True)


def _missing(cache: Cache, names: Sequence[str]) -> list[str]:
    """Return the nodes that are not registered yet; looking at all of them each time would take half of the start."""
    return [name for name in names if cache.get(NODES, Key("", name)) is None]


def _have_work(driver: Driver, scheduler: LiveScheduler) -> bool:
    """Return True while controllers or the scheduler have something to write."""
    return driver.busy > 0 or scheduler.busy > 0


@asynccontextmanager
async def _opened(machine: MachinePods | None) -> AsyncIterator[None]:
    """The runtime of this machine's containers for the length of a block; they keep running after it."""
    if machine is None:
        yield
        return
    await machine.open()
    try:
        yield
    finally:
        await machine.close()


@asynccontextmanager
async def _running(work: Sequence[Coroutine[Any, Any, None]], stop: asyncio.Event) -> AsyncIterator[None]:
    """Tasks that run until the block ends; if one fails, everything stops, and its error is raised."""
    tasks = [asyncio.ensure_future(each) for each in work]

    def ended(task: asyncio.Future[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            stop.set()

    for task in tasks:
        task.add_done_callback(ended)
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, Exception):
                raise result


async def _after(event: asyncio.Event, work: Callable[[], Awaitable[None]]) -> None:
    """Run work once an event is set."""
    await event.wait()
    await work()


async def _ended(task: asyncio.Future[None], seconds: float) -> None:
    """Wait until a task has ended, with a timeout."""
    await asyncio.wait((task,), timeout=seconds)


def _left_over(cache: Cache, asked: Sequence[str]) -> list[str]:
    """Names of simulated nodes that this run does not configure."""
    nodes = {node["metadata"]["name"] for node in cache.list(NODES) if is_simulated(node)}
    return sorted(nodes - set(asked))


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
    """Run work, and cancel it when everything stops."""
    working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
    finally:
        for task in (working, stopping):
            task.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)


def _nodes(up: Up, machine: MachinePods | None) -> list[Controller]:
    simulated = [Registration(up.nodes, up.machine), Heartbeats(up.machine, RENEW_SECONDS), Pods(run_time=up.run_time)]
    return [*simulated, *(machine.controllers(RENEW_SECONDS) if machine is not None else ())]


def _is_ours(machine: MachinePods | None, node: Obj) -> bool:
    """Return True for a node that this process keeps alive: that it runs is proof enough.

    Without processor time, the process writes heartbeats late, and would otherwise take that for a failure and evict
    pods.
    """
    return speaks_for(node) or (machine is not None and node["metadata"]["name"] in machine.names)


def _scheduling(up: Up) -> list[Controller]:
    """Return the controllers of the scheduler's configuration and of pods of other schedulers."""
    if not up.scheduler:
        return []
    path = up.scheduler_conf
    text = default_text if path is None else partial(text_of, path)
    return [ConfigurationController(text, kept=path is not None), UnservedPodController(ALL_SCHEDULERS)]


def _scheduler(
    up: Up,
    client: Client,
    clock: SystemClock,
    rng: Random,
    recorder: Recorder,
    cache: Cache,
    metrics: SchedulerMetrics,
    history: HistoryRecorder,
) -> LiveScheduler:
    """The scheduler, by the configuration in a file, or else in the cluster.

    Raises:
        StartError: the file cannot be used.
    """
    conf = ConfReload(str(up.scheduler_conf)) if up.scheduler_conf else conf_in_cluster(cache)
    if up.scheduler_conf and conf.fault:
        raise StartError(conf.fault)
    options = LiveOptions(names=ALL_SCHEDULERS, seed=None)
    return LiveScheduler(client, options, conf, clock, rng, recorder.record, metrics, evicted=history.evicted)


def _join(up: Up, backend: Backend, history: HistoryRecorder) -> None:
    """Register the kinds and the admission of components in the same process, which share objects."""
    backend.store.most_decoded = DECODED
    for each in (*METRICS, *HISTORY):
        backend.registry.add(each)
    backend.components = (*(["scheduler"] if up.scheduler else []), "controller-manager", "etcd-0")
    settings = Settings(GANG_SCHEDULERS, check_template=template_errors)
    backend.admission = admission_steps(VolcanoAdmission(backend, settings), Submissions(history), WithoutEffect())


def _history(up: Up, api: ApiServer, clock: SystemClock) -> HistoryRecorder:
    """The recorder of the history, which the server reads."""
    client = DirectClient(api, "kilauea-history", Random("history"), gather=HISTORY_GATHER_SECONDS)
    history = HistoryRecorder(client, up.server.data_dir / HISTORY_FOLDER, clock, Random(up.server.seed))

    def newest(kind: Resource) -> int:
        return api.backend.store.newest(f"/{kind.group or 'core'}/{kind.plural}/")

    api.backend.history = ServedHistory(history, clock.now, newest)
    return history


def _resource_of(api: ApiServer, api_version: str, kind: str) -> Resource | None:
    found = api.backend.registry.of_kind(api_version, kind)
    if found is None:
        return None
    return Resource(found.group, found.version, found.plural, found.kind, found.namespaced)
