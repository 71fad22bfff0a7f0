"""Writes docs/reference and docs/pictures from the code: session and plugins here, the rest in docs/generators.

    python docs/generate_reference.py

A test tells when the pages are not what this script would write.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from generators.commands import kilauea_page, vcctl_page
from generators.configuration import configuration_page
from generators.docstrings import assigned, attribute_docs, entries, prose, signature
from generators.metrics import metrics_page
from generators.pictures import PICTURES
from generators.python_api import python_page
from generators.reasons import reasons_page
from generators.resources import resources_page
from kilauea.engine.action import Action
from kilauea.engine.conf import FLAGS, PluginConf, SchedulerConf, flag_of
from kilauea.engine.extension import FLAGS as POINTS
from kilauea.engine.extension import ExtensionPoints, Rejection, Scope
from kilauea.engine.extension import points as extension
from kilauea.engine.extension.points import answers
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.model.tasks import Task
from kilauea.engine.opening import open_plugins
from kilauea.engine.plan import Refusal
from kilauea.engine.plugin import Plugin
from kilauea.engine.plugins import PLUGINS
from kilauea.engine.session import Session
from kilauea.engine.state import ClusterState
from kilauea.engine.statement import Statement

FOLDER = Path(__file__).resolve().parent / "reference"
MADE = "<!-- Made by docs/generate_reference.py from the docstrings; do not edit. -->"
BLANK = ""

SESSION_METHODS = (
    "waiting_jobs jobs_where in_order shape_of fits evaluation statement allocate_at_once admit refuse".split()
)
"""Methods of the session for plugins and actions; the others belong to the engine."""
THINGS = (NodeRows, TaskShape, Task, Job, Queue, Refusal, Rejection, Scope)
"""Types that the session and the extension points return and accept."""
HEADINGS = ("What", "Why", "Arguments", "Example", "Difference from the original")


# --- what classes have


def members(*classes: type[Any]) -> dict[str, Any]:
    """Public functions and properties that classes define themselves, in their order."""
    return {
        name: member
        for of in classes
        for name, member in vars(of).items()
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property))
    }


def sections_of(of: type[Any]) -> list[tuple[str, list[str]]]:
    """Public methods of a class below the `# --- title` that they stand under."""
    lines, first = inspect.getsourcelines(of)
    titles = [(first + i, line.strip()[6:]) for i, line in enumerate(lines) if line.startswith("    # --- ")]
    out: list[tuple[str, list[str]]] = [("", [])]
    for name, member in members(of).items():
        at = member.__code__.co_firstlineno
        title = next((title for line, title in reversed(titles) if line < at), "")
        if title != out[-1][0]:
            out.append((title, []))
        out[-1][1].append(name)
    return out


def type_names() -> Iterator[str]:
    """The type names in signatures, with their definitions."""
    body = ast.parse(inspect.getsource(answers)).body
    for statement in body:
        name = assigned(statement, "")
        if isinstance(statement, ast.Assign) and re.fullmatch("[A-Z][a-z]+([A-Z][a-z]+)*", name):
            yield f"- `{name}` = `{ast.unparse(statement.value)}`"


# --- the session


def session_page() -> str:
    """The page about the session."""
    lines = [
        "# The session",
        BLANK,
        MADE,
        BLANK,
        "Plugins get the session in `on_session_open`, actions in `execute`. They may use only what this page lists; "
        "everything else is internal to the engine and may change.",
        BLANK,
        *_contract(),
        "## Attributes",
        BLANK,
        *table(["attribute", "meaning"], _attributes_of_session()),
        BLANK,
        "## Extension points",
        BLANK,
        prose(extension.__doc__).split("\n\n", 1)[1],
        BLANK,
        "Register each function under the name of the plugin: `session.add_job_order(self.name, key)`. The flag in "
        "brackets disables the plugin at that point.",
        BLANK,
        *_points(lambda name: name.startswith("add_")),
        "## Calling the plugins",
        BLANK,
        "Actions call these; each combines the results of all plugins.",
        BLANK,
        *_points(lambda name: not name.startswith("add_")),
        "## Jobs, tasks and nodes",
        BLANK,
        *(line for name in SESSION_METHODS for line in _method(name, getattr(Session, name))),
        BLANK,
        "## A statement",
        BLANK,
        prose(inspect.getmodule(Statement).__doc__),
        BLANK,
        *(line for name, member in members(Statement).items() if name != "take" for line in _method(name, member)),
        BLANK,
        "## Types",
        BLANK,
        "Votes are `PERMIT`, `ABSTAIN` and `REJECT`; they and these types are in `kilauea.engine.extension`:",
        BLANK,
        *type_names(),
        BLANK,
        *(line for thing in THINGS for line in _thing(thing)),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _contract() -> list[str]:
    lines = []
    for title, base in (("plugin", Plugin), ("action", Action)):
        lines += [f"## A{'n' if title[0] in 'aeiou' else ''} {title}", BLANK]
        lines += [prose(inspect.getmodule(base).__doc__), BLANK]
        doc = inspect.cleandoc(base.__doc__ or "").partition("Class attributes:")[2]
        lines += [f"- `{name}`: {text}" for name, text in entries(doc)]
        lines += [line for name, member in members(base).items() for line in _method(name, member)]
        lines.append(BLANK)
    return lines


def _attributes_of_session() -> list[list[str]]:
    doc = inspect.cleandoc(Session.__doc__ or "").partition("Attributes:")[2]
    return [[f"`{name}`", text] for name, text in entries(doc)]


def _points(chosen: Callable[[str], bool]) -> Iterator[str]:
    for title, names in (section for theme in ExtensionPoints.__bases__ for section in sections_of(theme)):
        shown = [name for name in names if chosen(name) and hasattr(Session, name)]
        if title and shown:
            yield from (f"### {title[:1].upper()}{title[1:]}", BLANK)
            for name in shown:
                yield from _method(name, getattr(ExtensionPoints, name), _flags(name.removeprefix("add_")))
            yield BLANK


def _flags(point: str) -> str:
    flags = [f"`{FLAGS[flag]}`" for flag in POINTS.get(point, ())]
    return f" [{' or '.join(flags)}]" if flags else ""


def _method(name: str, member: Any, more: str = "") -> Iterator[str]:
    head = name if isinstance(member, property) else signature(name, member)
    first, *rest = prose(member.__doc__).split("\n\n")
    yield f"- **`{head}`**{more}<br>"
    yield f"  {first}"
    for paragraph in rest:
        yield BLANK
        yield textwrap.indent(paragraph, "  ")


def _thing(thing: type[Any]) -> Iterator[str]:
    doc, _, listed = inspect.cleandoc(thing.__doc__ or "").partition("Attributes:")
    yield from (f"### {thing.__name__}", BLANK, f"`{thing.__module__}`", BLANK, prose(doc.strip()), BLANK)
    classes = [c for c in thing.__mro__ if c.__module__.startswith("kilauea.")]
    known: dict[str, str] = {}
    for of in reversed(classes):
        known |= attribute_docs(of)
    known |= dict(entries(listed)) if listed else {}
    yield from (f"- `{name}`: {text}" for name, text in known.items() if text)
    plain = [f"`{name}`" for name, text in known.items() if not text]
    if plain:
        yield f"- {', '.join(plain)}"
    for name, member in members(*classes).items():
        if thing is NodeRows or isinstance(member, property) or name == "pending":
            first = prose(member.__doc__).split("\n\n")[0]
            shown = name if isinstance(member, property) else signature(name, member)
            yield f"- `{shown}`: {first}"
    yield BLANK


# --- the plugins


def plugins_page() -> str:
    """The page about all plugins."""
    names = sorted(PLUGINS)
    lines = [
        "# Plugins",
        BLANK,
        MADE,
        BLANK,
        "List plugins in the tiers of the scheduler configuration. If several plugins register at the same point, "
        "those in the first tier decide first. `kilauea config check` reports errors in a configuration.",
        BLANK,
        *table(["plugin", "what it is for"], [[f"[{name}](#{name})", _summary(PLUGINS[name])] for name in names]),
        BLANK,
    ]
    for name in names:
        lines += _plugin(PLUGINS[name])
    return "\n".join(lines).rstrip() + "\n"


def _docstring(plugin: type[Plugin]) -> str:
    return inspect.cleandoc(inspect.getmodule(plugin).__doc__ or "")


def _summary(plugin: type[Plugin]) -> str:
    return " ".join(_docstring(plugin).split("\n\n")[0].split())


def _plugin(plugin: type[Plugin]) -> list[str]:
    parts = re.split(rf"^({'|'.join(HEADINGS)}):$", _docstring(plugin), flags=re.MULTILINE)
    text = {title: textwrap.dedent(body).strip("\n") for title, body in zip(parts[1::2], parts[2::2], strict=True)}
    lines = [f"## {plugin.name}", BLANK, _summary(plugin), BLANK]
    lines += [prose(text["What"]), BLANK, f"**Why.** {prose(text['Why'])}", BLANK]
    lines += _arguments(plugin, text["Arguments"])
    lines += _asked(plugin)
    example, _, remark = text["Example"].rstrip().partition("\n\n")
    lines += ["```yaml", example, "```", BLANK, *([prose(remark), BLANK] if remark else [])]
    lines += [f"**Difference from Volcano.** {prose(text['Difference from the original'])}", BLANK]
    return lines


def _told(text: str) -> tuple[dict[str, str], list[str]]:
    """Arguments in the docstring by key (`key (type, default): text`), and the rest of the docstring."""
    by_key: dict[str, str] = {}
    remarks = []
    for paragraph in text.split("\n\n"):
        text_of_all = " ".join(line.strip() for line in paragraph.split("\n"))
        for joined in re.split(r"(?<=\.) (?=[\w.-]+ \((?:integer|number|text|true or false|map|list))", text_of_all):
            found = re.fullmatch(r"((?:[\w.-]+ \([^)]*\)(?:, )?)+): (.*)", joined)
            if found is None:
                remarks.append(joined)
                continue
            for key in re.findall(r"([\w.-]+) \(", found[1]):
                by_key[key] = found[2][:1].upper() + found[2][1:]
    return by_key, remarks


def _arguments(plugin: type[Plugin], text: str) -> list[str]:
    told, remarks = _told(text)
    rows = list(_argument_rows(plugin.Arguments, told))
    if not rows:
        return [f"**Arguments.** {prose(text)}", BLANK]
    shown_rows = table(["key", "type", "default", "allowed", "what it does"], rows)
    return ["**Arguments.**", BLANK, *shown_rows, BLANK, *(line for r in remarks for line in (r, BLANK))]


def _argument_rows(of: type[Any], told: Mapping[str, str], prefix: str = "") -> Iterator[list[str]]:
    """A row for each argument; those in a map have the key of the map before their own."""
    for field in dataclasses.fields(of):
        key, values = prefix + field.metadata["key"], field.metadata["values"]
        if dataclasses.is_dataclass(field.default):
            yield from _argument_rows(type(field.default), told, f"{key}.")
            continue
        if isinstance(values, type) and dataclasses.is_dataclass(values):
            yield from _argument_rows(values, told, f"{key}.NAME.")
            continue
        family = field.default_factory is not dataclasses.MISSING
        default = "" if family or field.default == () else field.default
        kind = values.__name__ if family else type(field.default).__name__
        shown_key = key + ("NAME" if key.endswith(".") else ".NAME" if prefix else "") if family else key
        shown = f"`{str(default).lower() if isinstance(default, bool) else default}`" if default != "" else ""
        doc = told.get(shown_key) or field.metadata["doc"]
        yield [f"`{shown_key}`", _KINDS[kind], shown, _bounds(field), doc]


_KINDS = {"int": "integer", "float": "number", "bool": "true or false", "str": "text", "tuple": "list"}


def _bounds(field: dataclasses.Field[Any]) -> str:
    choices = field.metadata.get("choices", ())
    if choices:
        return ", ".join(f"`{choice}`" for choice in choices)
    minimum, maximum = field.metadata.get("minimum"), field.metadata.get("maximum")
    if minimum is not None and maximum is not None:
        return f"{minimum:g} to {maximum:g}"
    return f"at least {minimum:g}" if minimum is not None else "" if maximum is None else f"at most {maximum:g}"


def _asked(plugin: type[Plugin]) -> list[str]:
    """At which points the plugin registers, over an empty cluster and without arguments."""
    conf = SchedulerConf((), ((PluginConf(plugin.name, {flag_of("enableHierarchy"): False}),),))
    session = Session(ClusterState(), conf, 0, None)
    try:
        open_plugins(session, conf, PLUGINS)
        points = [point for point in POINTS if session.points.tiers_of(point) and hasattr(Session, f"add_{point}")]
    finally:
        session.close()
    if not points:
        return []
    shown = ", ".join(f"`{point}`{_flags(point)}" for point in points)
    return [f"**Registers at** {shown}.", BLANK]


def table(heading: list[str], rows: list[list[str]]) -> list[str]:
    """A table in Markdown."""
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return [f"| {' | '.join(row)} |" for row in (heading, ["---"] * len(heading), *cells)]


PAGES = {
    "configuration.md": configuration_page,
    "kilauea.md": kilauea_page,
    "metrics.md": metrics_page,
    "plugins.md": plugins_page,
    "python.md": python_page,
    "reasons.md": reasons_page,
    "resources.md": resources_page,
    "session.md": session_page,
    "vcctl.md": vcctl_page,
}


def main() -> None:
    """Write all pages and pictures."""
    for folder, made in ((FOLDER, PAGES), (FOLDER.parent / "pictures", PICTURES)):
        folder.mkdir(exist_ok=True)
        for name, content in made.items():
            (folder / name).write_text(content())


if __name__ == "__main__":
    main()
