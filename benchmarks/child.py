"""Run a command as the only child of a small process, and print seconds, peak memory and output as JSON.

    python benchmarks/child.py COMMAND [ARGUMENT...]

The kernel counts the memory of the process that starts a command into the peak of the command. A large benchmark would
so measure itself; this file stands between and stays small, hence it imports the standard library only.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time


def main() -> int:
    """Run the command; the exit status is the command's."""
    started = time.perf_counter()
    done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, text=True, check=False)
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    kib = 1 if sys.platform == "darwin" else 1024
    json.dump({"seconds": seconds, "peak": peak * kib, "output": done.stdout}, sys.stdout)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
