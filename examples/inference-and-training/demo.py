"""Runs the example: seven nights in which training borrows the cards of services, and gives them back in the morning.

    python examples/inference-and-training/demo.py
    python examples/inference-and-training/demo.py --annotated      (by annotations of workloads, not by their owners)

A night takes a few seconds. The script waits for each row of the table; the reasons below it are events and conditions
of the cluster. If the cards are not where the scenario expects them, it ends with exit code 1. `examples/stage.py`
starts the cluster.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kilauea.api.kinds import DEPLOYMENTS, EVENTS, POD_GROUPS, PODS, VC_JOBS
from kilauea.api.ports import Key
from kilauea.runtime.cluster.manifests import Manifest, apply_manifests, read_manifests

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from stage import Stage, Table, cluster, say, typed  # noqa: E402 - found beside the folder of this story

KINDS = {(each.api_version, each.kind): each for each in (DEPLOYMENTS, VC_JOBS)}
CARDS = "nvidia.com/gpu"
ALL_CARDS = 24
NIGHTS = 7
SERVICES, GANGS = ("search", "chat"), ("language", "vision")
SERVICE_TYPE = "volcano.sh/service.type"
TYPES = {"Deployment": "inference", "Job": "training"}
LONGEST = 60.0
"""Timeout in seconds for the cards to come to where an act needs them."""
COLUMNS = (("NIGHT", 7), ("WHEN", 10), *((name.upper(), 10) for name in (*SERVICES, *GANGS)), ("FREE", 6))

Event = dict[str, Any]


class Night:
    """The table of a story, and what the cluster tells below its rows."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.table = Table(*COLUMNS)
        self.told: dict[str, Event] = {}
        """Events by name, those that were shown before."""

    async def cards(self) -> Counter[str]:
        """The cards that each workload holds: those of its pods that have a node."""
        held: Counter[str] = Counter()
        for pod in await self.stage.objects(PODS):
            if pod["spec"].get("nodeName") and pod["status"].get("phase") in ("Pending", "Running"):
                limits = pod["spec"]["containers"][0]["resources"]["limits"]
                held[workload(pod)] += int(limits[CARDS])
        return held

    async def waiting(self) -> dict[str, str]:
        """The gangs that wait with their pods, and the reason that their pod groups have."""
        found = {}
        for group in await self.stage.objects(POD_GROUPS):
            owner = group["metadata"]["ownerReferences"][0]
            for condition in group.get("status", {}).get("conditions", ()):
                if owner["kind"] == "Job" and (condition["type"], condition["status"]) == ("Unschedulable", "True"):
                    found[owner["name"]] = condition["message"]
        return found

    async def states(self) -> dict[str, dict[str, str]]:
        """The phase of each job, with reason and message."""
        jobs = await self.stage.objects(VC_JOBS)
        return {job["metadata"]["name"]: job.get("status", {}).get("state", {}) for job in jobs}

    async def news(self, *reasons: str) -> list[Event]:
        """The events with these reasons that were not there before, by reason and name."""
        found = [each for each in await self.stage.objects(EVENTS) if each["reason"] in reasons]
        new = [each for each in found if self.told.get(each["metadata"]["name"]) != each]
        self.told |= {each["metadata"]["name"]: each for each in new}
        return sorted(new, key=lambda each: (each["reason"], each["involvedObject"]["name"]))

    async def until(self, night: int, when: str, wanted: Mapping[str, int]) -> None:
        """Wait until the workloads hold these cards and the gangs without cards wait, and show the row.

        Raises:
            SystemExit: they do not.
        """
        end = self.table.seconds + LONGEST
        expected = {name: "Running" if wanted.get(name) else "Pending" for name in GANGS}
        idle = {name for name in GANGS if name not in wanted}
        while True:
            held, states = await self.cards(), await self.states()
            phases = {name: state.get("phase", "") for name, state in states.items()}
            if held == wanted and phases == expected and set(await self.waiting()) == idle:
                break
            for name, state in states.items():
                if phases[name] == "Failed":
                    raise SystemExit(f"demo: night {night}, {when}: job {name} is Failed: {state['message']}")
            if self.table.seconds > end:
                raise SystemExit(
                    f"demo: night {night}, {when}: timed out waiting for {dict(wanted)}; workloads hold {dict(held)}"
                )
            await asyncio.sleep(0.1)
        row = (night, when, *(held[name] for name in (*SERVICES, *GANGS)), ALL_CARDS - held.total())
        self.table.show([row])


def workload(pod: Mapping[str, Any]) -> str:
    """The Deployment or the job that a pod is of."""
    labels = pod["metadata"].get("labels", {})
    return str(labels.get("app") or labels.get("volcano.sh/job-name"))


def whose(event: Event) -> str:
    """The gang that an event is about: the job, or that of its pod."""
    return str(event["involvedObject"]["name"]).partition("-worker")[0]


def manifests(file: str, *, annotated: bool) -> list[Manifest]:
    """The workloads of a file; annotated, each says whether it serves or trains."""
    found = read_manifests([str(HERE / file)])
    for manifest in found if annotated else ():
        manifest.body["metadata"]["annotations"][SERVICE_TYPE] = TYPES[manifest.body["kind"]]
    return found


async def scale(night: Night, replicas: int) -> None:
    """Scale the service that is not needed at night."""
    await night.stage.client.patch(DEPLOYMENTS, Key("default", "chat"), {"spec": {"replicas": replicas}})


async def tell(night: Night) -> None:
    """Print what the cluster says of the gang that has just lost its cards; it must say all of it.

    Raises:
        SystemExit: the cluster does not report who took the cards, what happened to the job, or why it waits.
    """
    news: list[Event] = []
    end = night.table.seconds + LONGEST
    while len(news) < 3 and night.table.seconds < end:
        news += await night.news("Preempted", "Restarting")
        await asyncio.sleep(0.1)
    gangs = {whose(each) for each in news}
    if len(gangs) != 1 or Counter(each["reason"] for each in news) != {"Preempted": 2, "Restarting": 1}:
        raise SystemExit(f"demo: expected one whole gang to be evicted and to restart once, got {news}")
    for event in news:
        about = event["involvedObject"]
        print(f"        {about['kind'].lower()} {about['name']}: {event['message']}")
    (gang,) = gangs
    print(f"        {gang} waits: {short((await night.waiting())[gang])}", flush=True)


def short(why: str) -> str:
    """The last sentence of a reason, which says what is missing; those before it say that the gang waits whole."""
    return why.rpartition("Origin reason is ")[2]


async def one_night(night: Night, number: int) -> None:
    """Training has what the services do not need; in the morning they take it back, one replica after the other."""
    await night.until(number, "night", {"search": 8, "language": 8, "vision": 8})
    await scale(night, 1)
    await night.until(number, "morning", {"search": 8, "chat": 8, "language": 8})
    await tell(night)
    await scale(night, 2)
    await night.until(number, "day", {"search": 8, "chat": 16})
    await tell(night)
    if number == 1:
        say("Why is vision waiting?")
        await typed(night.stage, "kilauea explain job vision", "acme-chat")
        say("In the evening, chat is scaled down, and the next night begins.")
        night.table.heading()
    await scale(night, 0)


async def the_end(night: Night) -> None:
    """Nothing was lost on the way.

    Raises:
        SystemExit: a job did not restart once a night.
    """
    await night.until(NIGHTS + 1, "night", {"search": 8, "language": 8, "vision": 8})
    restarts = {job["metadata"]["name"]: job["status"]["retryCount"] for job in await night.stage.objects(VC_JOBS)}
    if restarts != dict.fromkeys(GANGS, NIGHTS):
        raise SystemExit(f"demo: expected each gang to restart once a night, got {restarts}")
    pods = {each["involvedObject"]["name"] for each in night.told.values() if each["reason"] == "Preempted"}
    say(f"{NIGHTS} nights in {night.table.seconds:.0f} seconds.")
    print(f"Both gangs were restarted {NIGHTS} times and are training again.")
    print(f"Evicted pods: {', '.join(sorted(pods))}. No pod of search was evicted.")


async def play(stage: Stage, *, annotated: bool) -> None:
    """Play the nights one after another."""
    night = Night(stage)
    say("The service search needs its cards day and night; chat does not need any yet. Training uses the rest.")
    for name in (*SERVICES, *GANGS):
        found = manifests(f"{name}.yaml", annotated=annotated)
        await apply_manifests(stage.client, found, lambda *kind: KINDS.get(kind), "demo")
    night.table.heading()
    for number in range(1, NIGHTS + 1):
        await one_night(night, number)
    await the_end(night)


async def main() -> None:
    """Start the cluster, play, and end it."""
    annotated = "--annotated" in sys.argv[1:]
    conf = "annotated.conf" if annotated else "scheduler.conf"
    place = f"examples/{HERE.name}"
    print(f"demo: kilauea up --nodes 0 -f {place}/cluster.yaml --scheduler-conf {place}/{conf}", flush=True)
    options = ("--nodes", "0", "-f", str(HERE / "cluster.yaml"), "--scheduler-conf", str(HERE / conf))
    async with cluster(*options) as stage:
        await play(stage, annotated=annotated)


if __name__ == "__main__":
    asyncio.run(main())
