"""Write the measurements of a day: the input of the flow."""

from __future__ import annotations

import csv
import random
import sys
from pathlib import Path

rng = random.Random(20261123)
path = Path(sys.argv[1]) / "measurements.csv"
with path.open("w", newline="") as file:
    rows = csv.writer(file)
    rows.writerow(["hour", "load"])
    for number in range(240):
        hour = number / 10
        rows.writerow([hour, round(20 + 3 * hour - 0.12 * hour * hour + rng.gauss(0, 1), 3)])
print(f"wrote {sum(1 for _ in path.open()) - 1} rows to {path.name}")
