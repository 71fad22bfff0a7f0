"""Random clusters for the properties of the engine, as lists of objects in the form of `builders`.

Two kinds: `clusters` have queues, gangs and running pods of all sorts; `puzzles` have one group whose pods ask for
whatever a node can be chosen by, for the comparison with `reference`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import strategies as st

from kilauea.api.meta import Object
from support.builders import (
    GPU,
    HOSTNAME,
    Data,
    away,
    build,
    group,
    labels_of,
    namespace,
    near,
    need,
    node,
    pod,
    priority_class,
    queue,
    rather,
    service,
    spread,
)

ZONE = "topology.kubernetes.io/zone"
FPGA = "example.com/fpga"
DRAWN = st.integers
APPS = ("web", "db")


def one_of(*values: Any) -> st.SearchStrategy[Any]:
    """Any of the values, of which the first is the simplest."""
    return st.sampled_from(values)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), strategy)


# --- nodes


TAINTS = ("a=1:NoSchedule", "a=2:NoExecute", "b=1:PreferNoSchedule", "c=1:PreferNoSchedule")


NODE_NAMES = ("n1", "n2", "n10", "n3", "n20", "n4")
"""In an order that is neither that of the alphabet nor that of the numbers."""


@st.composite
def nodes(draw: st.DrawFn) -> list[Object]:
    """Nodes of all sorts."""
    out = []
    for name in NODE_NAMES[: draw(DRAWN(1, 6))]:
        labels = {
            ZONE: draw(one_of("x", "y", "z", None)),
            "disk": draw(one_of("ssd", "hdd", None)),
            "cores": draw(one_of("4", "16", "many", None)),
        }
        out.append(
            node(
                name,
                draw(one_of(4, 2, 8, 1)),
                draw(one_of("8Gi", "4Gi", "32Gi")),
                draw(one_of(110, 5, 2)),
                draw(one_of(0, 0, 1, 4)),
                resources=draw(one_of({}, {}, {FPGA: 1})),
                labels={key: value for key, value in labels.items() if value},
                taints=draw(st.lists(one_of(*TAINTS), max_size=2, unique=True))
                if draw(one_of(False, False, True))
                else (),
                unschedulable=draw(one_of(False, False, False, False, True)),
            )
        )
    return out


def names_of(objects: list[Object]) -> list[str]:
    return [o.name for o in objects if o.kind == "Node"]


# --- parts of a pod's spec


LABELS = st.fixed_dictionaries({}, optional={"app": one_of(*APPS), "rev": one_of("1", "2")})
BUSY_LABELS = st.fixed_dictionaries({"app": one_of("web", "web", "db")}, optional={"rev": one_of("1", "2")})
EXPRESSIONS = one_of(
    need("app", "In", "web"),
    need("app", "NotIn", "web"),
    need("rev", "Exists"),
    need("app", "DoesNotExist"),
    need("app", "In", "web", "db"),
)
SELECTORS = st.one_of(
    one_of(labels_of({"app": "web"}), labels_of({"app": "db"}), {}, None),
    st.lists(EXPRESSIONS, min_size=1, max_size=2).map(lambda found: {"matchExpressions": found}),
)
KEYS = one_of(ZONE, HOSTNAME, ZONE, HOSTNAME, ZONE, "rack")
OF_NAMESPACES = st.fixed_dictionaries(
    {},
    optional={
        "namespaces": one_of(["other"], ["ns", "other"]),
        "namespaceSelector": one_of(
            {}, labels_of({"team": "red"}), {"matchExpressions": [need("team", "DoesNotExist")]}
        ),
        "matchLabelKeys": one_of(["rev"], ["none"]),
    },
)
NODE_NEEDS = one_of(
    need("disk", "In", "ssd"),
    need("disk", "NotIn", "ssd"),
    need("disk", "Exists"),
    need(ZONE, "DoesNotExist"),
    need("cores", "Gt", "8"),
    need("cores", "Lt", "8"),
    need(ZONE, "In", "x", "y"),
)
NODE_FIELDS = one_of(need("metadata.name", "In", "n1"), need("metadata.name", "NotIn", "n1"))
TOLERATIONS = one_of(
    {"operator": "Exists"},
    {"key": "a", "operator": "Exists"},
    {"key": "a", "value": "1"},
    {"key": "b", "operator": "Exists", "effect": "PreferNoSchedule"},
    {"key": "b", "operator": "Exists", "effect": "NoSchedule"},
    {"value": "2"},
)
PORTS = st.fixed_dictionaries(
    {"hostPort": one_of(80, 81)},
    optional={"hostIP": one_of("10.0.0.1", "10.0.0.2", "0.0.0.0"), "protocol": one_of("UDP", "TCP")},
)


@st.composite
def node_wishes(draw: st.DrawFn) -> Data:
    """Node affinity, required or preferred or both."""
    terms = st.fixed_dictionaries(
        {},
        optional={
            "matchExpressions": st.lists(NODE_NEEDS, max_size=2),
            "matchFields": st.lists(NODE_FIELDS, max_size=1),
        },
    )
    out: Data = {}
    if draw(st.booleans()):
        required = {"nodeSelectorTerms": draw(st.lists(terms, min_size=1, max_size=2))}
        out["requiredDuringSchedulingIgnoredDuringExecution"] = required
    if draw(st.booleans()):
        weighted = st.tuples(DRAWN(1, 100), terms).map(lambda pair: {"weight": pair[0], "preference": pair[1]})
        out["preferredDuringSchedulingIgnoredDuringExecution"] = draw(st.lists(weighted, min_size=1, max_size=3))
    return {"nodeAffinity": out}


@st.composite
def neighbour_wishes(draw: st.DrawFn) -> Data:
    """Pod affinity and anti-affinity, required or preferred."""
    out: Data = {}
    for make in draw(st.lists(one_of(away, rather, near), min_size=1, max_size=2, unique=True)):
        if make is rather:
            found = rather(draw(DRAWN(1, 9)), draw(SELECTORS) or {}, draw(KEYS), away=draw(st.booleans()))
        else:
            found = make(draw(SELECTORS), draw(KEYS), **draw(OF_NAMESPACES))
        for kind, terms in found.items():
            for strength, listed in terms.items():
                out.setdefault(kind, {}).setdefault(strength, []).extend(listed)
    return out


@st.composite
def spreads(draw: st.DrawFn) -> list[Data]:
    """One or two topology spread constraints."""
    out = []
    for _ in range(draw(DRAWN(1, 2))):
        soft = draw(st.booleans())
        more = draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "nodeAffinityPolicy": one_of("Honor", "Ignore"),
                    "nodeTaintsPolicy": one_of("Honor", "Honor", "Ignore"),
                    "matchLabelKeys": one_of(["rev"]),
                }
                | ({} if soft else {"minDomains": DRAWN(2, 4)}),
            )
        )
        out += spread(draw(KEYS), draw(SELECTORS), draw(one_of(1, 1, 2, 3)), soft=soft, **more)
    return out


CARES = ("nodes", "neighbours", "spread", "taints", "ports", "selector")


@st.composite
def specs(draw: st.DrawFn, about: tuple[str, ...] | None = None) -> Data:
    """Keywords for a pod that cares where it runs, about these things or about some."""
    out: Data = {"labels": draw(LABELS if about is None else BUSY_LABELS)}
    cares = draw(st.lists(one_of(*CARES), max_size=3, unique=True)) if about is None else about
    affinity: Data = {}
    if "nodes" in cares:
        affinity |= draw(node_wishes())
    if "neighbours" in cares:
        affinity |= draw(neighbour_wishes())
    if affinity:
        out["affinity"] = affinity
    if "spread" in cares:
        out["topologySpreadConstraints"] = draw(spreads())
    if "taints" in cares:
        out["tolerations"] = draw(st.lists(TOLERATIONS, max_size=2))
    if "ports" in cares:
        out["ports"] = draw(st.lists(PORTS, min_size=1, max_size=2))
    if "selector" in cares:
        out["nodeSelector"] = draw(one_of({"disk": "ssd"}, {ZONE: "x"}, {"none": "such"}))
    return out


@st.composite
def requests(draw: st.DrawFn, empty: bool = True, devices: bool = True) -> Data:
    """What a pod asks for; now and then nothing."""
    if empty and draw(DRAWN(0, 9)) == 9:
        return {}
    out: Data = {"cpu": draw(one_of("1", "500m", "2", "3")), "memory": draw(one_of("1Gi", "512Mi", "4Gi"))}
    if devices and draw(DRAWN(0, 5)) == 5:
        out[GPU] = draw(DRAWN(1, 2))
    if devices and draw(DRAWN(0, 9)) == 9:
        out[FPGA] = 1
    if draw(DRAWN(0, 9)) == 9:
        del out["cpu"]
    return out


# --- clusters


@st.composite
def jobs(draw: st.DrawFn, name: str, on: list[str], queues: list[str], plain: bool) -> list[Object]:
    """A group and its pods, waiting, running, or gone in part."""
    size = draw(DRAWN(1, 5))
    minimum = draw(DRAWN(0, size + 1))
    phase = draw(one_of("Inqueue", "Pending", "Running", None))
    minimal = draw(maybe(st.fixed_dictionaries({"cpu": DRAWN(0, 8)})))
    shapes = [draw(requests(empty=not plain)) for _ in range(draw(DRAWN(1, 2)))]
    kinds: list[Data] = [{} if plain else draw(specs()) for _ in shapes]
    roles = draw(one_of([""], ["a", "b"])) if not plain else [""]
    wants = {"a": draw(DRAWN(0, 2))} if roles != [""] else None
    of_class = draw(one_of(None, "low", "high"))
    spec: Data = {"resources": minimal, "roles": wants, "priority": of_class, "created": draw(DRAWN(0, 3))}
    out = [group(name, draw(st.sampled_from(queues)), minimum, phase, **spec)]
    for i in range(size):
        stands: dict[str, Any] = {}
        state = draw(one_of("waits", "waits", "waits", "runs", "leaves", "leaves", "ended", "gated"))
        if state == "runs" or (plain and state in ("leaves", "ended")):
            stands = {"node": draw(st.sampled_from(on))}
        elif state in ("leaves", "ended"):
            stands = {"node": draw(st.sampled_from([*on, "gone"]))}
            stands |= {"deleting": True} if state == "leaves" else {"phase": draw(one_of("Succeeded", "Failed"))}
        elif state == "gated" and not plain:
            stands = {"schedulingGates": [{"name": "example.com/wait"}]}
        which = i % len(shapes)
        asked = {"cpu": "100m", "memory": "128Mi"} if plain and stands else shapes[which]
        more: dict[str, Any] = {"requests": asked, "role": roles[i % len(roles)], "created": draw(DRAWN(0, 2))}
        out.append(pod(f"{name}-w-{i}", name, **more, **kinds[which], **stands))
    return out


@st.composite
def clusters(draw: st.DrawFn, plain: bool = False) -> list[Object]:
    """Nodes, queues, groups and pods; plain ones have no wishes about nodes, and all their pods wait or run."""
    listed = draw(nodes())
    queues = []
    for name in ("q", "p", "r")[: draw(DRAWN(1, 3))]:
        limits = {
            "capability": draw(maybe(st.fixed_dictionaries({"cpu": DRAWN(1, 9)}, optional={"memory": one_of("4Gi")}))),
            "guarantee": draw(maybe(st.fixed_dictionaries({"cpu": DRAWN(0, 3)}))),
            "state": draw(one_of("Open", "Open", "Open", "Closed")),
        }
        queues.append(queue(name, draw(DRAWN(1, 3)), **limits))
    known = [q.name for q in queues]
    out = [*listed, *queues, priority_class("low", 1), priority_class("high", 9)]
    for number in range(draw(DRAWN(1, 4))):
        out += draw(jobs(f"j{number}", names_of(listed), known if plain else [*known * 4, "none"], plain))
    if not plain and draw(st.booleans()):
        out += [namespace("ns", {"team": "red"}), service("s", {"app": "web"})]
    return out


CONFS = one_of(
    (
        "enqueue, allocate, backfill",
        ("priority", "gang"),
        ("overcommit", "drf", "predicates", "proportion", "nodeorder"),
    ),
    ("allocate, backfill", ("gang",), ("predicates", "nodeorder", "binpack")),
    ("allocate", ("gang", "priority"), ("drf", "predicates")),
)
"""Actions and tiers, all of them with gangs and filters."""


# --- puzzles


SCORERS = (
    "leastrequested",
    "mostrequested",
    "balancedresource",
    "nodeaffinity",
    "podaffinity",
    "tainttoleration",
    "podtopologyspread",
    "binpack",
    "binpack.cpu",
    "binpack.memory",
    f"binpack.{GPU}",
)
"""What has a weight, in the words of `reference`."""
THEMES: dict[str, tuple[tuple[str, ...], str]] = {
    "nodes": (("nodes",), "nodeaffinity"),
    "neighbours": (("neighbours",), "podaffinity"),
    "spread": (("spread",), "podtopologyspread"),
    "spread and taints": (("spread", "taints"), "podtopologyspread"),
    "spread and selectors": (("spread", "selector"), "podtopologyspread"),
    "service": ((), "podtopologyspread"),
    "taints": (("taints",), "tainttoleration"),
    "ports": (("ports",), "mostrequested"),
}
"""By theme, what pods care about, and the scorer that counts."""


class Puzzle(NamedTuple):
    """Pods of group `g` to be placed one after another, and what the scorers weigh."""

    objects: list[Object]
    weights: dict[str, int]


@st.composite
def puzzles(draw: st.DrawFn) -> Puzzle:
    """A bit of everything, or a roomy cluster in which all turns on one thing."""
    theme = draw(one_of("everything", "everything", *THEMES))
    if theme == "everything":
        weights = draw(st.fixed_dictionaries({name: DRAWN(0, 3) for name in SCORERS}))
        return Puzzle(draw(_around(draw(nodes()), None)), weights)
    about, scorer = THEMES[theme]
    weights = dict.fromkeys(SCORERS, 0) | {scorer: 1}
    objects = draw(_around(draw(_roomy(with_taints="taints" in about)), about))
    if theme == "service":
        objects.append(service("s", {"app": "web"}))
    return Puzzle(objects, weights)


@st.composite
def _roomy(draw: st.DrawFn, with_taints: bool) -> list[Object]:
    """Nodes with room for everybody."""
    out = []
    for name in NODE_NAMES[: draw(DRAWN(3, 6))]:
        labels = {ZONE: draw(one_of("x", "y", "x", "z", None)), "disk": draw(one_of("ssd", "hdd", None))}
        taints = draw(st.lists(one_of(*TAINTS), max_size=2, unique=True)) if with_taints else ()
        out.append(node(name, 64, "64Gi", labels={k: v for k, v in labels.items() if v}, taints=taints))
    return out


@st.composite
def _around(draw: st.DrawFn, listed: list[Object], about: tuple[str, ...] | None) -> list[Object]:
    """Running pods on these nodes, and up to four that wait."""
    on, crowded = names_of(listed), about is None
    out = [*listed, group("g"), group("r", phase="Running")]
    for i in range(draw(DRAWN(0 if crowded else 3, 8))):
        place = {"node": draw(st.sampled_from([*on, "gone"])), "namespace": draw(one_of("ns", "ns", "other"))}
        place["deleting"] = draw(one_of(False, False, True))
        place["phase"] = draw(one_of("Running", "Running", "Pending", "Succeeded"))
        asked = draw(one_of({"cpu": "100m", "memory": "128Mi"}, {"cpu": "2", "memory": "1Gi"}, {"cpu": "4"}, {}))
        held = draw(specs(about)) if draw(st.booleans()) else {"labels": draw(LABELS if crowded else BUSY_LABELS)}
        out.append(pod(f"r-{i}", "r", requests=asked, **place, **held))
    for i in range(draw(DRAWN(1 if crowded else 2, 4))):
        out.append(pod(f"g-w-{i}", "g", requests=draw(requests(empty=False, devices=crowded)), **draw(specs(about))))
    for name, labels in (("ns", {"team": "red"}), ("other", {"team": "blue"}), ("other", {"team": "red"})):
        if draw(st.booleans()):
            out.append(namespace(name, labels))
    return out


def arguments_of(weights: dict[str, int]) -> Data:
    """The arguments of nodeorder and binpack for such weights."""
    of_binpack: Data = {f"binpack.{name}": weights[f"binpack.{name}"] for name in ("cpu", "memory")}
    of_binpack |= {"binpack.weight": weights["binpack"], "binpack.resources": GPU}
    of_binpack[f"binpack.resources.{GPU}"] = weights[f"binpack.{GPU}"]
    of_nodeorder = {f"{name}.weight": value for name, value in weights.items() if not name.startswith("binpack")}
    return {"nodeorder": {**of_nodeorder, "imagelocality.weight": 0}, "binpack": of_binpack}


# --- odd objects


ODD_TEXTS = (
    "",
    " ",
    "-1",
    "1e400",
    "9" * 40,
    "NaN",
    "\u00b2",
    "no/such/thing",
    "x" * 300,
    "0",
    "-9223372036854775809",
    "root",
    "ns/g",
    "Gt",
    "\ud7ff",
)
ODD_NUMBERS = (0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**30)


def _paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths to every part of a manifest but its kind."""
    out = [at] if at and at != ("kind",) else []
    if isinstance(value, dict):
        for key, part in value.items():
            out += _paths(part, (*at, key))
    if isinstance(value, list):
        for i, part in enumerate(value):
            out += _paths(part, (*at, i))
    return out


@st.composite
def oddities(draw: st.DrawFn, data: Data) -> Data:
    """A manifest in which one part is odd, missing, or there twice."""
    path = draw(st.sampled_from(_paths(data)))
    parent: Any = data
    for step in path[:-1]:
        parent = parent[step]
    old = parent[path[-1]]
    how = draw(one_of("odd", "odd", "odd", "gone", "twice"))
    if how == "gone":
        del parent[path[-1]]
    elif how == "twice" and isinstance(old, list):
        parent[path[-1]] = old * 2
    elif isinstance(old, bool):
        parent[path[-1]] = not old
    elif isinstance(old, int):
        parent[path[-1]] = draw(st.one_of(one_of(*ODD_NUMBERS), st.integers()))
    elif isinstance(old, str):
        parent[path[-1]] = draw(st.one_of(one_of(*ODD_TEXTS), st.text(max_size=5)))
    elif isinstance(old, dict):
        parent[path[-1]] = {}
    else:
        parent[path[-1]] = []
    return data


def readable(data: Data) -> Object | None:
    """The object of a manifest, None if the wire types do not take it."""
    try:
        return build(data)
    except (ValueError, KeyError):
        return None
