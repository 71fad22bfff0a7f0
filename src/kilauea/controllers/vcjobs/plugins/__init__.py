"""Plugins of jobs: those in `spec.plugins` of a job extend its pods and maintain objects for them."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from kilauea.api.job_plugins import ARGUMENTS, PluginFault
from kilauea.api.ports import Obj
from kilauea.controllers.objects import spec_of
from kilauea.controllers.vcjobs.plugins.base import JobPlugin
from kilauea.controllers.vcjobs.plugins.env import Env
from kilauea.controllers.vcjobs.plugins.hcclrank import Hcclrank
from kilauea.controllers.vcjobs.plugins.mpi import Mpi
from kilauea.controllers.vcjobs.plugins.pytorch import Pytorch
from kilauea.controllers.vcjobs.plugins.ray import Ray
from kilauea.controllers.vcjobs.plugins.ringsconfigmap import RingsConfigMap
from kilauea.controllers.vcjobs.plugins.ssh import Ssh
from kilauea.controllers.vcjobs.plugins.svc import Svc
from kilauea.controllers.vcjobs.plugins.tensorflow import Tensorflow

_CLASSES = {each.name: each for each in (Svc, Ssh, Env, Tensorflow, Mpi, Pytorch, Ray, Hcclrank, RingsConfigMap)}
PLUGINS = {name: _CLASSES[name] for name in ARGUMENTS}
"""All plugins, in the order in which they are called."""

__all__ = ["PLUGINS", "JobPlugin", "PluginFault", "active"]


def active(job: Obj) -> Sequence[JobPlugin]:
    """The plugins of a job, in the order in which they are called.

    Raises:
        PluginFault: a plugin does not exist, or its arguments or the job are invalid for it.
    """
    wanted = spec_of(job).get("plugins") or {}
    for name in sorted(wanted.keys() - PLUGINS.keys()):
        near = get_close_matches(name, PLUGINS, 1) or sorted(PLUGINS)
        raise PluginFault(name, f"failed to get plugin {name}: there is {', '.join(near)}")
    return [plugin(job, wanted[name] or ()) for name, plugin in PLUGINS.items() if name in wanted]
