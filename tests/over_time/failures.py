"""A history that breaks a law becomes a file for `kilauea plan`, which shows the fault without the tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import yaml

from over_time.history import History, Moment, as_file, play
from over_time.laws import broken

FOLDER = Path(__file__).resolve().parents[2] / "build" / "laws"
"""Where failing histories are written."""


def law_of(sentence: str) -> str:
    """The name of the law that a sentence is about."""
    return sentence.partition(":")[0]


Judge = Callable[[History], list[str]]
"""Says what a history breaks."""


def shortened(history: History, laws: set[str], judge: Judge = broken) -> tuple[Moment, History, list[str]]:
    """The latest moment from which the cluster breaks one of the laws with no change from outside, and what follows.

    Changes cannot be told in a file, but every moment can: what is decided depends on the objects alone.
    """
    for moment in [*history.moments[history.calm :: -1], *history.moments[history.calm + 1 :]]:
        again = play(history.conf, moment.objects, now=moment.now)
        found = [sentence for sentence in judge(again) if law_of(sentence) in laws]
        if found:
            return moment, again, found
    raise AssertionError(f"what broke {sorted(laws)} does not happen again from any moment of the history")


def write(name: str, history: History, sentences: list[str], folder: Path = FOLDER, judge: Judge = broken) -> str:
    """Write the files of a failure; returns what is broken and the command that shows it."""
    moment, again, found = shortened(history, set(map(law_of, sentences)), judge)
    folder.mkdir(parents=True, exist_ok=True)
    cluster, conf = folder / f"{name}.yaml", folder / f"{name}.conf"
    command = f"kilauea plan -f {cluster} --scheduler-conf {conf} --cycles {max(len(again.moments), 2)}"
    told = [*found, command]
    cluster.write_text("".join(f"# {line}\n" for line in told) + as_file(moment))
    conf.write_text(yaml.safe_dump(history.conf, sort_keys=False))
    return "\n".join(told)
