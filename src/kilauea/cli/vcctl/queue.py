"""`vcctl queue`: create, change, open, close, delete and show queues and the queue tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kilauea.cli.vcctl import options
from kilauea.cli.vcctl.command import CommandError, Group, Leaf, note

if TYPE_CHECKING:
    from kilauea.cli.vcctl.cluster import Cluster
    from kilauea.cli.vcctl.queue_list import Entry

NAME_NEEDED = "queue name must be specified"
ROOT_STAYS = "queue root cannot be closed: close the queues below it"


# --- changes


async def create(cluster: Cluster, name: str, weight: int, state: str, **given: Any) -> None:
    """Create a queue."""
    from kilauea.api.kinds import QUEUES
    from kilauea.cli.vcctl.queue_changes import spec_of

    body = {
        "apiVersion": QUEUES.api_version,
        "kind": QUEUES.kind,
        "metadata": {"name": options.needed(name, NAME_NEEDED)},
        "spec": {"weight": weight, **spec_of(**given)},
        "status": {"state": state},
    }
    async with cluster.connect() as api:
        await api.create(QUEUES, "", body)
    note(f"queue {name} created")


async def operate(
    cluster: Cluster, name: str, action: str, weight: int, cascade: bool, wait: bool, timeout: int, **given: Any
) -> None:
    """Open, close, pause, resume or change a queue."""
    from kilauea.api.wellknown import ROOT_QUEUE
    from kilauea.cli.vcctl.queue_changes import change_state, pause, spec_of, update

    options.needed(name, NAME_NEEDED)
    options.needed(action, "action can not be null")
    patch: dict[str, Any] = {}
    if action == "update":
        patch = spec_of(**given) | ({"weight": weight} if weight else {})
        if not patch or weight < 0:
            raise CommandError(f"when update queue {name}, weight must be specified, the value must be greater than 0")
    elif action not in ("open", "close", "pause", "resume"):
        raise CommandError(f"action {action} invalid, valid actions are open, close and update")  # as in Volcano
    async with cluster.connect() as api:
        if action == "update":
            await update(api, name, patch)
            note(f"queue {name} updated")
        elif action in ("pause", "resume"):
            await pause(api, name, resume=action == "resume")
            note(f"queue {name} {action}d")
        else:
            await change_state(api, name, action, cascade, wait, timeout)
            if not wait:
                stays = name == ROOT_QUEUE and action == "close"
                note(ROOT_STAYS if stays else f"request to {action} queue {name} sent")


async def delete(
    cluster: Cluster, name: str, cascade: bool, dry_run: bool, force: bool, wait: bool, timeout: int
) -> None:
    """Delete a queue; with --cascade, all queues below it, too."""
    from kilauea.cli.vcctl.queue_deletion import delete_queue, delete_tree

    options.needed(name, NAME_NEEDED)
    async with cluster.connect() as api:
        if cascade or dry_run:
            await delete_tree(api, name, cascade=cascade, dry_run=dry_run, force=force, wait=wait, timeout=timeout)
        else:
            await delete_queue(api, name, wait, timeout)
            note(f"queue {name} deleted")


# --- lists


async def list_queues(cluster: Cluster, parent: str, output: str, no_headers: bool, watch: bool) -> None:
    """Print all queues, or the queues below one."""
    from kilauea.cli.vcctl.queue_list import read_queues
    from kilauea.cli.vcctl.queue_watch import watch_queues

    def taken(entry: Entry) -> bool:
        return not parent or entry.parent == parent

    async with cluster.connect() as api:
        if watch:
            await watch_queues(api, taken, output == "wide", not no_headers)
            return
        entries = await read_queues(api)
        if parent and parent not in {entry.name for entry in entries}:
            raise _unknown(parent)
    show(list(filter(taken, entries)), output, not no_headers)


async def get(cluster: Cluster, name: str, output: str, no_headers: bool) -> None:
    """Print one queue."""
    from kilauea.cli.vcctl.queue_list import read_queues

    options.needed(name, "name is mandatory to get the particular queue details")
    async with cluster.connect() as api:
        show(await read_queues(api, name), output, not no_headers)


async def children(cluster: Cluster, name: str, recursive: bool, output: str, no_headers: bool) -> None:
    """Print the queues below one."""
    from kilauea.cli.vcctl.queue_list import read_queues
    from kilauea.cli.vcctl.queue_tree import forest

    options.needed(name, NAME_NEEDED)
    async with cluster.connect() as api:
        entries = await read_queues(api)
    node = forest(entries).find(name)
    if node is None:
        raise _unknown(name)
    below = [(depth, each.entry) for depth, each in node.walk() if depth]
    found = [(depth, entry) for depth, entry in below if recursive or depth == 1]
    show([entry for _, entry in found], output, not no_headers, [depth for depth, _ in found] if recursive else None)


def show(entries: list[Entry], output: str, headers: bool, depths: list[int] | None = None) -> None:
    """Print queues."""
    from kilauea.api.kinds import QUEUES
    from kilauea.cli.vcctl.queue_list import COLUMNS, WIDE, queue_data, queue_row
    from kilauea.cli.vcctl.tables import data_text, fitting, print_objects, print_table

    if output == "name":
        print_objects(QUEUES, [entry.queue for entry in entries], output)
    elif output in ("json", "yaml"):
        click.echo(data_text({"queues": [queue_data(entry) for entry in entries]}, output))
    else:
        columns = WIDE if output == "wide" else COLUMNS
        rows = [queue_row(entry, columns) for entry in entries]
        if depths is None:
            print_table(columns, rows, headers)
        else:
            last = columns[-1]._replace(title_blanks=1)
            rows = [[*row, str(depth)] for row, depth in zip(rows, depths, strict=True)]
            print_table((*columns[:-1], last, fitting("Depth")), rows, headers)


async def tree(cluster: Cluster, name: str, depth: int, resources: bool, own: bool, ascii: bool, output: str) -> None:
    """Print queues as a tree."""
    from kilauea.cli.vcctl.queue_list import read_queues
    from kilauea.cli.vcctl.queue_tree import ASCII, LINES, add_up, cut, drawn, forest, nested
    from kilauea.cli.vcctl.tables import data_text

    async with cluster.connect() as api:
        trees = forest(await read_queues(api))
    node = trees.find(name)
    if node is None:
        raise _unknown(name)
    tops = {"": [node]}
    if node in trees.roots:
        tops |= {"orphaned": trees.orphaned, "cycle": trees.cycle}
    for top in (each for nodes in tops.values() for each in nodes):
        if not own:
            add_up(top)
        cut(top, depth)
    if output == "table":
        click.echo("\n".join(drawn(tops, ASCII if ascii else LINES, resources)))
    else:
        more = {word: [nested(each) for each in nodes] for word, nodes in tops.items() if word and nodes}
        click.echo(data_text({**nested(node), **more}, output))


def _unknown(name: str) -> CommandError:
    return CommandError(f'queues.scheduling.volcano.sh "{name}" not found')


# --- the group


def _spec_options() -> list[click.Parameter]:
    """Options for all fields of a queue except its weight."""
    amounts = "RESOURCE=AMOUNT[,...]"
    return [
        options.text("-p", "--parent", help="Parent queue.", metavar="NAME"),
        options.text("--capability", help="Capability: the most that the queue may hold.", metavar=amounts),
        options.text("--deserved", help="Deserved share: what the queue can reclaim.", metavar=amounts),
        options.text("--guarantee", help="Guarantee: resources reserved for the queue.", metavar=amounts),
        options.number("--priority", help="Priority; queues with a higher one come first."),
        options.text("--reclaimable", help="Other queues may reclaim from this queue: true or false.", metavar="BOOL"),
        options.text("--dequeue-strategy", help="Dequeue strategy: fifo or traverse.", metavar="WORD"),
    ]


def queue_group() -> Group:
    """The commands."""
    name = "-n"
    return Group(
        "queue",
        "Queue Operations",
        [
            Leaf(
                "create",
                create,
                "creates queue",
                [
                    options.text(name, "--name", default="test", help="Name of the queue.", metavar="NAME"),
                    options.number("-w", "--weight", default=1, help="Weight, relative to the other queues."),
                    options.text("-S", "--state", default="Open", help="No effect: new queues are open."),
                    *_spec_options(),
                ],
            ),
            Leaf(
                "delete",
                delete,
                "delete queue",
                [
                    options.name(name),
                    options.flag("--cascade", help="Delete the queues below it as well, leaves first: all or none."),
                    options.flag("--force", help="With --cascade: delete queues even if their pods hold resources."),
                    options.flag("--dry-run", help="Print the queues that would be deleted, in order."),
                    *options.waiting("it is gone"),
                ],
            ),
            Leaf(
                "operate",
                operate,
                "operate queue",
                [
                    options.name(name),
                    options.text("-a", "--action", help="open, close, pause, resume or update.", metavar="WORD"),
                    options.number("-w", "--weight", default=0, help="For update: the new weight."),
                    options.flag("--cascade", help="For open: also open the queues that were closed with it."),
                    *_spec_options(),
                    *options.waiting("it is open, or it and all queues below it are closed, leaves first"),
                ],
            ),
            Leaf(
                "list",
                list_queues,
                "lists all the queue",
                [
                    options.text("-p", "--parent", help="Only queues below this one.", metavar="NAME"),
                    *options.listing(),
                ],
            ),
            Leaf("get", get, "get a queue", [options.name(name), *options.listing()[:2]]),
            Leaf(
                "children",
                children,
                "list the queues below a queue",
                [
                    options.name(name),
                    options.flag("-r", "--recursive", help="The whole tree below it."),
                    *options.listing()[:2],
                ],
            ),
            Leaf(
                "tree",
                tree,
                "show the tree of queues",
                [
                    options.text(name, "--name", default="root", help="Root of the tree to show.", metavar="NAME"),
                    options.number("-d", "--depth", default=0, help="Number of levels to show; 0 for all."),
                    options.flag("--resources", help="Show guarantee, deserved, capability and allocated."),
                    options.flag("--self", "own", help="Count the queue itself, without the queues below it."),
                    options.flag("--ascii", help="Draw the tree with ASCII characters."),
                    options.output("json", "yaml"),
                ],
            ),
        ],
    )
