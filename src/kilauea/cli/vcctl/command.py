"""Commands with the arguments and error messages of Volcano's.

Differences from click: errors of a command go to standard output with exit code 255, wrong usage shows the help
and exits with 1, a group without a subcommand shows its help and exits with 0, option names may use `_` for `-`,
`-n=x` and `--flag=false` work, and extra arguments are ignored.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any, NoReturn, TypeVar

import click
from click.core import ParameterSource

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 120}
FAILED = 255
"""Exit code of a command that failed: -1 as a shell sees it."""
FOR_PROGRAMS = frozenset({"json", "yaml", "name"})
"""Output formats that contain only data, so that errors go to standard error."""
_WORDS = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}


class CommandError(Exception):
    """A command failed; the message is for the user."""


def note(done: str) -> None:
    """Confirm on standard error, because Volcano's command prints nothing and scripts read standard output."""
    click.echo(done, err=True)


class _Entry(click.Command):
    """A command that can run as a program."""

    def main(  # type: ignore[override]  # always exits
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        """Run as a program, and exit."""
        extra.pop("standalone_mode", None)
        try:
            code = super().main(args, prog_name or self.name, standalone_mode=False, **extra)
        except click.UsageError as error:
            _tell(error)
            code = 1
        except (click.Abort, KeyboardInterrupt):
            code = 130
        sys.stdout.flush()
        sys.exit(code if isinstance(code, int) else 0)


def _tell(error: click.UsageError) -> None:
    """The error, and the help of the command."""
    if error.ctx is not None and not isinstance(error, click.NoSuchCommand):
        click.echo(error.ctx.get_usage() + f"\n\nSee '{error.ctx.command_path} --help' for its options.\n", err=True)
    click.echo(f"Error: {_words(error)}", err=True)


def _words(error: click.UsageError) -> str:
    if isinstance(error, click.NoSuchCommand) and error.ctx is not None:
        return f'unknown command "{error.command_name}" for "{error.ctx.command_path}"'
    if isinstance(error, click.NoSuchOption):
        name = error.option_name
        return f"unknown flag: {name}" if name.startswith("--") else f"unknown shorthand flag: {name[1:2]!r} in {name}"
    if isinstance(error, click.BadOptionUsage):
        return f"flag needs an argument: {error.option_name}"
    if isinstance(error, click.BadParameter) and error.param is not None:
        return f'invalid argument for "{", ".join(error.param.opts)}" flag: {error.message}'
    return error.format_message()


class Group(_Entry, click.Group):
    """A group of commands.

    Args:
        strict: True if an unknown word is an error, as it is for a whole program.
    """

    def __init__(self, name: str, help: str, commands: Iterable[click.Command] = (), strict: bool = False) -> None:
        given = {each.name or "": each for each in commands}
        logging = log_options() if strict else []
        super().__init__(
            name, given, help=help, params=[*logging], invoke_without_command=True, context_settings=CONTEXT
        )
        self._strict = strict

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Show the help if there is no command to run."""
        word = next((each for each in args if not each.startswith("-")), None)
        known = {name for each in self.params if each.is_eager for name in each.opts} | {"-h", "--help"}
        if word not in self.commands and (word is None or not self._strict) and not known & set(args):
            if word is not None and not ctx.resilient_parsing:
                click.echo(ctx.get_help(), err=True)
                raise click.NoSuchCommand(word, ctx=ctx)
            args = ["--help"]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order of their definition."""
        return list(self.commands)


class Leaf(_Entry):
    """A command; its function gets the cluster and the values of the options.

    A positional argument sets the name, if the command has a name option that is not set.

    Args:
        name: name of the command.
        callback: the function.
        help: the line of help.
        options: options of the command, in addition to the common ones.
        does: action in the error message, for a program without subcommands: `suspend job`.
    """

    def __init__(
        self,
        name: str,
        callback: Callable[..., Any],
        help: str,
        options: Iterable[click.Parameter],
        does: str = "",
    ) -> None:
        named = [each for each in options if each.name == "name"]
        params = [*options, *common_options(), click.Argument(["words"], nargs=-1, metavar="[NAME]" if named else "")]
        super().__init__(name, params=params, help=help, callback=callback, context_settings=CONTEXT)
        self._does = does

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse arguments in the syntax of Go flags."""
        return super().parse_args(ctx, list(_plain(args, self.params)))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the function, and report errors."""
        from kilauea.cli.vcctl.cluster import Cluster

        given = ctx.params
        words = given.pop("words")
        cluster = Cluster(given.pop("kubeconfig"), given.pop("master"))
        if words and ctx.get_parameter_source("name") is ParameterSource.DEFAULT:
            given["name"] = words[0]
        assert self.callback is not None
        try:
            return _result(self.callback(cluster, **given))
        except Exception as error:
            if not _is_told(error):
                raise
            from kilauea.api.printing import printable

            aside = given.get("output") in FOR_PROGRAMS
            lines = "\n".join(map(printable, _message(error).split("\n")))
            click.echo(f"Failed to {self._does or _path(ctx)}: {lines}", err=aside)
            return FAILED


def _is_told(error: Exception) -> bool:
    """True if an error is intended for the user."""
    from kilauea.api.ports import ApiError
    from kilauea.client.access import AccessError

    return isinstance(error, (CommandError, ApiError, AccessError))


def _message(error: Exception) -> str:
    from kilauea.api.ports import ApiError
    from kilauea.cli.api_errors import refusal_text

    return refusal_text(error) if isinstance(error, ApiError) else str(error)


def _result(answer: Any) -> Any:
    """The result of a function, which may be a coroutine function."""
    if not isinstance(answer, Coroutine):
        return answer
    import asyncio

    return asyncio.run(answer)


def _path(ctx: click.Context) -> str:
    """The command and its groups, innermost first, without the program: `list job`."""
    return " ".join(reversed(ctx.command_path.split()[1:]))


Program = TypeVar("Program", bound=click.Command)


def with_version(program: Program) -> Program:
    """A program with the option `--version`."""

    def show(ctx: click.Context, param: click.Parameter, asked: bool) -> None:
        if asked and not ctx.resilient_parsing:
            from kilauea.version import __version__

            click.echo(f"{program.name} {__version__}")
            ctx.exit()

    words = "Show the version and exit."
    program.params.append(
        click.Option(["--version"], is_flag=True, expose_value=False, is_eager=True, callback=show, help=words)
    )
    return program


def common_options() -> list[click.Parameter]:
    """Options that every command has."""
    return [
        click.Option(
            ["-s", "--master"], default="", metavar="URL", help="Address of the API server; overrides the kubeconfig."
        ),
        click.Option(["-k", "--kubeconfig"], default="", metavar="FILE", help="Kubeconfig for access to the cluster."),
        *log_options(),
    ]


def log_options() -> list[click.Option]:
    """Options of Volcano's programs that have no effect here."""
    names = ("--log-flush-frequency", "-v", "--vmodule")
    return [click.Option([name], hidden=True, expose_value=False) for name in names]


def _plain(args: Sequence[str], params: Iterable[click.Parameter]) -> Iterator[str]:
    """Arguments in click's syntax, converted from Go's."""
    options = {name: each for each in params if isinstance(each, click.Option) for name in each.opts}
    waiting = iter(args)
    for arg in waiting:
        if arg == "--":
            yield arg
            yield from waiting
        elif arg.startswith("--"):
            name, equals, value = arg.partition("=")
            name = name.replace("_", "-")
            option = options.get(name)
            if option is not None and option.is_flag and equals:
                yield from [name] if _switch(option, value) else []
                continue
            yield name + equals + value
            if option is not None and not option.is_flag and not equals:
                yield from _next(waiting)
        elif (option := options.get(arg[:2])) is not None and not option.is_flag:
            yield arg[:2]
            yield from [arg[2:].removeprefix("=")] if len(arg) > 2 else _next(waiting)
        else:
            yield arg


def _next(waiting: Iterator[str]) -> list[str]:
    value = next(waiting, None)
    return [] if value is None else [value]


def _switch(option: click.Option, value: str) -> bool:
    if value.lower() not in _WORDS:
        raise click.BadParameter(f'invalid value "{value}": use true or false', param=option)
    return _WORDS[value.lower()]
