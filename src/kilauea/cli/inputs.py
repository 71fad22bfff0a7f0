"""Inputs of the commands that read a cluster: their options, and the functions that load them."""

from __future__ import annotations

import gc
import os
import re
import sys
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from kilauea.api.printing import printable
from kilauea.api.wellknown import ALL_SCHEDULERS
from kilauea.cli.color import echo

if TYPE_CHECKING:
    from kilauea.engine.conf import SchedulerConf
    from kilauea.engine.model.shards import Sharding
    from kilauea.engine.plan import Plan
    from kilauea.runtime.inputs.objects import Cluster
    from kilauea.runtime.inputs.snapshot import Snapshot
    from kilauea.simulator.extensions import Extensions
    from kilauea.simulator.planning import Result

OUTPUTS = ("table", "wide", "json", "yaml")

objects_option = click.option(
    "-f",
    "--filename",
    "paths",
    multiple=True,
    metavar="PATH",
    help="File or folder with objects (YAML or JSON, gzipped or not); - is standard input. Repeatable.",
)
kubeconfig_option = click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Live cluster to which the objects of -f are added. [default: KUBECONFIG, unless -f contains nodes; "
    "without -f also ~/.kube/config]",
)
conf_option = click.option(
    "--scheduler-conf",
    metavar="FILE",
    help="Scheduler configuration. [default: that of the live cluster, else the built-in one]",
)
plugins_option = click.option(
    "--plugins-dir",
    "folders",
    multiple=True,
    metavar="DIR",
    help="Folder with your own plugins and actions, one per file. Repeatable.",
)
now_option = click.option(
    "--now",
    "at",
    metavar="TIME",
    help="Time of the session, RFC 3339. [default: the newest in the files; now for a live cluster]",
)
output_option = click.option(
    "-o", "--output", type=click.Choice(OUTPUTS), default="table", show_default=True, help="Output format."
)


class Inputs(NamedTuple):
    """Inputs of a command that reads a cluster."""

    cluster: Cluster
    conf: SchedulerConf
    extensions: Extensions
    now: int
    """Microseconds since 1970."""
    built_in: bool
    """True if the configuration is the built-in one."""

    def plan(
        self,
        seed: int | None = None,
        cycles: int = 1,
        schedulers: Sequence[str] = ALL_SCHEDULERS,
        sharding: Sharding | None = None,
    ) -> Result:
        """Return the plan of the last cycle; objects that the state rejects are added to the warnings."""
        from kilauea.library import simulate

        result = simulate(
            self.cluster,
            self.conf,
            cycles=cycles,
            until_rest=False,
            now=self.now,
            seed=seed,
            schedulers=schedulers,
            extensions=self.extensions,
            sharding=sharding,
        )
        self.cluster.warnings.extend(result.problems)
        return result


def read_inputs(
    paths: Sequence[str],
    kubeconfig: Path | None,
    scheduler_conf: str | None,
    folders: Sequence[str],
    at: str | None,
) -> Inputs:
    """Read the inputs given by the options of a command.

    Raises:
        Usage: an input is invalid.
        Failure: the cluster cannot be read.
    """
    from kilauea.api.times import parse_time
    from kilauea.controllers.configuration import NAME
    from kilauea.engine.conf import ConfError
    from kilauea.runtime.inputs.conf_file import conf_file, conf_in, read_conf
    from kilauea.runtime.inputs.extensions import ExtensionError, load_extensions
    from kilauea.runtime.inputs.files import SourceError
    from kilauea.runtime.inputs.objects import read_cluster

    try:
        now = parse_time(at) if at else None
    except ValueError as error:
        raise Usage(f"--now: {error}") from error
    live = _live(kubeconfig) if kubeconfig or not paths or _meant_for_a_cluster(paths) else None
    in_cluster = live.configuration if live and scheduler_conf is None else ""
    submission = 0  # after everything else in the files
    if live:
        now = submission = now or time.time_ns() // 1000
    try:
        # The built-in configuration does not name installed plugins.
        extensions = load_extensions(folders, installed=scheduler_conf is not None or bool(in_cluster))
        if in_cluster:
            conf = conf_in(conf_file(NAME, in_cluster.encode()), extensions)
        else:
            conf = read_conf(scheduler_conf, extensions)
    except ConfError as error:
        lines = [f"  {finding}" for finding in error.findings if finding.error]
        more = f"Run `kilauea config check {scheduler_conf}` for details."
        if in_cluster:
            more = "Fix it with `kubectl edit`, or give another one with --scheduler-conf."
        name = NAME if in_cluster else scheduler_conf
        raise Usage("\n".join([f"{name}: this configuration cannot be used:", *lines, more])) from error
    except (ExtensionError, SourceError) as error:
        raise Usage(str(error)) from error
    if live and scheduler_conf is not None:
        _read_device_config(live, conf, kubeconfig)
    try:
        # The objects stay until the command ends, so garbage collection would only take time.
        gc.disable()
        cluster = read_cluster(paths, _progress(sys.stderr.isatty()), live, submission)
        gc.freeze()
        gc.enable()
    except SourceError as error:
        raise Usage(str(error)) from error
    if live:
        _read_loads(cluster, conf, kubeconfig)
    built_in = scheduler_conf is None and not in_cluster
    return Inputs(cluster, conf, extensions, cluster.newest if now is None else now, built_in)


def _read_device_config(live: Snapshot, conf: SchedulerConf, kubeconfig: Path | None) -> None:
    """Add the ConfigMap of shared devices from the user's configuration, if it was not read with the cluster."""
    from kilauea.client.finding import find_access
    from kilauea.runtime.inputs.device_configs import config_now, named_by

    key = named_by(conf)
    if key is None or any(obj.kind == "ConfigMap" and obj.key == str(key) for obj in live.objects):
        return
    found = config_now(key, find_access(kubeconfig, os.environ))
    if found is not None:
        live.objects.append(found)


def _read_loads(cluster: Cluster, conf: SchedulerConf, kubeconfig: Path | None) -> None:
    """Read the loads of a live cluster as its scheduler would; adds a warning if there are none."""
    if not conf.metrics.type:
        return
    from kilauea.client.finding import find_access
    from kilauea.runtime.scheduler.loads.once import loads_now
    from kilauea.runtime.scheduler.loads.reader import USERS
    from kilauea.runtime.scheduler.loads.source import LoadsUnavailable

    if not USERS & conf.plugins:
        return
    nodes = [obj.name for obj in cluster.objects if obj.kind == "Node"]
    try:
        cluster.loads = loads_now(conf, find_access(kubeconfig, os.environ), nodes)
    except LoadsUnavailable as error:
        cluster.warnings.append(f"the loads of nodes cannot be read: {error}; those of metrics-server are used, if any")


def _meant_for_a_cluster(paths: Sequence[str]) -> bool:
    """True if files extend the cluster of KUBECONFIG: they contain no nodes.

    Raises:
        Usage: a file cannot be read.
    """
    from kilauea.runtime.inputs.files import SourceError, describe_nodes

    named = os.environ.get("KUBECONFIG")
    try:
        added = bool(named) and not describe_nodes(paths)
    except SourceError as error:
        raise Usage(str(error)) from error
    if added:
        click.echo(
            f"no nodes in the files: adding them to the cluster of KUBECONFIG ({printable(named or '')})", err=True
        )
    return added


def _live(kubeconfig: Path | None) -> Snapshot:
    """A snapshot of the selected cluster.

    Raises:
        Usage: no cluster is selected.
        Failure: the cluster does not answer.
    """
    from kilauea.api.ports import ApiError
    from kilauea.cli.api_errors import unread_cluster
    from kilauea.client.access import AccessError
    from kilauea.runtime.inputs.snapshot import snapshot

    try:
        return snapshot(kubeconfig, os.environ)
    except AccessError as error:
        raise Usage(f"{error}; or give files with -f") from error
    except ApiError as error:
        raise Failure(unread_cluster(error)) from error


def warn(inputs: Inputs, plan: Plan, folders: Sequence[str], about: Collection[str] | None = None) -> None:
    """Write warnings about the inputs to standard error.

    Args:
        inputs: the loaded inputs.
        plan: the plan for them.
        folders: folders of the user's plugins.
        about: names of objects to warn about; None for all.
    """
    found = [*map(str, inputs.conf.findings), *inputs.extensions.warnings]
    if folders and inputs.built_in:
        found.insert(
            0,
            "--plugins-dir has no effect without --scheduler-conf: the built-in configuration does not use it",
        )
    if not any(obj.kind == "Node" for obj in inputs.cluster.objects):
        found.append("the files contain no nodes: add them with -f, or name a cluster with --kubeconfig or KUBECONFIG")
    of_objects = [*inputs.cluster.warnings, *map(str, plan.findings)]
    if about is not None:
        named = re.compile("|".join(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])" for name in sorted(about)))
        of_objects = [warning for warning in of_objects if named.search(warning)]
    for warning in (*found, *of_objects):
        echo(f"warning: {printable(warning)}\n", err=True)


class Failure(click.ClickException):
    """A failed command: exit code 1."""

    def format_message(self) -> str:
        """The message in characters that are safe for a terminal."""
        return "\n".join(map(printable, self.message.split("\n")))


class Usage(Failure):
    """Invalid usage or configuration: exit code 2."""

    exit_code = 2


def _progress(shown: bool) -> Callable[[str], None]:
    """Return a function that shows progress on standard error: the name of each source as it is read."""

    def note(source: str) -> None:
        if shown:
            click.echo(f"reading {printable(source)}", err=True)

    return note
