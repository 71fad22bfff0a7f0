"""From models of pages to HTML. All text from objects is escaped: names with markup are shown as text.

Nonprinting characters, such as directional marks, are escaped as in terminals: they could make a text look like
another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined

from kilauea.api.ages import human_duration
from kilauea.api.printing import printable
from kilauea.api.times import SECOND, format_time
from kilauea.dashboard.amounts import short_name, shown
from kilauea.dashboard.pages import LINKS, Page, Part, job_path, node_path
from kilauea.dashboard.rows import Amounts
from kilauea.engine.model.resources import PODS, order_of

_LINES_AND_TABS = re.compile(r"([\n\t])")


class Renderer:
    """Templates, read once.

    Args:
        now: the time, in microseconds since 1970.
        server: the address of the cluster to show.
    """

    def __init__(self, now: Callable[[], int], server: str) -> None:
        self._now = now
        environment = Environment(
            loader=PackageLoader("kilauea.dashboard"),
            autoescape=True,
            finalize=_visible,
            undefined=StrictUndefined,
            trim_blocks=False,
            auto_reload=False,
        )
        environment.filters.update(age=self._age, iso=_iso, short=short_name, requests=_requests, with_query=with_query)
        environment.globals.update(links=LINKS, server=server, job_path=job_path, node_path=node_path, render=self.part)
        self._environment = environment

    def page(self, page: Page, live: str = "") -> str:
        """A whole page.

        Args:
            page: the page.
            live: address of the stream of its changes; empty for a page that does not change.
        """
        return self._environment.get_template("base.html").render(page=page, live=live)

    def part(self, part: Part) -> str:
        """A part of a page."""
        return self.template(part.template, part.model)

    def template(self, name: str, model: Mapping[str, Any]) -> str:
        """Render a template with a model."""
        return self._environment.get_template(name).render(model=model)

    def login(self, label: str, error: str = "") -> str:
        """The login page; `label` describes the required secret."""
        return self._environment.get_template("login.html").render(label=label, error=error)

    def _age(self, at: int) -> str:
        return human_duration((self._now() - at) // SECOND)


def change(id: str, html: str) -> str:
    """A message of the live stream that replaces a part of the page."""
    content = f'<hx-partial hx-target="#{id}" hx-swap="outerMorph">{html}</hx-partial>'
    return "".join(f"data: {line}\n" for line in content.splitlines()) + "\n"


def with_query(path: str, query: Mapping[str, Any], **changed: Any) -> str:
    """A path with a query in which some values are changed; None removes one."""
    merged = {**query, **changed}
    found = {name: value for name, value in merged.items() if value not in (None, "")}
    return f"{path}?{urlencode(found)}" if found else path


def _visible(value: object) -> object:
    """A value for display: text without nonprinting characters, but with its line breaks and tabs."""
    if hasattr(value, "__html__"):
        return value
    return "".join(part if part in ("\n", "\t") else printable(part) for part in _LINES_AND_TABS.split(str(value)))


def _iso(at: int) -> str:
    return format_time(at // SECOND * SECOND)


def _requests(amounts: Amounts) -> str:
    names = sorted((name for name, amount in amounts.items() if amount and name != PODS), key=order_of)
    return ", ".join(f"{shown(name, amounts[name])} {short_name(name)}" for name in names)
