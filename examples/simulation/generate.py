"""Writes jobs.csv: a made-up day of two teams on 32 cards. It shows the form of a trace, and nothing about real users.

python examples/simulation/generate.py > examples/simulation/jobs.csv
"""

from __future__ import annotations

import csv
import random
import sys

DAY = 86_400
JOBS = {"research": 54, "product": 30}


def main() -> None:
    """Draw the jobs: research comes during the day and in gangs, product comes evenly and alone."""
    rng = random.Random(19)
    rows = []
    for queue, count in JOBS.items():
        for number in range(count):
            if queue == "research":
                submit, pods, gpu = rng.gauss(DAY * 0.45, DAY * 0.14), rng.choice((1, 2, 4)), rng.choice((2, 4, 4))
            else:
                submit, pods, gpu = rng.uniform(0, DAY), 1, rng.choice((2, 4, 8))
            minutes = min(300, max(5, round(rng.lognormvariate(3.8, 0.8))))
            amounts = (2 * gpu, f"{16 * gpu}Gi", gpu)
            rows.append((round(max(0, submit)), f"{queue}-{number}", f"{minutes}m", pods, *amounts, queue))
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(("submit", "name", "duration", "pods", "cpu", "memory", "gpu", "queue"))
    table.writerows(sorted(rows))


if __name__ == "__main__":
    main()
