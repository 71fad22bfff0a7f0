"""Explanations of jobs in a live cluster, as in `kilauea explain`, for other commands."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from kilauea.api.meta import Object
from kilauea.api.ports import ApiError
from kilauea.client.access import Access
from kilauea.controllers.configuration import NAME
from kilauea.engine.conf import ConfError
from kilauea.engine.cycle import default_conf
from kilauea.engine.explain.group import Explanation
from kilauea.runtime.inputs.conf_file import conf_file, conf_in
from kilauea.runtime.inputs.expecting import expected, is_foreseeable, read_past
from kilauea.runtime.inputs.extensions import ExtensionError, load_extensions
from kilauea.runtime.inputs.files import SourceError
from kilauea.runtime.inputs.objects import read_cluster
from kilauea.runtime.inputs.snapshot import Snapshot, take_snapshot
from kilauea.simulator.expected_start import ExpectedStart
from kilauea.simulator.extensions import BUILT_IN
from kilauea.simulator.planning import Result, plan_cycles


class Explainer:
    """Explains the groups of a snapshot of a cluster.

    Args:
        found: the snapshot.
        now: the time, in microseconds since 1970.

    Raises:
        ConfError: the configuration in the cluster is invalid.
        ExtensionError: a plugin of the user cannot be loaded.
        SourceError: the configuration is not YAML.
    """

    def __init__(self, found: Snapshot, now: int) -> None:
        text = found.configuration
        extensions = load_extensions((), installed=True) if text else BUILT_IN
        conf = conf_in(conf_file(NAME, text.encode()), extensions) if text else default_conf()
        self.cluster = read_cluster((), live=found, now=now)
        self.result: Result = plan_cycles(self.cluster.scenario(conf, now, extensions=extensions))

    def group(self, key: str) -> Explanation:
        """The explanation of a pod group (`namespace/name`)."""
        return self.result.explain(key)


class Why(NamedTuple):
    """The explanation of a job's group, or the reason why it has none, the objects of the cluster, and its start."""

    explanation: Explanation | None
    refused: str = ""
    objects: Sequence[Object] = ()
    start: ExpectedStart | None = None
    now: int = 0


async def why_job(access: Access, key: str) -> Why | None:
    """The reason why a Volcano job (`namespace/name`) waits; None if it is unknown.

    Args:
        access: address and credentials of the cluster.
        key: key of the job.
    """
    try:
        found = await take_snapshot(access)
        explainer = Explainer(found, time.time_ns() // 1000)
    except (ApiError, ConfError, ExtensionError, SourceError):
        return None
    cluster, state = explainer.cluster, explainer.result.state
    if key in cluster.refused:
        return Why(None, cluster.refused[key])
    group = cluster.groups_of_jobs.get(key)
    if group not in state.jobs or not any(obj.kind == "Node" for obj in cluster.objects):
        return None
    explanation, start = explainer.group(group), None
    if is_foreseeable(explanation):
        start = expected(explainer.result, cluster.workloads, group, await read_past(access))
    return Why(explanation, "", explainer.result.objects, start, explainer.result.now)
