"""Pages: their parts, and the models of these. A part is replaced in the browser when its text has changed.

page = page_of("/jobs", {"state": "waiting"}, cluster)      # None for a path that is not a page
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlencode

from kilauea.api.ports import Key
from kilauea.api.times import SECOND
from kilauea.api.wellknown import ROOT_QUEUE
from kilauea.dashboard.amounts import meter, short_name
from kilauea.dashboard.eviction_list import newest, together
from kilauea.dashboard.job_list import MOST_REASONS, Filter, causes, job_list
from kilauea.dashboard.listing import paging
from kilauea.dashboard.node_map import line_of, maps, node_list
from kilauea.dashboard.picture import DONE, FAILED, RUNNING, WAITING, Entry, Figures, Picture, main_resources
from kilauea.dashboard.queue_tree import MOST_LINES, Forest, tree
from kilauea.dashboard.rows import Amounts, Pod
from kilauea.dashboard.series import Series

Query = Mapping[str, str]
LINKS = (
    ("/", "Overview"),
    ("/queues", "Queues"),
    ("/jobs", "Jobs"),
    ("/nodes", "Nodes"),
    ("/evictions", "Evictions"),
    ("/history", "History"),
    ("/plan", "Plan"),
)
"""The pages in the navigation."""
SHOWN_EVICTIONS = 8
"""Maximum number of evictions on the overview."""
MOST_RESOURCES = 5
"""Maximum number of resources with a meter."""
MOST_MANIFEST = 256 * 1024
"""Maximum size of objects to plan, in bytes."""
PLAN_SECONDS = 30
"""Maximum seconds of a plan or an explanation."""
SPANS = ("day", "week", "month")
"""Time spans of the usage."""
FEW_CELLS, LARGE = 400, 1.6
"""Up to this many squares are drawn larger, by this factor."""
PHASES = ("Pending", "Running", "Succeeded", "Failed", "Terminating")
HOUR = 3600 * SECOND
LONGEST_TEXT = 200
"""Maximum number of characters of a value in the address."""


class Part(NamedTuple):
    """A part of a page: its id in the page, its template, and the template's `model`."""

    id: str
    template: str
    model: Mapping[str, Any]


class Page(NamedTuple):
    """A page.

    Attributes:
        title: its heading.
        link: its entry in `LINKS`.
        parts: its parts, in order.
        trail: links to the pages above it.
        still: parts of the whole page only, which do not change by themselves.
    """

    title: str
    link: str
    parts: Sequence[Part]
    trail: Sequence[tuple[str, str]] = ()
    still: frozenset[str] = frozenset()


@dataclass
class Cluster:
    """The content of pages.

    Attributes:
        picture: the objects.
        series: the recent past.
        figures: figures of queues from their scheduler.
        figures_at: the time of these, microseconds since 1970; 0 for figures that are always current.
        now: the time, microseconds since 1970.
        problems: messages to show on every page.
    """

    picture: Picture
    series: Series
    figures: Figures = field(default_factory=dict)
    figures_at: int = 0
    now: int = 0
    problems: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Start without any data."""
        self._forest: tuple[tuple[Any, ...], Forest] | None = None
        self._sums: tuple[tuple[int, int], Amounts, Amounts] | None = None

    @property
    def forest(self) -> Forest:
        """The queues, rebuilt only after changes."""
        picture = self.picture
        version = (picture.queues.version, picture.groups.version, picture.jobs.version, id(self.figures))
        if self._forest is None or self._forest[0] != version:
            self._forest = version, Forest(picture, self.figures)
        return self._forest[1]

    @property
    def sums(self) -> tuple[Amounts, Amounts]:
        """The total of all nodes, and the requests of the pods on them."""
        version = self.picture.nodes.version, self.picture.pods.version
        if self._sums is None or self._sums[0] != version:
            self._sums = version, self.picture.offered(), self.picture.used()
        return self._sums[1:]

    @property
    def version(self) -> tuple[int, ...]:
        """Changes whenever pages may change."""
        return self.picture.version, self.series.version, id(self.figures), len(self.problems)

    def resources(self, query: Query) -> tuple[list[str], str]:
        """The resources to choose from, and the chosen one: devices if available, or else cpu."""
        names = main_resources(self.sums[0])[:MOST_RESOURCES]
        default = names[2] if len(names) > 2 else "cpu"
        wanted = query.get("resource", "")
        return names, wanted if wanted in names else default


def job_path(kind: str, key: Key | Mapping[str, str]) -> str:
    """The path of the page of a job or pod group."""
    namespace, name = (key["namespace"], key["name"]) if isinstance(key, Mapping) else key
    return f"/jobs/{quote(kind, safe='')}/{quote(namespace, safe='')}/{quote(name, safe='')}"


def history_path(namespace: str, name: str) -> str:
    """The path of the page of a job that exists only in the history."""
    return f"/history/{quote(namespace, safe='')}/{quote(name, safe='')}"


def node_path(name: str) -> str:
    """The path of the page of a node."""
    return f"/nodes/{quote(name, safe='')}"


def page_of(path: str, query: Query, cluster: Cluster) -> Page | None:
    """The page at an escaped path; None if it does not exist.

    Args:
        path: the path.
        query: the query, decoded.
        cluster: the content to show.
    """
    query = {name: value[:LONGEST_TEXT] for name, value in query.items() if value}
    match [unquote(each) for each in path.strip("/").split("/")]:
        case [""]:
            page = _overview(query, cluster)
        case ["queues"]:
            page = _queues(query, cluster)
        case ["jobs"]:
            page = _jobs(query, cluster)
        case ["jobs", ("Job" | "PodGroup") as kind, namespace, name]:
            page = _job(kind, namespace, name, query, cluster)
        case ["nodes"]:
            page = _nodes(query, cluster)
        case ["nodes", name]:
            page = _node(name, query, cluster)
        case ["evictions"]:
            page = _evictions(query, cluster)
        case ["history"]:
            page = _history(query)
        case ["history", namespace, name]:
            part = _past(history_path(namespace, name), query)
            page = Page(f"Job {name}", "/history", [part], [("/history", "History")], frozenset({"past"}))
        case _:
            return None
    return page._replace(parts=[_notices(cluster), *page.parts])


def plan_page(manifest: str, outcome: Mapping[str, Any] | None, narrow: str = "") -> Page:
    """The page with the form for a plan, and its outcome; `narrow` is the reason why it may fail."""
    model = {"most": MOST_MANIFEST, "seconds": PLAN_SECONDS, "manifest": manifest, "outcome": outcome, "narrow": narrow}
    return Page("Plan", "/plan", [Part("plan", "plan.html", model)])


def narrow_rights(namespace: str, refused: Iterable[str]) -> str:
    """Return the reason why plans of a user with few permissions may fail; empty for none.

    Args:
        namespace: the only namespace to show; empty for all.
        refused: plurals of the kinds that may not be listed.
    """
    kinds = ", ".join(sorted(refused))
    if not namespace and not kinds:
        return ""
    whose = f"you may not list {kinds}" if kinds else f"this page only shows namespace {namespace}"
    return (
        "Plans and explanations need permission to list nodes, queues, pod groups and pods in all namespaces, as all "
        f"of them compete for resources; {whose}. Without it, they fail with an error that shows what is missing."
    )


# --- the pages


def _overview(query: Query, cluster: Cluster) -> Page:
    names, resource = cluster.resources(query)
    found = causes(cluster.picture.waiting.values())
    model = {"causes": found[:MOST_REASONS], "more": max(0, len(found) - MOST_REASONS)}
    evictions = together(cluster.picture.evictions.values())
    shown = {"lines": evictions[:SHOWN_EVICTIONS], "total": len(cluster.picture.evictions)}
    forest = cluster.forest
    lines = tree(forest, cluster.sums[0], resource, cluster.series)
    queues = {
        **_resources_model("/", query, names, resource, cluster),
        "title": "Queues",
        "tree": lines,
        "empty": _empty(cluster, "queues"),
        "more": len(lines.lines) < lines.total,
        "paging": None,
        "search_box": False,
    }
    parts = [
        _tiles(cluster, names),
        Part("queues", "queues.html", queues),
        Part("causes", "causes.html", model),
        Part("evicted", "evicted.html", shown),
        _chart(ROOT_QUEUE, resource, f"{short_name(resource)} in use"),
    ]
    return Page("Overview", "/", parts, still=frozenset({"chart-use"}))


def _tiles(cluster: Cluster, resources: Sequence[str]) -> Part:
    picture = cluster.picture
    offered, used = cluster.sums
    states = Counter(node.state for node in picture.nodes)
    counts: Counter[str] = Counter()
    for (_, state), count in picture.counts.items():
        counts[state] += count
    recent = [each for each in picture.evictions.values() if each.at > cluster.now - HOUR]
    model = {
        "nodes": len(picture.nodes),
        "ready": states["Ready"] + states["Cordoned"],
        "not_ready": states["NotReady"],
        "cordoned": states["Cordoned"],
        "meters": [meter(name, used, offered) for name in resources if offered.get(name)],
        "waiting": counts[WAITING],
        "running": counts[RUNNING],
        "failed": counts[FAILED],
        "pods_running": picture.phases["Running"],
        "pods_pending": picture.phases["Pending"],
        "evictions": len(recent),
        "preemptors": len({each.by for each in recent if each.by is not None}),
    }
    return Part("tiles", "tiles.html", model)


def _chart(queue: str, resource: str, title: str) -> Part:
    message = f"{short_name(resource)} that queue {queue} used and deserved in the last hour"
    source = f"/series?queue={quote(queue, safe='')}&resource={quote(resource, safe='')}"
    model = {"id": "use", "title": title, "source": source, "words": message}
    return Part("chart-use", "chart.html", model)


def _resources_model(path: str, query: Query, names: Sequence[str], resource: str, cluster: Cluster) -> dict[str, Any]:
    return {"path": path, "query": query, "resources": names, "resource": resource, "as_of": cluster.figures_at}


def _queues(query: Query, cluster: Cluster) -> Page:
    names, resource = cluster.resources(query)
    forest, top, search = cluster.forest, query.get("at", ""), query.get("search", "")
    number = _number(query)
    lines = tree(
        forest,
        cluster.sums[0],
        resource,
        cluster.series,
        top=top,
        search=search,
        first=(number - 1) * MOST_LINES,
    )
    place = paging(lines.matching, number, MOST_LINES)
    if place.page != number:
        first = (place.page - 1) * MOST_LINES
        lines = tree(forest, cluster.sums[0], resource, cluster.series, top=top, search=search, first=first)
    model = {
        **_resources_model("/queues", query, names, resource, cluster),
        "title": "Queues below" if top else "All queues",
        "tree": lines,
        "paging": place,
        "search_box": not top,
        "more": False,
        "empty": f"There is no queue {top}." if top else _empty(cluster, "queues"),
    }
    parts = [Part("queues", "queues.html", model)]
    parts += [_chart(top, resource, f"{short_name(resource)} of {top}")] if top in forest.queues else []
    trail = (
        [("/queues", "Queues"), *((_queue_path(name), name) for name in forest.path(top)[:-1])]
        if top in forest.depths
        else []
    )
    return Page(f"Queue {top}" if top else "Queues", "/queues", parts, trail, frozenset({"chart-use"}))


def _queue_path(name: str) -> str:
    return f"/queues?at={quote(name, safe='')}"


def _jobs(query: Query, cluster: Cluster) -> Page:
    wanted = Filter(**{name: query.get(name, "") for name in Filter._fields})
    model = {"query": query, "list": job_list(cluster.picture, wanted, _number(query))}
    return Page("Jobs", "/jobs", [Part("jobs", "jobs.html", model)])


def _job(kind: str, namespace: str, name: str, query: Query, cluster: Cluster) -> Page:
    picture, path = cluster.picture, job_path(kind, Key(namespace, name))
    entry = picture.find(kind, namespace, name)
    job = picture.jobs.get(namespace, name) if kind == "Job" else None
    pods = picture.pods_of(entry) if entry is not None else []
    place = paging(len(pods), _number(query))
    by_task = Counter((pod.task, pod.phase) for pod in pods)
    if job is not None and not pods:  # they no longer exist, but the job's status has counted them
        by_task.update({(task.name, phase): count for task in job.tasks for phase, count in task.phases.items()})
    phases = [phase for phase in PHASES if any(at[1] == phase for at in by_task)] or ["Pending", "Running"]
    begin = min([pod.created for pod in pods], default=cluster.now)
    end = max([*(pod.ended for pod in pods), begin]) if pods and all(pod.ended for pod in pods) else cluster.now
    shown = [(pod, span(pod, begin, end)) for pod in pods[max(0, place.first - 1) : place.last]]
    model = {
        "job": job,
        "entry": entry,
        "path": path,
        "query": query,
        "pods": shown,
        "paging": place,
        "by_task": by_task,
        "phases": phases,
    }
    head, table = Part("job-head", "job_head.html", model), Part("job-pods", "job_pods.html", model)
    past = _past(path, query)
    if entry is None and cluster.picture.complete:
        return Page(_title(kind, name), "/jobs", [head, past], [("/jobs", "Jobs")], frozenset({"past"}))
    pod = query.get("pod", "") or next((pod.key.name for pod in pods if pod.node), "")
    explanation, *details = _details(path, entry, pod)
    if entry is not None and entry.state == WAITING:
        parts = [head, explanation, table, past, *details]
    elif entry is not None and entry.state in (DONE, FAILED):
        parts = [head, table, past, *details]
    else:
        parts = [head, table, past, explanation, *details]
    still = frozenset({"explain", "events", "logs", "past"})
    return Page(_title(kind, name), "/jobs", parts, [("/jobs", "Jobs")], still)


def _title(kind: str, name: str) -> str:
    return f"{'Job' if kind == 'Job' else 'Pod group'} {name}"


def _past(path: str, query: Query) -> Part:
    """The part of a page with the life of a job, from the history."""
    uid = query.get("uid", "")
    source = f"{path}/past?uid={quote(uid, safe='')}" if uid else f"{path}/past"
    return _lazy("past", "What happened", source, "Show again", "reading the history", True)


def _history(query: Query) -> Page:
    """Usage over time, and jobs that may have been deleted."""
    span = query.get("span", "day")
    wanted = {name: query[name] for name in ("queue", "user", "name") if name in query}
    usage = f"/history/usage?span={quote(span, safe='')}"
    parts = [
        Part("spans", "spans.html", {"query": query, "spans": SPANS, "span": span}),
        _lazy("usage", "Usage by queue", usage, "Show again", "reading the history", True),
        _lazy(
            "earlier", "Current and deleted jobs", f"/history/jobs?{urlencode(wanted)}", "Show again", "reading", True
        ),
    ]
    return Page("History", "/history", parts, still=frozenset({"usage", "earlier"}))


def _details(path: str, entry: Entry | None, pod: str) -> list[Part]:
    """The parts that are read on demand: explanation, events, and the log of a pod; empty for none."""
    words = "the full reason, with numbers and the smallest change that would let the job start"
    waits = entry is not None and entry.state == WAITING
    parts = [
        _lazy("explain", "Explanation", f"{path}/explain", "Explain", words, waits),
        _lazy("events", "Events", f"{path}/events", "Show again", "reading", True),
    ]
    if pod:
        source, words = f"{path}/logs?pod={quote(pod, safe='')}", "the last 200 lines of the pod's first container"
        parts.append(_lazy("logs", f"Log of {pod}", source, "Show the last lines", words, False))
    return parts


def _lazy(id: str, title: str, source: str, button: str, words: str, at_once: bool) -> Part:
    model = {"id": id, "title": title, "source": source, "button": button, "words": words, "at_once": at_once}
    return Part(id, "lazy.html", model)


class Span(NamedTuple):
    """The life of a pod on the timeline of its job: positions and widths in percent, and as text."""

    waited_from: float
    waited: float
    ran_from: float
    ran: float
    words: str


def span(pod: Pod, begin: int, end: int) -> Span:
    """The life of a pod between two moments, in microseconds since 1970."""
    whole = max(1, end - begin)

    def place(at: int) -> float:
        return round(100 * min(1.0, max(0.0, (at - begin) / whole)), 2)

    started = pod.started or (end if not pod.ended else pod.ended)
    ended = pod.ended or end
    waited = max(0, started - pod.created) // SECOND
    words = f"waited {waited} s" + (f", ran {max(0, ended - started) // SECOND} s" if pod.started else "")
    ran = place(ended) - place(started) if pod.started else 0.0
    return Span(place(pod.created), place(started) - place(pod.created), place(started), round(ran, 2), words)


def _nodes(query: Query, cluster: Cluster) -> Page:
    names, resource = cluster.resources(query)
    picture, domain, state = cluster.picture, query.get("domain", ""), query.get("state", "")
    listing = bool(domain or state or query.get("search"))
    lines, place = node_list(picture, names, query.get("search", ""), domain, state, _number(query) if listing else 1)
    model = {"query": query, "lines": lines, "paging": place, "resources": names}
    parts = [Part("nodes", "nodes.html", model)]
    if not listing:
        drawn, at = maps(picture, resource, names, _number(query))
        faults = [each.fault for each in picture.hypernodes if each.fault]
        shown = {
            **_resources_model("/nodes", query, names, resource, cluster),
            "maps": drawn,
            "paging": at,
            "per_cell": max((each.per_cell for each in drawn), default=1),
            "scale": LARGE if sum(len(each.cells) for each in drawn) <= FEW_CELLS else 1,
            "faults": faults,
        }
        parts = [Part("maps", "maps.html", shown)]
        if at.pages == 1:
            parts.append(Part("nodes", "nodes.html", {**model, "query": {}}))
    trail = [("/nodes", "Nodes")] if listing else []
    return Page(f"Nodes of {domain}" if domain else "Nodes", "/nodes", parts, trail)


def _node(name: str, query: Query, cluster: Cluster) -> Page:
    picture = cluster.picture
    names, _ = cluster.resources(query)
    node, use = picture.nodes.get("", name), picture.on_node.get(name)
    keys = sorted(use.pods) if use is not None else []
    place = paging(len(keys), _number(query))
    pods = picture.pods.several(keys[max(0, place.first - 1) : place.last])
    model = {
        "line": line_of(picture, node, names) if node is not None else None,
        "pods": [(pod, picture.entry_of(pod)) for pod in pods],
        "paging": place,
        "path": node_path(name),
        "query": query,
    }
    return Page(f"Node {name}", "/nodes", [Part("node", "node.html", model)], [("/nodes", "Nodes")])


def _evictions(query: Query, cluster: Cluster) -> Page:
    found = newest(cluster.picture.evictions.values())
    place = paging(len(found), _number(query))
    shown = found[max(0, place.first - 1) : place.last]
    model = {"title": "Evicted pods", "evictions": shown, "paging": place, "query": query}
    return Page("Evictions", "/evictions", [Part("evictions", "evictions.html", model)])


def _notices(cluster: Cluster) -> Part:
    picture = cluster.picture
    texts = list(cluster.problems)
    texts += [f"You may not list {kind}: {message}" for kind, message in picture.refusals.items()]
    if not picture.complete and not texts:
        texts.append("The dashboard is still reading the cluster; missing objects will appear soon.")
    for resource, table, _ in picture.watched:
        if table.unread:
            key, why = next(iter(sorted(table.unread.items())))
            texts.append(f"{len(table.unread)} of the {resource.plural} cannot be read, such as {key}: {why}")
    return Part("notices", "notices.html", {"notices": texts})


def _empty(cluster: Cluster, plural: str) -> str:
    return f"You may not list {plural}." if plural in cluster.picture.refusals else f"There are no {plural}."


def _number(query: Query) -> int:
    """The number of the page of a list."""
    text = query.get("page", "")
    return min(int(text), 1_000_000) if text.isascii() and text.isdigit() and len(text) < 8 and int(text) else 1
