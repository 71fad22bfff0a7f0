"""Where the binaries of the real Kubernetes are, and how they are built.

`make kubernetes-binaries` runs this file, and `make test-conformance` runs it with `e2e.test` and programs that are
images. They are built from the versions in go.mod, by Go, into a folder outside the repository:
`$XDG_CACHE_HOME/kilauea/kubernetes/<version>`, where XDG_CACHE_HOME is ~/.cache unless set.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
}
"""Binaries, and the main package of each."""
SUITES = {"e2e.test": "k8s.io/kubernetes/test/e2e"}
"""Test suites, and the package of each; built only when they are asked for by name."""
IMAGES = {"agnhost": "k8s.io/kubernetes/test/images/agnhost", "sample-apiserver": "k8s.io/sample-apiserver"}
"""Programs that are images in the test suites, and the package of each; built only when they are asked for by name."""


def kubernetes_version() -> str:
    """The version that go.mod requires, such as `v1.36.3`."""
    found = re.search(r"^\s*k8s\.io/kubernetes (v\S+)", (HERE / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise LookupError(f"{HERE / 'go.mod'}: requires no k8s.io/kubernetes")
    return found[1]


def folder() -> Path:
    """The folder of the binaries, built or not."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "kilauea" / "kubernetes" / kubernetes_version()


def missing(names: Iterable[str] = PACKAGES) -> list[str]:
    """The binaries that have not been built."""
    return [name for name in names if not os.access(folder() / name, os.X_OK)]


def linker_flags(version: str) -> str:
    """The flags that tell a binary its version, which clients ask for."""
    major, minor, _ = version.removeprefix("v").split(".", 2)
    facts = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    names = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(["-s -w", *(f"-X {name}.{fact}={value}" for name in names for fact, value in facts.items())])


def build(names: Iterable[str] = PACKAGES) -> None:
    """Build what is missing; a binary appears under its name only when it is complete."""
    folder().mkdir(parents=True, exist_ok=True)
    for name in missing(names):
        print(f"kubernetes-binaries: {folder() / name}", flush=True)
        unfinished = folder() / f"{name}.unfinished"
        verb = ["test", "-c", "-vet=off"] if name in SUITES else ["build"]
        command = ["go", *verb, "-p", "2", "-trimpath", "-mod=readonly", "-buildvcs=false"]
        command += ["-ldflags", linker_flags(kubernetes_version()), "-o", str(unfinished)]
        command += [(PACKAGES | SUITES | IMAGES)[name]]
        subprocess.run(command, cwd=HERE, check=True, env={**os.environ, "CGO_ENABLED": "0"})
        unfinished.rename(folder() / name)


def main(arguments: Sequence[str]) -> int:
    """Build what is named, or all binaries; say what stands in the way."""
    names = list(arguments) or list(PACKAGES)
    if unknown := [name for name in names if name not in PACKAGES | SUITES | IMAGES]:
        print(f"kubernetes-binaries: {unknown[0]} is not one of {', '.join(PACKAGES | SUITES | IMAGES)}")
        return 2
    if missing(names) and shutil.which("go") is None:
        print("kubernetes-binaries: Go is not installed; nothing was built")
        return 1
    try:
        build(names)
    except subprocess.CalledProcessError as failure:
        return int(failure.returncode)
    print(f"kubernetes-binaries: {', '.join(names)} in {folder()}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
