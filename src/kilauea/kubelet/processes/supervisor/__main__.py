"""Start the supervisor: `python -I -S supervisor/__main__.py FOLDER`.

It runs without the folders of installed packages, and finds its package by the location of this file.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).resolve().parents[4]))

    from kilauea.kubelet.processes.supervisor.program import main

    main(sys.argv[1:])
