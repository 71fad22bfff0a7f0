"""Play histories again, or many that no one has played yet.

python tests/system/replay.py --seed 7                 # one, with its acts
python tests/system/replay.py --seed 1000 --count 500  # from a seed on; tells of those that break something
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from system.history import play


def main() -> int:
    """Play; 1 if something was broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1)
    options = parser.parse_args()
    played: Counter[str] = Counter()
    bad = 0
    gc.set_threshold(100_000, 50, 100)  # a history makes many objects and hardly a cycle
    for seed in range(options.seed, options.seed + options.count):
        try:
            broken, (policy, *acts) = play(seed)
        except Exception as error:
            broken, policy, acts = [f"it cannot be played: {error!r}"], "none", []
        played[policy] += 1
        if played.total() % 100 == 0:
            print(f"{played.total()} played", flush=True)
        if options.count == 1:
            print(policy, *acts, sep="\n")
        if broken:
            bad += 1
            print(f"seed {seed} ({policy}):", *broken, sep="\n  ", flush=True)
    for policy, count in sorted(played.items()):
        print(f"{count:6} {policy}")
    print(f"{options.count} histories, {bad} of them break something")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
