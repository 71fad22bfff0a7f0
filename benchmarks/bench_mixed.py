"""Mixed clients on `kilauea up`, with attacks in between: does memory stay flat, and is every client answered?

    python benchmarks/bench_mixed.py [--smoke] [--hours 0.25] [--pods 20000] [--pause 20] [--every 60] [--speed 1]

In real time, `--hours 24` for a day: jobs of Volcano with ten short pods each, so many pods an hour; a client that asks
as kubectl does; the official Python client, which lists, watches and patches; watchers that read a kilobyte a second.
Beside them a process plays the attacks of `tests/adversary` one after another, and removes what they leave. The verdict
compares the largest figures of the two halves, after the hour for which events live, and the slowest answer with a
second. Where the server has to wait for a processor, as other work keeps these busy, answers are shown, not judged.

With `--speed 20` the cluster's clock runs twenty times as fast, by libfaketime (`apt-get install faketime`), so that a
day of the cluster passes in 72 minutes; hours and pods an hour are those of the cluster. Its clients keep their own
clock. For them, the server's limits of time are shorter too, and so are the turns of CPU time after which a long answer
lets others go on. So attacks that fail and late answers are shown, not judged.
"""

from __future__ import annotations

import argparse
import gc
import glob
import http.client
import json
import multiprocessing
import os
import sys
import threading
import time
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

from bench_apiserver import PODS, resident  # noqa: E402
from bench_up import running  # noqa: E402
from bench_vcjobs import JOBS, job  # noqa: E402

import kubernetes  # noqa: E402
from apiserver.test_transport import Process, connected  # noqa: E402
from support.api_core import MAPS  # noqa: E402
from support.attacks import ATTACKS, MERGE, PATIENCE  # noqa: E402

SIZE, NODES = 10, 20
RUN_SECONDS, TTL_SECONDS = 30, 60
SLOW_WATCHERS = 5
EVENTS_LIVE, SHORT = 3600.0, 2.0
"""Seconds for which events live; hours up to which a run is too short to judge growth."""
SLACK = 1.05
"""Allowed growth from the largest of the first half to the largest of the second."""
BUSY = 1.25
"""Time for which the server could run, to the time for which it did, from which on the machine is busy."""
MOST_LATE = 10
"""Late answers that are listed."""
FASTER = "/usr/lib/*/faketime/libfaketime.so.1"
"""The library that changes what the clock says to a process."""
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"


class Target(Process):
    """A cluster that runs already, as attacks want it."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self.__enter__()


class Times:
    """The slowest answers and their number, by client, and the attack that each late one came during.

    Attributes:
        attack: the attack that is under way; empty between two.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.attack = ""
        self.slowest: dict[str, float] = {}
        self.answers: Counter[str] = Counter()
        self.late: list[tuple[float, str]] = []

    @contextmanager
    def of(self, client: str, what: str) -> Iterator[None]:
        """Time a request."""
        begin, attack = time.monotonic(), self.attack
        yield
        attack = attack or self.attack
        seconds = time.monotonic() - begin
        with self._lock:
            self.answers[client] += 1
            self.slowest[client] = max(self.slowest.get(client, 0.0), seconds)
            if seconds >= PATIENCE:
                self.late.append((seconds, f"{client}: {what} during {attack or 'no attack'}"))


class Figures(NamedTuple):
    """The state at one moment: bytes of memory and of the log, objects, and open files."""

    resident: int
    log: int
    objects: int
    files: int


# --- clients


class Connection:
    """A connection that is kept; requests are timed under the name of a client."""

    def __init__(self, target: Target, times: Times, client: str) -> None:
        where = urllib.parse.urlsplit(target.url)
        self._line = http.client.HTTPSConnection(where.hostname or "", where.port, timeout=60, context=target.tls())
        self._token, self._times, self._client = target.token, times, client

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, bytes]:
        """The code and the body of an answer."""
        sent = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        sent |= {name.replace("_", "-").title(): value for name, value in headers.items()}
        with self._times.of(self._client, f"{method} {path.partition('?')[0]}"):
            self._line.request(method, path, None if body is None else json.dumps(body), sent)
            answer = self._line.getresponse()
            text = answer.read()
        assert answer.status < 500, f"{self._client}: {method} {path}: {answer.status}: {text[:300]!r}"
        return answer.status, text


def submit(target: Target, times: Times, stop: Event, every: float) -> None:
    """Submit a job each so many seconds."""
    line, number = Connection(target, times, "submitter"), 0
    while not stop.wait(every):
        body = job(f"job-{number}", SIZE, "100m")
        body["spec"]["ttlSecondsAfterFinished"] = TTL_SECONDS
        template = body["spec"]["tasks"][0]["template"]
        template["metadata"] = {"annotations": {"kilauea.dev/run-time": f"{RUN_SECONDS}s"}}
        template["spec"]["restartPolicy"] = "Never"
        code, text = line.ask("POST", JOBS, body)
        assert code == 201, text
        number += 1


def ask_like_kubectl(target: Target, times: Times, stop: Event) -> None:
    """Discover, list tables in pages, apply, describe and delete."""
    line, number = Connection(target, times, "kubectl"), 0
    while not stop.wait(0.2):
        name = f"applied-{number % 50}"
        for path in ("/api", "/apis", "/openapi/v3", "/version"):
            line.ask("GET", path)
        more = ""
        while True:
            code, text = line.ask("GET", f"{PODS}?limit=500{more}", accept=TABLE)
            token = json.loads(text).get("metadata", {}).get("continue", "") if code == 200 else ""
            if not token:
                break
            more = f"&continue={urllib.parse.quote(token)}"
        applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"n": str(number)}}
        line.ask("PATCH", f"{MAPS}/{name}?fieldManager=kubectl", applied, content_type=APPLY)
        line.ask("GET", f"{MAPS}/{name}", accept="application/yaml")
        selector = urllib.parse.quote("involvedObject.kind=Job,type=Warning")
        line.ask("GET", f"/api/v1/namespaces/default/events?limit=500&fieldSelector={selector}")
        if number % 3 == 0:
            line.ask("DELETE", f"{MAPS}/{name}")
        number += 1


def use_the_python_client(target: Target, times: Times, stop: Event) -> None:
    """List and patch with the official client, and time each patch until its watch shows it."""
    api = kubernetes.config.new_client_from_config(str(target.kubeconfig))
    core: Any = kubernetes.client.CoreV1Api(api)
    with suppress(kubernetes.client.ApiException):
        core.create_namespaced_config_map("default", {"metadata": {"name": "python"}})
    number = 0
    while not stop.wait(0.2):
        with times.of("python", "list of pods"):
            found = core.list_namespaced_pod("default", limit=200, _preload_content=False).data
        assert json.loads(found)["kind"] == "PodList"
        revision = core.read_namespaced_config_map("python", "default").metadata.resource_version
        watch = kubernetes.watch.Watch()
        events = watch.stream(
            core.list_namespaced_config_map, "default", resource_version=revision, timeout_seconds=30,
            field_selector="metadata.name=python",
        )  # fmt: skip
        with times.of("python", "patch until the watch shows it"):
            core.patch_namespaced_config_map("python", "default", {"data": {"n": str(number)}})
            assert next(iter(events))["object"].data == {"n": str(number)}
        watch.stop()
        events.close()
        number += 1


def watch_slowly(target: Target, stop: Event) -> None:
    """Watch all pods and read a kilobyte a second, on a new connection whenever the server ends it."""
    while not stop.is_set():
        with suppress(OSError), connected(target) as line:
            head = f"GET {PODS}?watch=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {target.token}\r\n\r\n"
            line.sendall(head.encode())
            while not stop.wait(1.0) and line.recv(1024):
                pass


# --- attacks

Told = tuple[str | None, str]
"""The name of an attack that begins, or None and what failed in one that has ended."""


class Attacks:
    """Follows the attacks of another process.

    Args:
        told: what that process tells.
        times: learns which attack is under way.

    Attributes:
        ended: the number of attacks that have ended.
        failed: what failed in them, until it is taken.
    """

    def __init__(self, told: Queue[Told], times: Times) -> None:
        self.ended, self.failed = 0, list[str]()
        self._told, self._times = told, times
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        while True:
            name, failed = self._told.get()
            self._times.attack = name or ""
            self.ended += name is None
            if failed:
                self.failed.append(failed)


def attack(kubeconfig: Path, stop: Event, pause: float, told: Queue[Told]) -> None:
    """Play one attack after another, and remove what each round leaves; a process of its own.

    Each is told of twice: by its name as it begins, and by None and what failed, or nothing, as it ends.
    """
    target = Target(kubeconfig)
    while not stop.is_set():
        for name, strike in ATTACKS.items():
            if stop.wait(pause):
                return
            told.put((name, ""))
            try:
                strike(target)
                told.put((None, ""))
            except Exception as error:
                told.put((None, f"attack {name!r}: {type(error).__name__}: {error}"[:500]))
        clean(target)


def clean(target: Target) -> None:
    """Remove what attacks leave, so that they find the same cluster again."""
    target.ask("PATCH", f"{MAPS}/long", b'{"metadata":{"finalizers":null}}', content_type=MERGE)
    names = ("long", "large", "many-keys", *(f"y{number}" for number in range(60)))
    for found in json.loads(target.ask("GET", MAPS)[1])["items"]:
        name = found["metadata"]["name"]
        if name in names or name.startswith(("costly-", "asking-", "owned-")):
            target.ask("DELETE", f"{MAPS}/{name}")
    for found in json.loads(target.ask("GET", ROLES)[1])["items"]:
        if found["metadata"]["name"].startswith("wide-"):
            target.ask("DELETE", f"{ROLES}/{found['metadata']['name']}")
    for plural in ("trees", "bushes"):
        target.ask("DELETE", f"/apis/example.com/v1/{plural}")


# --- figures


def figures(target: Target, pid: int) -> Figures:
    """The current counts."""
    text = target.ask("GET", "/metrics")[1].decode()
    lines = (line for line in text.splitlines() if line.startswith("apiserver_resource_objects{"))
    objects = sum(int(float(line.rpartition(" ")[2])) for line in lines)
    folder = target.kubeconfig.parent / "data" / "store"
    log = sum(file.stat().st_size for file in folder.iterdir())
    return Figures(resident(pid), log, objects, len(os.listdir(f"/proc/{pid}/fd")))


def slowdown(pid: int) -> float:
    """The time for which a process could run, to the time for which a processor ran it."""
    ran, waited, _ = map(int, Path(f"/proc/{pid}/schedstat").read_text().split())
    return (ran + waited) / ran


def late_answers(times: Times, slowed: float, unjudged: str) -> list[str]:
    """The slowest of the late answers; if something speaks against judging them, that is shown instead."""
    lines = [f"{what} took {seconds:.2f} s" for seconds, what in sorted(times.late, reverse=True)[:MOST_LATE]]
    if not lines or (not unjudged and slowed < BUSY):
        return lines
    why = f"the machine is busy, and slows the server {slowed:.1f} times" if slowed >= BUSY else unjudged
    print(f"no verdict on {len(times.late)} late answers: {why}")
    print("\n".join(lines))
    return []


def grown(found: Sequence[Figures]) -> list[str]:
    """The figures whose largest value of the second half is larger than that of the first; none of less than two."""
    middle, lines = len(found) // 2, []
    for name in Figures._fields if middle else ():
        before, now = (max(getattr(each, name) for each in half) for half in (found[:middle], found[middle:]))
        if now > before * SLACK:
            lines.append(f"{name} grew from {before:,} to {now:,}")
    return lines


HEADING = (
    f"{'after':>8} {'memory':>8} {'log':>9} {'objects':>8} {'files':>6} {'answers':>9} {'slowest':>8} {'attacks':>8}"
)


def show(minutes: float, now: Figures, times: Times, attacks: int) -> None:
    """A line of the table."""
    slowest = max(times.slowest.values(), default=0.0)
    print(
        f"{minutes:>6.1f} m {now.resident / 1e6:>5.0f} MB {now.log / 1e6:>6.1f} MB {now.objects:>8,} {now.files:>6}"
        f" {times.answers.total():>9,} {slowest:>6.2f} s {attacks:>8}",
        flush=True,
    )


def start(clients: Sequence[Callable[[], None]], wrong: list[str]) -> None:
    """Start a thread for each client; what goes wrong in one is noted."""

    def kept(client: Callable[[], None]) -> None:
        try:
            client()
        except Exception as error:
            wrong.append(f"a client failed: {type(error).__name__}: {error}"[:500])

    for each in clients:
        threading.Thread(target=kept, args=(each,), daemon=True).start()


def play(kubeconfig: Path, pid: int, options: argparse.Namespace) -> list[str]:
    """Run all clients for a time, or until something goes wrong; returns what did."""
    context = multiprocessing.get_context("spawn")
    stop, told = context.Event(), context.Queue()
    attacker = context.Process(target=attack, args=(kubeconfig, stop, options.pause, told), daemon=True)
    target, times, wrong = Target(kubeconfig), Times(), list[str]()
    clients = [
        partial(submit, target, times, stop, 3600 * SIZE / options.pods / options.speed),
        partial(ask_like_kubectl, target, times, stop),
        partial(use_the_python_client, target, times, stop),
        *[partial(watch_slowly, target, stop)] * SLOW_WATCHERS,
    ]
    start(clients, wrong)
    attacker.start()
    begin, found, attacks, passed, shown = time.monotonic(), list[Figures](), Attacks(told, times), 0.0, 0
    print(HEADING)
    while passed < options.hours * 3600 and not wrong:
        time.sleep(min(options.every, (options.hours * 3600 - passed) / options.speed))
        while attacks.failed:
            failed = attacks.failed.pop()
            if options.speed > 1:  # the server's limits of time end sooner by the attack's clock
                print(f"not judged at this speed: {failed}", flush=True)
            else:
                wrong.append(failed)
        passed = (time.monotonic() - begin) * options.speed
        now = figures(target, pid)
        if passed > EVENTS_LIVE or options.hours <= SHORT:
            found.append(now)
        show(passed / 60, now, times, attacks.ended)
        for seconds, what in times.late[shown:]:
            print(f"{'late:':>10} {what} took {seconds:.2f} s", flush=True)
        shown = len(times.late)
    stop.set()
    attacker.join(120)
    for client, slowest in sorted(times.slowest.items()):
        print(f"{client}: {times.answers[client]:,} answers, the slowest after {slowest:.2f} s")
    growth = grown(found)
    if options.hours <= SHORT:
        print(f"too short for a verdict on growth, as events live an hour: {', '.join(growth) or 'nothing grew'}")
        growth = []
    faster = f"the cluster's clock is {options.speed} times as fast" if options.speed > 1 else ""
    unjudged = "the run is too short" if options.smoke else faster
    return [*wrong, *late_answers(times, slowdown(pid), unjudged), *growth]


def clock(speed: int) -> dict[str, str]:
    """The environment of a process whose clock runs so many times as fast, from yesterday on.

    So its certificates are valid by the clock of its clients, too.

    Raises:
        SystemExit: the library is not installed.
    """
    if speed == 1:
        return {}
    found = sorted(glob.glob(FASTER))
    if not found:
        raise SystemExit(f"--speed {speed} needs {FASTER}: install the package `faketime`, or use --speed 1")
    return {"LD_PRELOAD": found[0], "FAKETIME": f"-1d x{speed}"}


def main() -> int:
    """Play, and say whether all is well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="half a minute")
    parser.add_argument("--hours", type=float, default=0.25)
    parser.add_argument("--pods", type=int, default=20_000, help="an hour")
    parser.add_argument("--pause", type=float, default=20.0, help="seconds between two attacks")
    parser.add_argument("--every", type=float, default=60.0, help="seconds between two lines")
    parser.add_argument("--speed", type=int, default=1, help="of the cluster's clock")
    options = parser.parse_args()
    if options.smoke:
        options.hours, options.pause, options.every = 1 / 120, 1.0, 10.0
    gc.freeze()  # collections of the official client's many classes would delay the answers that are timed here
    with running(NODES, **clock(options.speed)) as (kubeconfig, pid):
        wrong = play(kubeconfig, pid, options)
    print("\n".join(wrong) or "no fault was found")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
