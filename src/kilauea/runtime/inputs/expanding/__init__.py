"""Expands workloads into the groups and pods that a cluster would create for them.

It uses the same functions as the cluster, so that a plan is about the same pods. `jobs.py` handles Volcano's jobs,
`workloads.py` those of Kubernetes; `objects.py` shows the other objects to both, and `unknown.py` finds fields that
no kind has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kilauea.api.kinds import VC_JOBS
from kilauea.api.meta import Object
from kilauea.api.ports import Obj
from kilauea.runtime.inputs.expanding.creation import Creation
from kilauea.runtime.inputs.expanding.jobs import MAKES_NO_PODS, expand_job, phase_of
from kilauea.runtime.inputs.expanding.objects import Known, stored
from kilauea.runtime.inputs.expanding.refusing import Refused
from kilauea.runtime.inputs.expanding.unknown import fields_unknown_to_server
from kilauea.runtime.inputs.expanding.workloads import expand_workload
from kilauea.simulator.scenario import NotCreated


@dataclass
class Expansion:
    """The groups and pods of workloads.

    Attributes:
        objects: new pod groups and pods.
        groups: pod group of each Volcano job (`namespace/name`).
        phases: phase of each Volcano job that has ended or is suspended.
        warnings: messages about workloads that are left out, and about fields that they do not have.
        refused: the reason why a workload (`namespace/name`) is left out.
        not_created: pods that are not created, with the reason, by pod group (`namespace/name`).
    """

    objects: list[Object] = field(default_factory=list)
    groups: dict[str, str] = field(default_factory=dict)
    phases: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    not_created: dict[str, NotCreated] = field(default_factory=dict)


def expand(workloads: Sequence[Obj], objects: Sequence[Object], now: int) -> Expansion:
    """Groups and pods of workloads that they do not have yet.

    Args:
        workloads: manifests or stored objects; stored Kubernetes workloads already have their pods.
        objects: the other objects.
        now: creation time of workloads that do not state one, in microseconds since 1970; 0 to leave it unset.
    """
    out = Expansion()
    known, creation = Known(objects), Creation(objects)
    for written in workloads:
        workload = stored(written, now)
        metadata = workload["metadata"]
        name = f"{metadata['namespace']}/{metadata['name']}"
        out.warnings += [f"{workload['kind']} {name}: {words}" for words in fields_unknown_to_server(written)]
        try:
            if written.get("apiVersion") != VC_JOBS.api_version:
                group, made, missing = expand_workload(workload, known, creation)
            else:
                group, made, missing = expand_job(workload, known, creation)
                out.groups[name] = group
                if (phase := phase_of(workload)) in MAKES_NO_PODS:
                    out.phases[name] = phase
        except Refused as refused:
            out.refused[name] = str(refused)
            out.warnings.append(f"{workload['kind']} {name}: {refused}; left out")
        else:
            if missing is not None:
                out.not_created[group or name] = missing
            out.objects += [obj for obj in made if not known.has(obj)]
    return out
