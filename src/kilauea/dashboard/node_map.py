"""Nodes and network domains as maps of their usage, and as a list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kilauea.api.wellknown import ZONE
from kilauea.dashboard.amounts import Meter, meter, percent
from kilauea.dashboard.listing import Paging, paging
from kilauea.dashboard.picture import NodeUse, Picture
from kilauea.dashboard.rows import Node
from kilauea.engine.model.nodes import natural

MOST_CELLS = 1200
"""Maximum number of squares on a page; with more nodes, a square represents several."""
MOST_DOMAINS = 40
"""Maximum number of domains on a page."""
COLUMNS = 32
"""Number of squares in a row of a domain."""
SIZE, GAP = 14, 3
"""Width of a square and the space after it, in units of the picture."""
_NO_USE = NodeUse()
_KINDS = ("hypernode", "zone", "")


class Cell(NamedTuple):
    """A square: one node, or several neighboring ones.

    Attributes:
        x, y: its position.
        height: height of its filled part, of `SIZE`.
        state: `Ready`, `Cordoned`, `NotReady`: the worst of its nodes.
        title: its nodes and their use, as text.
        link: the node; empty for several.
    """

    x: int
    y: int
    height: float
    state: str
    title: str
    link: str


class DomainMap(NamedTuple):
    """The map of a network domain, a zone, or of all nodes.

    Attributes:
        name: name of the domain; empty for nodes outside of all domains.
        kind: `hypernode`, `zone`, or empty.
        tier: tier of a hypernode.
        nodes, ready: number of nodes, and of those that are ready.
        meters: use of each resource.
        cells: the squares.
        per_cell: number of nodes per square.
        width, height: size of the picture.
        above: the hypernodes that contain it, the highest first.
    """

    name: str
    kind: str
    tier: int
    nodes: int
    ready: int
    meters: Sequence[Meter]
    cells: Sequence[Cell]
    per_cell: int
    width: int
    height: int
    above: Sequence[str] = ()


class NodeLine(NamedTuple):
    """A node in the list."""

    node: Node
    pods: int
    meters: Sequence[Meter]


def domains(picture: Picture) -> list[tuple[str, str, int, list[Node]]]:
    """The lowest domains with their nodes: name, kind, tier and nodes; last the nodes outside of all domains."""
    left = {node.name: node for node in sorted(picture.nodes, key=lambda node: natural(node.name))}
    out = []
    known = [each.domain for each in picture.hypernodes if each.domain is not None]
    for domain in sorted(known, key=lambda each: (each.tier, natural(each.name))):
        if not (domain.nodes or domain.patterns or domain.selectors):
            continue
        plain = not (domain.patterns or domain.selectors)
        among: Iterable[str] = [name for name in domain.nodes if name in left] if plain else list(left)
        inside = [left[name] for name in among if plain or domain.holds(name, left[name].labels)]
        for node in inside:
            del left[node.name]
        out.append((domain.name, "hypernode", domain.tier, inside))
    zones: dict[str, list[Node]] = {}
    for node in left.values():
        zones.setdefault(node.labels.get(ZONE, ""), []).append(node)
    out += [(zone, "zone", 0, zones[zone]) for zone in sorted(zones, key=natural) if zone]
    if "" in zones:
        out.append(("", "", 0, zones[""]))
    return out


def parents(picture: Picture) -> dict[str, str]:
    """The parent of each hypernode; the first by tier and name if there are several."""
    known = [each.domain for each in picture.hypernodes if each.domain is not None]
    out: dict[str, str] = {}
    for domain in sorted(known, key=lambda each: (each.tier, natural(each.name))):
        for child in domain.children:
            if child != domain.name:
                out.setdefault(child, domain.name)
    return out


def above(name: str, parents: Mapping[str, str]) -> list[str]:
    """The ancestors of a hypernode, the highest first; in a cycle, each once."""
    out: list[str] = []
    while (name := parents.get(name, "")) and name not in out:
        out.append(name)
    return out[::-1]


def maps(picture: Picture, resource: str, resources: Sequence[str], page: int = 1) -> tuple[list[DomainMap], Paging]:
    """The maps of a page of domains.

    Args:
        picture: the cluster.
        resource: the resource that squares show.
        resources: resources with a meter.
        page: number of the page, from 1.
    """
    inside = parents(picture)
    all_ = [
        (above(name, inside) if kind == "hypernode" else [], name, kind, tier, nodes)
        for name, kind, tier, nodes in domains(picture)
    ]
    all_.sort(key=lambda each: (_KINDS.index(each[2]), [natural(name) for name in each[0]]))  # stable
    place = paging(len(all_), page, MOST_DOMAINS)
    chosen = all_[max(0, place.first - 1) : place.last]
    total = sum(len(nodes) for *_, nodes in chosen)
    per_cell = max(1, -(-total // MOST_CELLS))
    drawn = [
        _map(picture.on_node, resource, resources, per_cell, name, kind, tier, nodes)._replace(above=over)
        for over, name, kind, tier, nodes in chosen
    ]
    return drawn, place


def _map(
    on_node: Mapping[str, NodeUse],
    resource: str,
    resources: Sequence[str],
    per_cell: int,
    name: str,
    kind: str,
    tier: int,
    nodes: Sequence[Node],
) -> DomainMap:
    cells = [
        _cell(on_node, resource, number, nodes[start : start + per_cell])
        for number, start in enumerate(range(0, len(nodes), per_cell))
    ]
    used, offers = sums(on_node, nodes)
    lines = max(1, -(-len(cells) // COLUMNS))
    step = SIZE + GAP
    width = min(len(cells) or 1, COLUMNS) * step - GAP
    shown = [meter(each, used, offers) for each in resources if offers.get(each)]
    ready = sum(node.state == "Ready" for node in nodes)
    return DomainMap(name, kind, tier, len(nodes), ready, shown, cells, per_cell, width, lines * step - GAP)


def sums(on_node: Mapping[str, NodeUse], nodes: Iterable[Node]) -> tuple[dict[str, float], dict[str, float]]:
    """The total usage of nodes, and their total allocatable amounts."""
    used: dict[str, float] = {}
    offers: dict[str, float] = {}
    for node in nodes:
        for name, amount in on_node.get(node.name, _NO_USE).used.items():
            used[name] = used.get(name, 0) + amount
        for name, amount in node.offers.items():
            offers[name] = offers.get(name, 0) + amount
    return used, offers


def _cell(on_node: Mapping[str, NodeUse], resource: str, number: int, nodes: Sequence[Node]) -> Cell:
    used, offers = sums(on_node, nodes)
    share = percent(used.get(resource, 0), offers.get(resource, 0))
    states = {node.state for node in nodes}
    state = next(each for each in ("NotReady", "Cordoned", "Ready") if each in states)
    first, last = nodes[0].name, nodes[-1].name
    name = first if first == last else f"{first} to {last} ({len(nodes)} nodes)"
    title = f"{name}: {share:g}% used" + ("" if state == "Ready" else f", {state}")
    line, column = divmod(number, COLUMNS)
    step = SIZE + GAP
    link = first if first == last else ""
    return Cell(column * step, line * step, round(SIZE * share / 100, 1), state, title, link)


def node_list(
    picture: Picture, resources: Sequence[str], search: str = "", domain: str = "", state: str = "", page: int = 1
) -> tuple[list[NodeLine], Paging]:
    """A page of the nodes in a state and a zone or domain (with its descendants) whose names contain a text."""
    among = _nodes_in(picture, domain) if domain else picture.nodes
    needle = search.lower()
    found = [node for node in among if needle in node.name.lower() and (not state or node.state == state)]
    found.sort(key=lambda node: natural(node.name))
    place = paging(len(found), page)
    return [line_of(picture, node, resources) for node in found[max(0, place.first - 1) : place.last]], place


def _nodes_in(picture: Picture, domain: str) -> list[Node]:
    inside = parents(picture)
    return [
        node
        for name, kind, _, nodes in domains(picture)
        if name == domain or (kind == "hypernode" and domain in above(name, inside))
        for node in nodes
    ]


def line_of(picture: Picture, node: Node, resources: Sequence[str]) -> NodeLine:
    """The line of a node."""
    use = picture.on_node.get(node.name, _NO_USE)
    shown = [meter(each, use.used, node.offers) for each in resources if node.offers.get(each)]
    return NodeLine(node, len(use.pods), shown)
