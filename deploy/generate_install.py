"""Write deploy/install.yaml, everything that `kubectl apply -f` needs, from the chart and the definitions.

    python deploy/generate_install.py                       # needs Helm
    python deploy/generate_install.py --output my.yaml --set basic.image_registry=registry.example.com

The namespace and the definitions of custom resources come first, because the rest depends on them. What follows
`--output` is passed to `helm template`. A test tells when the file is out of date.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
CHART = HERE / "helm" / "kilauea"
NAMESPACE = "volcano-system"
RELEASE = "volcano"
"""With this name, objects have the names that Volcano gives them."""
KUBERNETES = "1.36.0"
"""The version to render for; the chart renders the same for all, without policies for 1.29."""
HEAD = """\
# Kilauea for one `kubectl apply -f`. Made by deploy/generate_install.py from the chart; do not edit.
apiVersion: v1
kind: Namespace
metadata:
  name: volcano-system
"""


def rendered(helm: str | Path, words: Sequence[str] = ()) -> str:
    """Return what Helm makes of the chart, with further words of `helm template`."""
    command = [helm, "template", RELEASE, CHART, "--namespace", NAMESPACE, "--kube-version", KUBERNETES, *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise SystemExit(f"generate_install: {helm}: Helm is not installed; the variable HELM can name one") from None
    if done.returncode:
        raise SystemExit(f"generate_install: {' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout


def text(helm: str | Path, words: Sequence[str] = ()) -> str:
    """Return the content of the file."""
    definitions = [path.read_text(encoding="utf-8") for path in sorted((HERE / "crds").glob("*.yaml"))]
    rest = rendered(helm, ["--set", "custom.crds_enable=false", *words])
    rest = re.sub(r"^(?:# Source:.*|[ \t]*)\n", "", rest, flags=re.M).removeprefix("---\n")
    return "---\n".join([HEAD, *definitions, rest])


def main() -> int:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=HERE / "install.yaml", help="[default: deploy/install.yaml]")
    options, words = parser.parse_known_args()
    options.output.write_text(text(os.environ.get("HELM") or "helm", words), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
