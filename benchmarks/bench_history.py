"""The history: what it costs `kilauea up`, and how far expected starts are from actual ones on a trace.

    python benchmarks/bench_history.py [--smoke] [--runs 3] [--gangs 200] [--jobs 1500] [--every 5] [--nodes 12]

Cost: the load of `bench_up.py` on a cluster with its history and on one whose recorder does nothing, in turns; CPU
time of the whole process for each pod, so that it matters little what else runs.

Starts: jobs of one virtual cluster of the trace Philly, scheduled by the engine with the default configuration on few
nodes, so that there are queues. Whenever a job has to wait, its start is foretold, from the true run times and from
those of earlier jobs with the same size in the same queue (the trace has neither users nor names). Needs `shared/data`
beside the checkout.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import gzip
import heapq
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
from bench_apiserver import CONNECTIONS, Client, cpu_seconds
from bench_up import PATIENCE, all_running, create
from measure import SHARED

from kilauea.api.core import Node, Pod
from kilauea.api.meta import Object
from kilauea.api.scheduling import PodGroup
from kilauea.api.times import SECOND, format_time
from kilauea.engine.cycle import default_conf
from kilauea.engine.events import Event
from kilauea.engine.model.attempts import NO_BACKOFF
from kilauea.history.estimates import RunTimes
from kilauea.history.records import JobRecord, PodRecord
from kilauea.runtime.inputs.built_in import built_in_queue
from kilauea.simulator.cluster import SimulatedCluster
from kilauea.simulator.expected_start import Forecast, expected_start
from kilauea.simulator.scenario import Scenario

TRACE = SHARED / "data" / "philly_jobs_2017-10.csv.gz"
CLUSTER = "6214e9"
CARDS = 8
BEGIN = 1_506_816_000 * SECOND
GPU = "nvidia.com/gpu"
WITHOUT = """
import asyncio
from kilauea.runtime.history.recorder import Recorder
async def run(self):
    await asyncio.get_running_loop().create_future()
Recorder.run = run
"""
ACCOUNTED = """
import atexit, sys, time, types
from kilauea.runtime.history.recorder import Recorder, _Writer
spent = [0.0]
def timed(work):
    def measured(*given, **named):
        begin = time.thread_time()
        try:
            return work(*given, **named)
        finally:
            spent[0] += time.thread_time() - begin
    return measured
@types.coroutine
def steps(coroutine):
    send, throw = timed(coroutine.send), timed(coroutine.throw)
    go_on, given = send, None
    while True:
        try:
            asked = go_on(given)
        except StopIteration as end:
            return end.value
        try:
            go_on, given = send, (yield asked)
        except BaseException as error:
            go_on, given = throw, error
async def followed(work):
    await steps(work())
made = Recorder.__init__
def make(self, *given, **named):
    made(self, *given, **named)
    for each in self._reflectors:
        each.run = lambda work=each.run: followed(work)
Recorder.__init__ = make
for name in ("evicted", "created"):
    setattr(Recorder, name, timed(getattr(Recorder, name)))
_Writer.take = timed(_Writer.take)
_Writer.thin = timed(_Writer.thin)
atexit.register(lambda: print("HISTORY", spent[0], flush=True))
"""
"""Adds up the CPU time of all that the history does: its watches, its thread, and what others tell it."""
UP = "import sys; from kilauea.cli.main import main; main(sys.argv[1:])"


# --- cost


@contextmanager
def running(nodes: int, *, recorded: bool) -> Iterator[tuple[Path, int]]:
    """A cluster for the length of a block: its kubeconfig and the number of its process."""
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        program = UP if recorded else WITHOUT + UP
        command = [sys.executable, "-c", program, "up", "--nodes", str(nodes), "--listen", "127.0.0.1:0"]
        command += ["--data-dir", f"{folder}/data", "--kubeconfig", str(kubeconfig), "--seed", "1"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=dict(os.environ)) as cluster:
            assert cluster.stdout is not None
            while b"KUBECONFIG" not in cluster.stdout.readline():
                assert cluster.poll() is None, "the cluster has ended"
            try:
                yield kubeconfig, cluster.pid
            finally:
                cluster.terminate()
                cluster.communicate()


async def load(kubeconfig: Path, pid: int, gangs: int, size: int, settle: float) -> float:
    """CPU seconds for each pod, with what follows from the load."""
    clients = [await Client(kubeconfig).open() for _ in range(CONNECTIONS)]
    watching = asyncio.create_task(all_running(await Client(kubeconfig).open(), gangs * size))
    before = cpu_seconds(pid)
    async with asyncio.timeout(PATIENCE):
        await create(clients, gangs, size)
        await watching
    await asyncio.sleep(settle)
    return (cpu_seconds(pid) - before) / (gangs * size)


def measure_share(nodes: int, gangs: int, size: int, settle: float) -> None:
    """Run a cluster that adds up what the history takes: exact, where two runs differ by more than that."""
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        command = [sys.executable, "-c", ACCOUNTED + UP, "up", "--nodes", str(nodes), "--listen", "127.0.0.1:0"]
        command += ["--data-dir", f"{folder}/data", "--kubeconfig", str(kubeconfig), "--seed", "1"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as cluster:
            assert cluster.stdout is not None
            while "KUBECONFIG" not in cluster.stdout.readline():
                assert cluster.poll() is None, "the cluster has ended"
            whole = asyncio.run(load(kubeconfig, cluster.pid, gangs, size, settle))
            cluster.terminate()
            last = cluster.communicate()[0].split()
    spent = float(last[last.index("HISTORY") + 1]) / (gangs * size)
    print(f"of {1000 * whole:.3f} ms of CPU time for each pod, the history takes {1000 * spent:.3f} ms")
    print(f"  {spent / whole:.1%}, with its start and its end")


def measure_cost(runs: int, nodes: int, gangs: int, size: int, settle: float) -> None:
    """Run clusters with and without a history in turns."""
    found: dict[bool, list[float]] = {True: [], False: []}
    for number in range(runs):
        for recorded in ((True, False), (False, True))[number % 2]:
            with running(nodes, recorded=recorded) as (kubeconfig, pid):
                found[recorded].append(asyncio.run(load(kubeconfig, pid, gangs, size, settle)))
    ratios = [each / other for each, other in zip(found[True], found[False], strict=True)]
    ms = {recorded: 1000 * statistics.median(times) for recorded, times in found.items()}
    print(f"CPU time for each pod: {ms[True]:.3f} ms with a history, {ms[False]:.3f} ms without")
    print(f"  ratio {statistics.median(ratios):.3f}, median of {runs} pairs: {', '.join(f'{r:.3f}' for r in ratios)}")


# --- starts


class Job(NamedTuple):
    """A job of the trace; times in microseconds."""

    name: str
    submitted: int
    cards: int
    run_time: int


class Told(NamedTuple):
    """An expected start."""

    job: str
    at: int
    likely: int | None
    earliest: int | None
    latest: int | None


def read_jobs(count: int) -> list[Job]:
    """The first jobs of the virtual cluster."""
    with gzip.open(TRACE, "rt") as file:
        rows = [row for row in csv.DictReader(file) if row["vc"] == CLUSTER]
    return [
        Job(
            f"j{n}",
            BEGIN + int(row["submit_s"]) * SECOND,
            int(row["num_gpus"]),
            max(1, int(row["duration_s"])) * SECOND,
        )
        for n, row in enumerate(rows[:count])
    ]


def objects_of(job: Job) -> list[Object]:
    """A job as a gang of pods with up to 8 cards each."""
    created, pods = format_time(job.submitted), -(-job.cards // CARDS)
    meta = {"namespace": "ns", "creationTimestamp": created}
    group = {
        "metadata": {**meta, "name": job.name, "uid": job.name},
        "spec": {"minMember": pods},
        "status": {"phase": "Pending"},
    }
    found: list[Object] = [msgspec.convert({"kind": "PodGroup", **group}, PodGroup)]
    for number in range(pods):
        cards = min(CARDS, job.cards - number * CARDS)
        about = {**meta, "name": f"{job.name}-{number}", "uid": f"{job.name}-{number}"}
        about["annotations"] = {"scheduling.k8s.io/group-name": job.name}  # type: ignore[assignment]  # a map
        container = {"name": "c", "resources": {"requests": {GPU: str(cards), "cpu": str(6 * cards)}}}
        pod = {"kind": "Pod", "metadata": about, "spec": {"schedulerName": "volcano", "containers": [container]}}
        found.append(msgspec.convert({**pod, "status": {"phase": "Pending"}}, Pod))
    return found


class Replay:
    """The life of the cluster, in which starts are foretold as jobs come to wait."""

    def __init__(self, jobs: Sequence[Job], nodes: int, every: int) -> None:
        offer = {GPU: str(CARDS), "cpu": "96", "memory": "512Gi", "pods": "110"}
        machines = [
            msgspec.convert({"kind": "Node", "metadata": {"name": f"n{n}"}, "status": {"allocatable": offer}}, Node)
            for n in range(nodes)
        ]
        self.jobs = {job.name: job for job in jobs}
        self.every = every
        self.conf = default_conf()
        queues = [built_in_queue(name) for name in ("root", "default")]
        self.scenario = Scenario([*machines, *queues], self.conf, jobs[0].submitted)
        self.started: dict[str, int] = {}
        self.told: dict[str, list[Told]] = {"true run times": [], "earlier jobs": []}
        self._past: list[tuple[JobRecord, list[PodRecord]]] = []
        self._waited = 0

    def run(self) -> None:
        """Play the trace."""
        state, cluster, backoff = (
            self.scenario.state(),
            SimulatedCluster(self.scenario.objects, self.scenario.now),
            NO_BACKOFF,
        )
        arrivals = sorted(self.jobs.values(), key=lambda job: job.submitted)[::-1]
        ends: list[tuple[int, str]] = []
        while arrivals or ends or len(self.started) < len(self.jobs):
            came: list[Job] = []
            while arrivals and arrivals[-1].submitted <= cluster.now:
                came.append(arrivals.pop())
            events = [event for job in came for event in cluster.put(*objects_of(job))]
            while ends and ends[0][0] <= cluster.now:
                events += self._end(cluster, heapq.heappop(ends)[1])
            for event in events:
                state.apply(event)
            plan = self.scenario.decide(
                state, now=cluster.now, brief=True, backoff=backoff.at(cluster.now - self.scenario.now)
            )
            backoff, now = plan.backoff or backoff, cluster.now
            for bind in plan.binds:
                name = bind.pod.partition("/")[2].rpartition("-")[0]
                self.started.setdefault(name, now)
                heapq.heappush(ends, (now + self.jobs[name].run_time, bind.pod))
            self._tell(cluster, [job for job in came if job.name not in self.started])
            carried = cluster.carry_out(plan)
            for event in carried:
                state.apply(event)
            if not carried and cluster.settled:
                times = [each.submitted for each in arrivals[-1:]] + [end for end, _ in ends[:1]]
                if not times:
                    return
                cluster.now = max(cluster.now, min(times))

    def _end(self, cluster: SimulatedCluster, key: str) -> list[Event]:
        pod = cluster.pod(key)
        assert pod is not None
        name = key.partition("/")[2].rpartition("-")[0]
        job = self.jobs[name]
        record = PodRecord(
            uid=key, namespace="ns", name=key, job=name, resources=_size(pod), bound=self.started[name],
            ended=self.started[name] + job.run_time, state="Succeeded",
        )  # fmt: skip
        self._past.append((JobRecord(uid=name, namespace="ns", name="job", kind="Job"), [record]))
        gone = cluster.remove("Pod", key)
        # What has ended needs no scheduler; the objects of a real cluster are cleaned up, too.
        return [*gone, *cluster.remove("PodGroup", f"ns/{name}")] if pod.name.endswith("-0") else list(gone)

    def _running(self, cluster: SimulatedCluster) -> Iterator[tuple[JobRecord, list[PodRecord]]]:
        """The pods that run, as a history has them."""
        for pod in cluster.objects:
            if isinstance(pod, Pod) and pod.spec.node_name:
                name = pod.name.rpartition("-")[0]
                bound = self.started[name]
                record = PodRecord(
                    uid=pod.key,
                    namespace="ns",
                    name=pod.name,
                    job=name,
                    resources=_size(pod),
                    bound=bound,
                    state="Running",
                )
                yield JobRecord(uid=name, namespace="ns", name="job", kind="Job"), [record]

    def _tell(self, cluster: SimulatedCluster, waiting: Sequence[Job]) -> None:
        for job in waiting:
            self._waited += 1
            if self._waited % self.every:
                continue
            scenario = Scenario(cluster.objects, self.conf, cluster.now)
            past = RunTimes.of([*self._past[-2000:], *self._running(cluster)], cluster.now)

            def true(pod: Pod, elapsed: int | None) -> Forecast | None:
                time = self.jobs[pod.name.rpartition("-")[0]].run_time
                return Forecast(time, time, time, "true")

            def like(pod: Pod, elapsed: int | None, past: RunTimes = past) -> Forecast | None:
                found = past.estimate("ns", "job", "", "", "", _size(pod), elapsed or 0)
                return Forecast(*found[:3], "like", found.times) if found is not None else None

            for name, forecasts in (("true run times", true), ("earlier jobs", like)):
                found = expected_start(scenario, f"ns/{job.name}", forecasts)
                self.told[name].append(Told(job.name, cluster.now, found.time, found.earliest, found.latest))

    def report(self) -> None:
        """Print the errors of expected starts."""
        waits = [at - self.jobs[name].submitted for name, at in self.started.items()]
        print(f"{len(self.started)} jobs started, {sum(wait > 0 for wait in waits)} of them after a wait")
        for name, told in self.told.items():
            known = [each for each in told if each.likely is not None and each.job in self.started]
            errors = [abs((each.likely or 0) - self.started[each.job]) / SECOND for each in known]
            waited = [(self.started[each.job] - each.at) / SECOND for each in known]
            within = sum((each.earliest or 0) <= self.started[each.job] <= (each.latest or 1 << 62) for each in known)
            if not known:
                print(f"  {name}: none could be told")
                continue
            error, mean, wait = statistics.median(errors), statistics.mean(errors), statistics.median(waited)
            print(f"  by {name}: {len(known)} of {len(told)} told, {within} of them within the range")
            print(f"    absolute error: median {error:.0f} s, mean {mean:.0f} s, of a median wait of {wait:.0f} s")


def _size(pod: Pod) -> dict[str, int]:
    requests = (pod.spec.containers or [])[0].resources
    return {GPU: int(str((requests.requests or {}).get(GPU, "0"))) * 1000} if requests is not None else {}


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="small sizes")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--gangs", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=1500)
    parser.add_argument("--every", type=int, default=5, help="one of so many jobs that wait is foretold")
    parser.add_argument("--nodes", type=int, default=12)
    parser.add_argument("--only", choices=["cost", "starts"])
    options = parser.parse_args()
    print(f"load of the machine: {' '.join(f'{each:.1f}' for each in os.getloadavg())}")
    if options.only != "starts":
        sizes = (1, 20, 5, 10, 1.0) if options.smoke else (options.runs, 500, options.gangs, 10, 5.0)
        measure_cost(*sizes)
        measure_share(*sizes[1:])
    if options.only != "cost":
        if not TRACE.is_file():
            print(f"{TRACE} is absent: starts are not measured")
            return
        begin = time.process_time()
        replay = Replay(
            read_jobs(60 if options.smoke else options.jobs), 1 if options.smoke else options.nodes, options.every
        )
        replay.run()
        replay.report()
        print(f"  {time.process_time() - begin:.0f} s of CPU")


if __name__ == "__main__":
    main()
