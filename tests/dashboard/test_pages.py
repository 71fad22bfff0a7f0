"""Pages as HTML: every text of an object is shown as text, and every page stands with and without objects."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from kilauea.api.ports import Key
from kilauea.dashboard.pages import LINKS, Cluster, job_path, node_path, page_of, plan_page
from kilauea.dashboard.picture import Picture
from kilauea.dashboard.rendering import Renderer, change
from support.dashboard_objects import NOW, cluster_of, event, group, job, node, pod, queue, tell

HOSTILE = (
    """</script><script>alert(1)</script>"'><img src=x onerror=alert(2)><hx-partial hx-target="body">&amp;{{7*7}}"""
)
PATHS = [path for path, _ in LINKS if path != "/plan"]
RENDERER = Renderer(lambda: NOW, "https://server")
SCRIPTS = ["vendor/htmx.min.js", "vendor/uPlot.iife.min.js", "dashboard.js", "vendor/hx-sse.min.js"]
VOID = {"meta", "link", "input", "img", "br"}


class Checker(HTMLParser):
    """Collects the tags of a page, and fails if they do not nest."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes something else"


def checked(html: str) -> Checker:
    checker = Checker()
    checker.feed(html)
    assert checker.open == []
    return checker


def html_of(cluster: Cluster, path: str, **query: str) -> str:
    page = page_of(path, query, cluster)
    assert page is not None
    return RENDERER.page(page, f"/live{path}")


def hostile() -> Cluster:
    """A cluster in which every text that users choose is markup."""
    picture = Picture()
    tell(picture.nodes, node(HOSTILE), node("plain", cordoned=True), node("down", ready=False))
    tell(picture.queues, queue("root"), queue(HOSTILE, "root", allocated="3", deserved="2", guarantee="1"))
    tell(picture.jobs, job(HOSTILE, HOSTILE))
    tell(picture.groups, group(HOSTILE, HOSTILE, why=f"{HOSTILE}: {HOSTILE}", job=HOSTILE))
    tell(picture.pods, pod(HOSTILE, HOSTILE, on=HOSTILE, phase=HOSTILE))
    tell(picture.evicted, event("Evict", HOSTILE, HOSTILE))
    tell(picture.preempted, event("Preempted", f"Preempted by Job team/{HOSTILE} on node n", HOSTILE))
    picture.hypernodes.refuse(HOSTILE)
    return cluster_of(picture)


DETAILS = [job_path("Job", Key("team", HOSTILE)), node_path(HOSTILE)]


@pytest.mark.parametrize("path", [*PATHS, *DETAILS])
def test_names_with_markup_are_text(path: str) -> None:
    checker = checked(html_of(hostile(), path, at=HOSTILE, search="", domain=""))
    scripts = [attributes for tag, attributes in checker.tags if tag == "script"]
    assert [attributes["src"] for attributes in scripts] == [f"/static/{name}" for name in SCRIPTS]
    assert all(attributes.keys() <= {"defer", "src"} for attributes in scripts)
    assert not [tag for tag, attributes in checker.tags if tag == "img" or "onerror" in attributes]


def test_htmx_begins_when_its_extension_is_there() -> None:
    """A deferred htmx begins right after its own script, and a page whose extension comes later is never live."""
    checker = checked(html_of(hostile(), "/", at="", search="", domain=""))
    deferred = {attributes["src"]: "defer" in attributes for tag, attributes in checker.tags if tag == "script"}
    assert deferred["/static/vendor/hx-sse.min.js"]
    assert not deferred["/static/vendor/htmx.min.js"]


def test_names_are_not_templates() -> None:
    assert "{{7*7}}" in html_of(hostile(), "/queues")


@pytest.mark.parametrize(
    "name", ["search", "queue", "namespace", "reason", "state", "at", "domain", "page", "resource"]
)
@pytest.mark.parametrize("path", PATHS)
def test_a_query_with_markup_is_text(path: str, name: str) -> None:
    checker = checked(html_of(hostile(), path, **{name: HOSTILE}))
    assert not [tag for tag, attributes in checker.tags if tag == "img" or "onerror" in attributes]


@pytest.mark.parametrize("path", [*PATHS, "/jobs/Job/team/none", "/jobs/PodGroup/team/none", "/nodes/none"])
def test_every_page_stands_without_objects_and_before_they_are_read(path: str) -> None:
    checked(html_of(cluster_of(Picture()), path))
    assert "still reading the cluster" in html_of(Cluster(Picture(), cluster_of(Picture()).series), path)


@pytest.mark.parametrize("path", ["/other", "/jobs/Job/team", "/jobs/Secret/team/x", "/nodes/a/b", "/jobs/", "//"])
def test_another_path_is_not_a_page(path: str) -> None:
    found = page_of(path, {}, cluster_of(Picture()))
    assert found is None or path in ("/jobs/", "//")


@pytest.mark.parametrize("path", [*PATHS, *DETAILS])
def test_pages_have_landmarks_headings_captions_and_unique_ids(path: str) -> None:
    checker = checked(html_of(hostile(), path))
    tags = [tag for tag, _ in checker.tags]
    assert [tags.count(each) for each in ("header", "main", "h1")] == [1, 1, 1]
    assert tags.count("caption") == tags.count("table")
    ids = [attributes["id"] for _, attributes in checker.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert not [attributes for _, attributes in checker.tags if "style" in attributes]


def test_characters_that_do_not_print_are_spelled_out() -> None:
    """A mark of direction makes what follows look like something else."""
    picture = Picture()
    tell(picture.queues, queue("root"))
    tell(picture.jobs, job("train"))
    tell(picture.groups, group("train", why="Unschedulable: a\u202egpj\x1b[31m\x9b", job="train"))
    tell(picture.evicted, event("Evict", "b\u2066\x07", "c\u2067"))
    pages = [html_of(cluster_of(picture), path) for path in ("/", "/evictions", job_path("Job", Key("team", "train")))]
    for page in pages:
        assert re.search(r"[^ -~\n\u2013\u00b7\u2026\u00d7]", page) is None
    assert all(text in pages[1] for text in (r"b\u2066\x07", r"c\u2067"))
    assert r"a\u202egpj\x1b[31m\x9b" in pages[2]


def test_the_form_for_plans_keeps_what_was_pasted() -> None:
    assert "a: \u202e\n\tb" in RENDERER.page(plan_page("a: \u202e\n\tb", None))
    html = RENDERER.page(plan_page("a: </textarea><script>x</script>", None))
    assert "a: &lt;/textarea&gt;&lt;script&gt;" in html
    checked(html)


def test_a_change_of_a_part_is_one_message_of_the_stream() -> None:
    begin, end = '<hx-partial hx-target="#jobs" hx-swap="outerMorph">', "</hx-partial>"
    found = change("jobs", "<p>one\ntwo\n\nthree</p>")
    assert found == f"data: {begin}<p>one\ndata: two\ndata: \ndata: three</p>{end}\n\n"


@pytest.mark.parametrize("ending", ["\n", "\r", "\r\n", "\u2028", "\x0b", "\x85"])
def test_no_text_of_an_object_can_end_a_message_of_the_stream(ending: str) -> None:
    message = change("jobs", f"<p>a{ending}{ending}data: b</p>")
    assert not re.search(r"(\r\n|\r|\n)(\r\n|\r|\n)", message.removesuffix("\n\n"))
    assert all(line.startswith("data: ") for line in re.split(r"\r\n|\r|\n", message.removesuffix("\n\n")))


def test_what_is_read_later_is_not_read_out_aloud_but_announced() -> None:
    """A region that is live would be read from top to end as soon as it is there."""
    html = html_of(hostile(), DETAILS[0])
    assert "aria-live" not in html
    assert 'id="said" class="hidden" role="status"' in html


def test_an_ended_job_says_what_became_of_its_pods_and_is_not_explained() -> None:
    picture = Picture()
    ended = job("train", phase="Completed")
    ended["status"] |= {"succeeded": 2, "taskStatusCount": {"worker": {"phase": {"Succeeded": 2}}}}
    tell(picture.jobs, ended)
    html = html_of(cluster_of(picture), job_path("Job", Key("team", "train")))
    assert "2 succeeded of 2" in html
    assert "needed at once" not in html
    assert '<th scope="col" class="number">Succeeded</th>' in html
    assert "The pods no longer exist." in html
    assert 'id="explain"' not in html
    assert 'id="logs"' not in html
