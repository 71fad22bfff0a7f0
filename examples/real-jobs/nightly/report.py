"""Choose the best of the fits, and write the report of the night."""

from __future__ import annotations

import json
import sys
from pathlib import Path

folder = Path(sys.argv[1])
fits = sorted((json.loads(path.read_text()) for path in folder.glob("degree-*.json")), key=lambda fit: fit["error"])
lines = [f"degree {fit['degree']}: {fit['error']:.3f}" for fit in fits]
(folder / "report.txt").write_text("\n".join(lines) + "\n")
print(f"best of {len(fits)} fits: degree {fits[0]['degree']}")
