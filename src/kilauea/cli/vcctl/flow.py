"""`vcctl jobflow` and `vcctl jobtemplate`: the same five commands for both kinds."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kilauea.cli.vcctl import options
from kilauea.cli.vcctl.command import FAILED, Group, Leaf

if TYPE_CHECKING:
    from kilauea.api.ports import Api, Key, Obj, Resource
    from kilauea.cli.vcctl.cluster import Cluster
    from kilauea.cli.vcctl.tables import Form


class Kind(NamedTuple):
    """One of the two kinds."""

    name: str
    """The kind in manifests."""
    words: str
    """The kind in messages."""
    has_phase: bool

    @property
    def resource(self) -> Resource:
        """The kind in URLs."""
        from kilauea.api.kinds import JOB_FLOWS, JOB_TEMPLATES

        return next(each for each in (JOB_FLOWS, JOB_TEMPLATES) if each.kind == self.name)


FLOW = Kind("JobFlow", "jobflow", True)
TEMPLATE = Kind("JobTemplate", "job template", False)


async def create(cluster: Cluster, kind: Kind, file: str) -> None:
    """Create the objects of a file; report rejected ones, and create the others."""
    from kilauea.api.ports import ApiError

    wanted = _read(kind, file)
    async with cluster.connect() as api:
        for namespace, obj in wanted:
            try:
                made = await api.create(kind.resource, namespace, obj)
                click.echo(f"Created {kind.name}: {namespace}/{made['metadata']['name']}")
            except ApiError as error:
                click.echo(f"Failed to create {kind.name}: {error}")


async def delete(cluster: Cluster, kind: Kind, name: str, namespace: str, file: str, wait: bool, timeout: int) -> None:
    """Delete the named object, or those of a file."""
    from kilauea.api.ports import ApiError, Key

    if not file:
        options.needed(name, f"{kind.words} name must be specified")
    keys = [Key(where, obj["metadata"].get("name", "")) for where, obj in _read(kind, file)] if file else []
    async with cluster.connect() as api:
        for key in keys or [Key(namespace, name)]:
            try:
                await _delete(api, kind, key, wait, timeout)
            except ApiError as error:
                click.echo(f"Failed to delete {kind.name}: {error}")
                if not file:
                    raise click.exceptions.Exit(FAILED) from error


async def _delete(api: Api, kind: Kind, key: Key, wait: bool, timeout: int) -> None:
    from kilauea.cli.vcctl import orders

    await orders.delete(api, kind.resource, key, wait, timeout)
    click.echo(f"Deleted {kind.name}: {key}")


def _read(kind: Kind, file: str) -> list[tuple[str, dict[str, Any]]]:
    """The objects of a file with their namespaces."""
    from kilauea.cli.vcctl.documents import read_file, read_objects

    found = []
    for obj in read_objects(read_file(file)):
        metadata = {"namespace": "default", **obj.get("metadata", {})}
        typed = {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind}
        found.append((metadata["namespace"], {**typed, **obj, "metadata": metadata}))
    return found


# --- lists


async def show(
    cluster: Cluster,
    kind: Kind,
    namespace: str,
    output: str,
    no_headers: bool,
    watch: bool,
    all_namespaces: bool = False,
) -> None:
    """Print the objects of a namespace."""
    from kilauea.cli.vcctl.listing import Listing, show_list

    listing = Listing(_form(kind), functools.partial(_row, kind))
    async with cluster.connect() as api:
        await show_list(api, listing, "" if all_namespaces else namespace, output, not no_headers, watch)


async def get(cluster: Cluster, kind: Kind, name: str, namespace: str, output: str, no_headers: bool) -> None:
    """Print one object."""
    from kilauea.api.ports import Key
    from kilauea.cli.vcctl.cluster import now
    from kilauea.cli.vcctl.tables import data_text, print_objects, print_table, without_fields

    options.needed(name, f"name is mandatory to get the particular {kind.words} details")
    async with cluster.connect() as api:
        obj = await api.get(kind.resource, Key(namespace, name))
    if output == "name":
        print_objects(kind.resource, [obj], output)
    elif output in ("json", "yaml"):
        click.echo(data_text(without_fields(obj), output))
    else:
        print_table(_form(kind).columns, [_row(kind, obj, now())], not no_headers)


async def describe(cluster: Cluster, kind: Kind, name: str, namespace: str, format: str) -> None:
    """Print an object, or all objects of the namespace, as data."""
    from kilauea.api.ports import Key
    from kilauea.cli.vcctl.cluster import objects
    from kilauea.cli.vcctl.tables import data_text, without_fields

    async with cluster.connect() as api:
        found: list[Obj] = (
            [await api.get(kind.resource, Key(namespace, name))]
            if name
            else await objects(api, kind.resource, namespace)
        )
    if format not in ("yaml", "json"):
        click.echo(f"Unsupported format: {format}")
        return
    click.echo("\n\n\n".join(data_text(without_fields(obj), format) for obj in found))


def _form(kind: Kind) -> Form:
    from kilauea.cli.vcctl.tables import Form, fitting

    titles = ["Name", "Namespace", *(["Phase", "Age"] if kind.has_phase else [])]
    columns = [fitting(title, 4) for title in titles]
    return Form(kind.resource, columns, *((2, (3,)) if kind.has_phase else ()))


def _row(kind: Kind, obj: Obj, now: int) -> list[str]:
    from kilauea.api.ages import age
    from kilauea.cli.vcctl.tables import part

    row = [obj["metadata"]["name"], obj["metadata"].get("namespace", "")]
    return [*row, part(obj, "status", "state", "phase") or "", age(obj, now)] if kind.has_phase else row


# --- the groups


def flow_group() -> Group:
    """The commands for flows."""
    return _group(FLOW, [options.flag("--all-namespaces", help="List flows in all namespaces.")])


def template_group() -> Group:
    """The commands for templates."""
    return _group(TEMPLATE, [])


def _group(kind: Kind, filters: list[click.Parameter]) -> Group:
    def leaf(word: str, function: Any, help: str, given: list[click.Parameter]) -> Leaf:
        return Leaf(word, lambda cluster, **values: function(cluster, kind, **values), help, given)

    word = kind.name.lower()
    file = "YAML file with the objects; - is standard input."
    named: list[click.Parameter] = [options.name(), options.namespace()]
    forms = ("json", "yaml", "name")
    return Group(
        word,
        f"vcctl command line operation {word}",
        [
            leaf("create", create, f"create a {word}", [options.text("-f", "--file", help=file, metavar="FILE")]),
            leaf("list", show, f"list {word} information", [options.namespace(), *filters, *options.listing(*forms)]),
            leaf("get", get, f"get a {word}", [*named, *options.listing(*forms)[:2]]),
            leaf(
                "describe",
                describe,
                f"describe a {word}",
                [
                    *named,
                    options.text(
                        "-o", "--format", default="yaml", help="Output format: yaml or json.", metavar="FORMAT"
                    ),
                ],
            ),
            leaf(
                "delete",
                delete,
                f"delete a {word}",
                [*named, options.text("-f", "--file", help=file, metavar="FILE"), *options.waiting("it is gone")],
            ),
        ],
    )
