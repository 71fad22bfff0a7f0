"""Runs the example: Volcano's jobs in a cluster on this machine, with the commands of users.

    python examples/jobs/demo.py

Each act types a command and waits until the jobs are in the expected state; if they do not reach it, the story ends
with exit code 1. `examples/stage.py` starts the cluster.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from kilauea.api.ports import Key, Resource

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from stage import Stage, Table, cluster, say, typed  # noqa: E402 - found beside the folder of this story

JOBS = Resource("batch.volcano.sh", "v1alpha1", "jobs", "Job")
PODS = Resource("", "v1", "pods", "Pod")
GROUPS = Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")
LONGEST = 60.0
"""Timeout in seconds for the jobs to reach the state that an act needs."""
COLUMNS = (("JOB", 17), ("QUEUE", 12), ("PHASE", 12), ("PODS", 6), ("RUNNING", 9), ("WAITING", 9), ("RESTARTS", 8))


class Job(NamedTuple):
    """A job in the cluster."""

    whole: dict[str, Any]

    @property
    def status(self) -> dict[str, Any]:
        """The phase; empty until the controller has seen the job."""
        status: dict[str, Any] = self.whole.get("status", {})
        return status

    @property
    def phase(self) -> str:
        """Its queue."""
        return str(self.status.get("state", {}).get("phase", ""))

    @property
    def restarts(self) -> int:
        """Number of restarts of all its pods after a failure."""
        return int(self.status.get("retryCount", 0))

    def since(self, phase: str) -> datetime:
        """The time of its last transition to a phase, which it must have reached."""
        for condition in reversed(self.status["conditions"]):
            if condition["status"] == phase:
                return datetime.fromisoformat(condition["lastTransitionTime"])
        raise SystemExit(f"demo: job {self.whole['metadata']['name']} was never {phase}")

    def row(self) -> tuple[object, ...]:
        """Its row in the table."""
        spec, status = self.whole["spec"], self.status
        pods = sum(task["replicas"] for task in spec["tasks"])
        counts = (status.get("running", 0), status.get("pending", 0), self.restarts)
        return (self.whole["metadata"]["name"], spec["queue"], self.phase, pods, *counts)


class Play:
    """The acts of the story: typed commands, and the reaction of the jobs."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.table = Table(*COLUMNS)

    async def jobs(self) -> dict[str, Job]:
        """All jobs by name, in the order of creation."""
        found = await self.stage.objects(JOBS)
        found.sort(key=lambda job: (job["metadata"]["creationTimestamp"], job["metadata"]["name"]))
        return {job["metadata"]["name"]: Job(job) for job in found}

    async def type(self, line: str, says: str, *, refused: bool = False, paragraphs: int = 99) -> None:
        """Type a command and show what it prints, or the first paragraphs of it; it must say something.

        Raises:
            SystemExit: it does not, or fails, or does not fail.
        """
        await typed(self.stage, line, says, refused=refused, paragraphs=paragraphs)

    async def until(self, what: str, true: Callable[[dict[str, Job]], bool]) -> None:
        """Show the jobs until something is true of them.

        Raises:
            SystemExit: it does not become true.
        """
        print()
        self.table.heading()
        end = self.table.seconds + LONGEST
        while True:
            jobs = await self.jobs()
            self.table.show(job.row() for job in jobs.values())
            if true(jobs):
                return
            if self.table.seconds > end:
                raise SystemExit(f"demo: timed out waiting for {what}")
            await asyncio.sleep(0.1)

    async def until_groups_run(self) -> None:
        """Wait until the scheduler has seen that all pods run: an admitted gang claims its room until then.

        Raises:
            SystemExit: that does not happen.
        """
        end = self.table.seconds + LONGEST
        while any(group["status"]["phase"] != "Running" for group in await self.stage.objects(GROUPS)):
            if self.table.seconds > end:
                raise SystemExit("demo: timed out waiting for the pod groups to run")
            await asyncio.sleep(0.1)


def in_phase(name: str, phase: str) -> Callable[[dict[str, Job]], bool]:
    """True if a job exists and is in a phase."""
    return lambda jobs: name in jobs and jobs[name].phase == phase


async def a_queue_is_full(play: Play) -> None:
    """A job starts, another one waits, and the output shows what would start it."""
    say("1. Research may use 24 of the 32 cpus. It starts to train, with a gang of 16 cpus.")
    await play.type("vcctl queue create -n research --capability cpu=24", "")
    await play.type("vcctl queue create -n production", "")
    await play.type("vcctl job run -f examples/jobs/train.yaml", "run job train successfully")
    await play.until("train to run", in_phase("train", "Running"))
    say("2. Its sweep needs 16 more. Half of the cluster is free, but the sweep waits. Why?")
    await play.type("vcctl job run -f examples/jobs/sweep.yaml", "run job sweep successfully")
    await play.until("sweep to wait", in_phase("sweep", "Pending"))
    change = "Smallest change that admits it: raise the capability of queue research by 8 cpu."
    await play.type("kilauea explain job sweep", change)
    say("   We make that change, and the sweep starts.")
    await play.type("vcctl queue operate -n research -a update --capability cpu=32", "")
    await play.until("sweep to run", in_phase("sweep", "Running"))


async def a_pod_fails(play: Play) -> None:
    """The policy of the job restarts all of its pods."""
    say("3. A worker of train fails (we make its simulated node fail it). The policy of the job restarts all pods.")
    told = {"kilauea.dev/run-time": "0s", "kilauea.dev/exit-code": "1"}
    await play.stage.client.patch(PODS, Key("default", "train-worker-1"), {"metadata": {"annotations": told}})
    again = "train to run again"
    await play.until(again, lambda jobs: jobs["train"].restarts == 1 and jobs["train"].phase == "Running")
    await play.until_groups_run()


async def a_plan_comes_first(play: Play) -> None:
    """Show the outcome of a job, and of a mistake, before it is submitted."""
    say("4. Production needs to run a report. What would happen to it, now that the cluster is full?")
    line = "kilauea plan --kubeconfig $KUBECONFIG -f examples/jobs/report.yaml"
    await play.type(line, "0 pods start, 4 wait.", paragraphs=2)
    say("   It would wait, so research suspends its sweep. (A mistyped queue name is rejected at once.)")
    await play.type("vcctl job run -N hasty --queue prodution", "unable to find job queue", refused=True)
    await play.type("vcctl job run -f examples/jobs/report.yaml", "run job report successfully")
    await play.type("vcctl job suspend -N sweep --wait", "job sweep is Aborted")
    await play.until("the report to complete", in_phase("report", "Completed"))


async def the_rest(play: Play) -> None:
    """The sweep resumes, and a flow runs one job after the other."""
    say("5. Research resumes the sweep. A nightly flow runs an extract job and then a load job.")
    await play.type("vcctl job resume -N sweep", "")
    await play.type("vcctl jobtemplate create -f examples/jobs/templates.yaml", "Created JobTemplate: default/load")
    await play.type("vcctl jobflow create -f examples/jobs/nightly.yaml", "Created JobFlow: default/nightly")
    names = {"train", "sweep", "report", "nightly-extract", "nightly-load"}
    await play.until(
        "all jobs to complete",
        lambda jobs: jobs.keys() == names and all(job.phase == "Completed" for job in jobs.values()),
    )


async def the_end(play: Play) -> None:
    """The history of the jobs, from their status."""
    jobs = await play.jobs()
    train, sweep, report = jobs["train"], jobs["sweep"], jobs["report"]
    order = (
        sweep.since("Aborted") <= report.since("Completed"),
        report.since("Completed") <= sweep.since("Running"),
        jobs["nightly-extract"].since("Completed") <= jobs["nightly-load"].since("Pending"),
    )
    if train.restarts != 1 or not all(order):
        raise SystemExit("demo: the jobs did not run in the expected order")
    say(f"All five jobs completed after {play.table.seconds:.0f} seconds.")
    print("train was restarted once, after a worker failed.")
    print("sweep waited for its queue, made way for the report, and ran again.")
    print("nightly-load was created after nightly-extract completed.")


async def main() -> None:
    """Start the cluster, play, and end it."""
    print("demo: kilauea up --nodes 4 --node-cpu 8", flush=True)
    async with cluster("--nodes", "4", "--node-cpu", "8", "--node-memory", "32Gi") as stage:
        play = Play(stage)
        for act in (a_queue_is_full, a_pod_fails, a_plan_comes_first, the_rest, the_end):
            await act(play)


if __name__ == "__main__":
    asyncio.run(main())
