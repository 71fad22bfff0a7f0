"""Fit a polynomial of a degree to the measurements, by least squares, and write how well it fits."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

folder, degree = Path(sys.argv[1]), int(sys.argv[2])
with (folder / "measurements.csv").open() as file:
    rows = [(float(row["hour"]) / 24, float(row["load"])) for row in csv.DictReader(file)]

# The normal equations, solved by elimination.
size = degree + 1
matrix = [
    [sum(x ** (i + j) for x, _ in rows) for j in range(size)] + [sum(y * x**i for x, y in rows)] for i in range(size)
]
for column in range(size):
    pivot = max(range(column, size), key=lambda row: abs(matrix[row][column]))
    matrix[column], matrix[pivot] = matrix[pivot], matrix[column]
    for row in range(size):
        if row != column:
            factor = matrix[row][column] / matrix[column][column]
            matrix[row] = [a - factor * b for a, b in zip(matrix[row], matrix[column], strict=True)]
weights = [matrix[row][size] / matrix[row][row] for row in range(size)]

error = sum((y - sum(weight * x**power for power, weight in enumerate(weights))) ** 2 for x, y in rows) / len(rows)
(folder / f"degree-{degree}.json").write_text(json.dumps({"degree": degree, "weights": weights, "error": error}))
print(f"degree {degree}: mean square error {error:.3f}")
