"""Deserved amounts of queues in a cluster with an external scheduler: computed periodically from its objects.

The objects contain the deserved amounts of a queue only if its owner has set them. Otherwise the scheduler's plugins
compute them from weights, requests and the configuration, in a cycle without decisions. The interval depends on the
duration, so that this uses a small part of a processor. Nothing is computed while no page is open.
"""

from __future__ import annotations

import time
from typing import Any

import msgspec

from kilauea.api.ports import Clock
from kilauea.api.quantity import QuantityError, resource_amounts
from kilauea.dashboard.pages import Cluster
from kilauea.dashboard.picture import Figures, QueueFigures
from kilauea.dashboard.plan_outcome import shown_messages
from kilauea.runtime.dashboard.commands import Commands
from kilauea.runtime.dashboard.watching import Watching

SHORTEST_PAUSE = 30.0
"""Seconds between two computations."""
SHARE = 0.03
"""Maximum fraction of the time that it runs."""
LOOK_SECONDS = 1.0


async def follow_deserved(cluster: Cluster, commands: Commands, watching: Watching, clock: Clock) -> None:
    """Update the figures of queues while pages are open, until cancelled."""
    seen = -1
    while True:
        await watching.looked_at()
        if not cluster.picture.complete or cluster.picture.version == seen:
            await clock.sleep(LOOK_SECONDS)
            continue
        seen, started = cluster.picture.version, time.monotonic()
        done = await commands.run("queues", "-o", "json")
        if done.code or done.fault:
            why = done.fault or "; ".join(shown_messages(done.errors)) or "the command failed"
            cluster.problems = [f"The deserved resources of queues are unknown: {why}"]
        else:
            cluster.figures, cluster.figures_at, cluster.problems = figures_in(done.output), clock.now(), ()
        await clock.sleep(max(SHORTEST_PAUSE, (time.monotonic() - started) / SHARE))


def figures_in(output: bytes) -> Figures:
    """Parse the figures that `kilauea queues -o json` prints; a queue with an invalid amount has none."""
    found: dict[str, Any] = msgspec.json.decode(output)
    figures = {}
    for name, queue in found["queues"].items():
        deserved = queue.get("deserved")
        try:
            figures[name] = QueueFigures(resource_amounts(deserved) if deserved else None)
        except QuantityError:
            continue
    return figures
