"""A coverage-guided fuzz target for atheris: bytes through everything that `kilauea plan` does.

atheris is not a requirement of this repository: it has no wheels for every machine that Kilauea is built on. Where
it has (CPython 3.11 on Linux x86-64 or macOS) no compiler is needed:

    python3.11 -m venv ../fuzzing
    ../fuzzing/bin/pip install atheris hypothesis -r requirements/runtime.txt
    PYTHONPATH=src:tests ../fuzzing/bin/python tests/fuzz/atheris_plan.py -max_total_time=300 ../fuzzing/found

Arguments are those of libFuzzer; the last one is a folder that collects inputs which reach something new. It stops at
the first failure and writes the input to a file `crash-...`; the same command with that file instead of the folder runs
it again. A failure belongs into `corpus/`, made small, with a test in `test_corpus`.

Half of the mutations are atheris' own, of the bytes; the others read the input as manifests, a line each, and spoil one
part as the other fuzz tests do.
"""

from __future__ import annotations

import copy
import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import atheris

with atheris.instrument_imports(include=["kilauea"]):
    from fuzz import confs
    from fuzz.harness import DEFAULT_CONF, broken_laws, faults, lines_of, run, within
    from fuzz.world import NUMBERS, ODD, TEXTS, cluster, find, paths
    from kilauea.engine.actions import ACTIONS
    from kilauea.engine.conf import QUEUE_PLUGINS, parse_conf
    from kilauea.engine.plugins import PLUGINS

FOLDER = Path(tempfile.mkdtemp(prefix="kilauea-fuzz-"))
CONFS = [DEFAULT_CONF, *(parse_conf(confs.everything(queues), PLUGINS, ACTIONS) for queues in QUEUE_PLUGINS)]


def plan_bytes(data: bytes) -> None:
    """Plan an input; the configuration follows from it, so that a crash can be repeated."""
    source = FOLDER / "objects"
    source.write_bytes(data)
    with within():
        outcome = run(source, CONFS[sum(data) % len(CONFS)])
        if outcome.result is not None:
            assert broken_laws(outcome.result.plan, outcome.result.state) == []
            assert faults(outcome.result.plan) == []


def mutated(data: bytes, most: int, seed: int) -> bytes:
    """An input like this one."""
    rng = random.Random(seed)
    manifests = read(data)
    if not manifests or rng.random() < 0.5:
        return bytes(atheris.Mutate(data, most))
    if rng.random() < 0.2:
        manifests.insert(rng.randrange(len(manifests) + 1), rng.choice(cluster()))
    for _ in range(rng.randint(1, 3)):
        spoil(manifests, rng)
    text = lines_of(manifests)
    return text if len(text) <= most else bytes(atheris.Mutate(data, most))


def read(data: bytes) -> list[Any]:
    """The manifests of an input that is one a line; none of any other input."""
    try:
        return [json.loads(line) for line in data.splitlines()]
    except (ValueError, RecursionError):
        return []


def spoil(manifests: list[Any], rng: random.Random) -> None:
    """Give one part of one manifest another value."""
    number = rng.randrange(len(manifests))
    places = paths(manifests[number])
    if not places:
        return
    path = rng.choice(places)
    parent = find(manifests[number], path[:-1])
    kind = rng.randrange(5)
    if kind == 0:
        del parent[path[-1]]
    elif kind == 1:
        other = rng.choice(manifests)
        parent[path[-1]] = copy.deepcopy(find(other, rng.choice([(), *paths(other)])))
    else:
        parent[path[-1]] = copy.deepcopy(rng.choice((ODD, TEXTS, NUMBERS)[kind - 2]))


def main() -> None:
    """Fuzz, beginning with valid clusters and with what failed once."""
    seeds = Path(tempfile.mkdtemp(prefix="kilauea-seeds-"))
    valid = cluster()
    starts = [valid, *([manifest] for manifest in valid), *(valid[i::3] for i in range(3))]
    for number, manifests in enumerate(starts):
        (seeds / f"valid-{number}").write_bytes(lines_of(manifests))
    for source in (Path(__file__).parent / "corpus").iterdir():
        (seeds / source.name).write_bytes(source.read_bytes())
    given = sys.argv[1:]
    folders = [] if given and Path(given[-1]).is_file() else [str(seeds)]
    atheris.Setup([sys.argv[0], "-max_len=60000", *given, *folders], plan_bytes, custom_mutator=mutated)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
