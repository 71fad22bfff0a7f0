"""`kilauea completion`: the shell script that completes the commands and options of all our programs."""

from __future__ import annotations

import click

from kilauea.cli.programs import PROGRAMS as COMPONENTS

PROGRAMS = ("kilauea", "vcctl", "vsub", "vjobs", "vqueues", "vcancel", "vsuspend", "vresume", *COMPONENTS)
"""All installed programs, so that one line in a shell's start-up file is enough."""

EXAMPLES = """\b
Install it:
  bash:  echo 'source <(kilauea completion bash)' >> ~/.bashrc
  zsh:   echo 'source <(kilauea completion zsh)' >> ~/.zshrc      # after the line with compinit
  fish:  kilauea completion fish > ~/.config/fish/conf.d/kilauea.fish
Then start a new shell.
"""


@click.command(short_help="Print the completion script of a shell.", epilog=EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that lets SHELL complete commands and options.

    It covers kilauea, vcctl, vsub, vjobs, vqueues, vcancel, vsuspend, vresume, vc-scheduler, vc-controller-manager and
    vc-webhook-manager.
    """
    for program in PROGRAMS:
        click.echo(script(shell, program))


def script(shell: str, program: str) -> str:
    """The completion script of one program."""
    from click.shell_completion import ShellComplete, get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    variable = f"_{program.replace('-', '_').upper()}_COMPLETE"
    made = kind(click.Command(program), {}, program, variable)
    # Not kind.source, which starts a bash to get its version, and warns without bash.
    return ShellComplete.source(made)
