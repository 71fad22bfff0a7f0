"""The pages about the commands: `kilauea` with its subcommands, and `vcctl` with its siblings."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from generators.markdown import BLANK, code, page, table
from kilauea.cli.main import main
from kilauea.cli.programs import PROGRAMS, program
from kilauea.cli.vcctl import programs

SIBLINGS = ("vsub", "vjobs", "vqueues", "vcancel", "vsuspend", "vresume")


def kilauea_page() -> str:
    """All subcommands of `kilauea`."""
    introduction = (
        "Every subcommand with its options, as `kilauea COMMAND --help` prints them. Exit codes: 0 success, "
        "1 failure, 2 wrong usage or an invalid configuration; `kilauea run` exits with that of the job."
    )
    programs_of_volcano = [_program(name) for name in PROGRAMS]
    return page("kilauea", introduction, _command(main, "kilauea", 2), *programs_of_volcano)


def _program(name: str) -> Iterator[str]:
    """A program of Volcano: the command that it is, and its flags without effect."""
    same = PROGRAMS[name]
    yield from (f"## {name}", BLANK)
    yield f"Volcano's name for [`kilauea {same}`](#kilauea-{same}). Its options can be written with `_` instead of `-`."
    yield "These Volcano flags have no effect, and cause a warning:"
    yield BLANK
    hidden = [each for each in program(name).params if isinstance(each, click.Option) and each.help and each.hidden]
    yield from table(["flag", "why"], [[code(each.opts[0]), _escaped(each.help or "")] for each in hidden])


def vcctl_page() -> str:
    """All subcommands of `vcctl`, and its siblings."""
    introduction = (
        "Every subcommand with its options, as `vcctl GROUP COMMAND --help` prints them. "
        "[vcctl](../concepts/vcctl.md) explains how they are used. "
        "Exit codes: 0 success, 255 failure, 1 wrong usage."
    )
    parts = [_command(programs.vcctl_command(), "vcctl", 2)]
    parts += [_command(getattr(programs, f"{name}_command")(), name, 2) for name in SIBLINGS]
    return page("vcctl and its siblings", introduction, *parts)


def _command(command: click.Command, path: str, level: int) -> Iterator[str]:
    context = click.Context(command, info_name=path, max_content_width=100, terminal_width=100)
    yield from (f"{'#' * level} {path}", BLANK)
    usage = " ".join((path, *command.collect_usage_pieces(context))).rstrip()
    yield from ("```text", usage, "```", BLANK)
    text = _prose(command.help or command.short_help or "")
    if text:
        yield from (text, BLANK)
    options = (
        each for each in command.get_params(context) if isinstance(each, click.Option) and "--help" not in each.opts
    )
    rows = [record for option in options if (record := option.get_help_record(context))]
    if rows:
        yield from table(["option", "meaning"], [[code(names), _escaped(meaning)] for names, meaning in rows])
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from _command(below, f"{path} {name}", min(level + 1, 4))


def _prose(text: str) -> str:
    """The help of a command as paragraphs; a block that click leaves as it is stays one."""
    paragraphs = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        lines = [line.strip() for line in paragraph.splitlines()]
        if lines[0] == "\b":
            paragraphs.append("\n".join(["```text", *lines[1:], "```"]))
        else:
            paragraphs.append(_escaped(" ".join(lines)))
    return "\n\n".join(paragraphs)


def _escaped(text: str) -> str:
    return re.sub(r"(?<!`)[<>*](?!`)", lambda found: f"\\{found[0]}", text)
