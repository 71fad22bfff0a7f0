"""`kilauea sinfo`: queues and the states of nodes, in the format of Slurm's command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from kilauea.api.ports import Api, Obj
    from kilauea.cli.vcctl.cluster import Cluster

ORDER = ("down", "drain", "drng", "alloc", "mix", "idle")
"""States of nodes, in the order of the table."""


@click.command(short_help="Show queues and the states of nodes.")
@click.option("-p", "--partition", "queues", multiple=True, metavar="QUEUE[,QUEUE]", help="Only these queues.")
@click.option("-h", "--noheader", is_flag=True, help="Do not print the headings.")
@click.option("--json", "as_json", is_flag=True, help="Print the rows as JSON.")
@click.option("-k", "--kubeconfig", default="", metavar="FILE", help="Access to the cluster.")
@click.help_option("--help")
def sinfo(queues: tuple[str, ...], noheader: bool, as_json: bool, kubeconfig: str) -> None:
    """Show the queues (partitions), and the number of nodes in each state.

    All queues share all nodes, unless they are bound to groups of nodes, which is not shown; `kilauea queues` shows
    what each queue may use. A node without pods is idle, one whose cpus are all requested is alloc, and between the two
    it is mix. It is drain if it is cordoned (drng while pods run), and down if it is not ready.
    """
    from kilauea.cli.jobs import reading

    async def show(api: Api, cluster: Cluster) -> None:
        wanted = reading.words_of(queues)
        rows = [row for row in await _rows(api) if not wanted or row["partition"].rstrip("*") in wanted]
        _print(rows, noheader=noheader, as_json=as_json)

    reading.with_cluster(kubeconfig, "kilauea-sinfo", show)


def _print(rows: list[dict[str, str]], *, noheader: bool, as_json: bool) -> None:
    from kilauea.api.printing import printable
    from kilauea.cli.data_text import json_text

    if as_json:
        click.echo(json_text({"partitions": rows}))
        return
    titles = ["PARTITION", "AVAIL", "TIMELIMIT", "NODES", "STATE", "NODELIST"]
    cells = [] if noheader else [titles]
    cells += [[printable(row[title.lower()]) for title in titles] for row in rows]
    widths = [max((len(row[at]) for row in cells), default=0) for at in range(len(titles))]
    for row in cells:
        click.echo(" ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


async def _rows(api: Api) -> list[dict[str, str]]:
    """A row for each queue and state of nodes."""
    from kilauea.api.kinds import NODES, PODS, QUEUES
    from kilauea.cli.jobs.host_lists import host_list
    from kilauea.cli.vcctl.cluster import objects

    nodes, pods = await objects(api, NODES), await objects(api, PODS)
    found = [queue for queue in await objects(api, QUEUES) if queue["metadata"]["name"] != "root"]
    by_state: dict[str, list[str]] = {}
    requested = _requested(pods)
    for node in nodes:
        name = node["metadata"]["name"]
        by_state.setdefault(state_of(node, requested.get(name)), []).append(name)
    rows = []
    for queue in found:
        name = queue["metadata"]["name"]
        row = {"partition": f"{name}*" if name == "default" else name, "avail": _available(queue)}
        row["timelimit"] = "infinite"
        states = [state for state in ORDER if state in by_state] or ["n/a"]
        for state in states:
            members = by_state.get(state, [])
            rows.append({**row, "nodes": str(len(members)), "state": state, "nodelist": host_list(members)})
    return rows


def _available(queue: Obj) -> str:
    state = (queue.get("status") or {}).get("state") or "Open"
    return "up" if state == "Open" else "drain" if state == "Closing" else "inact"


def _requested(pods: list[Obj]) -> dict[str, int]:
    """CPUs that pods on each node request, in thousandths; without pods that have ended."""
    from kilauea.cli.jobs.records import pod_cpus
    from kilauea.cli.vcctl.tables import part

    found: dict[str, int] = {}
    for pod in pods:
        name = part(pod, "spec", "nodeName")
        if name and part(pod, "status", "phase") not in ("Succeeded", "Failed"):
            found[name] = found.get(name, 0) + pod_cpus(pod["spec"])
    return found


def state_of(node: Obj, requested: int | None) -> str:
    """The state of a node in Slurm's words.

    Args:
        node: the node.
        requested: CPUs that its pods request, in thousandths; None if it has none.
    """
    from kilauea.api.quantity import QuantityError, parse_milli
    from kilauea.cli.vcctl.tables import part

    conditions = part(node, "status", "conditions") or ()
    if not any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions):
        return "down"
    if part(node, "spec", "unschedulable"):
        return "drain" if requested is None else "drng"
    if requested is None:
        return "idle"
    try:
        room = parse_milli(str(part(node, "status", "allocatable", "cpu") or 0))
    except QuantityError:
        return "mix"
    return "alloc" if requested >= room else "mix"
