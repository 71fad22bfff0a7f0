"""Operators in tests: one at a cluster of ours or at the real Kubernetes, and what its pods do there.

with installed("jobset", site, folder):
    site.kubectl("apply", "-f", "-", given=text)
"""

from __future__ import annotations

import fcntl
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.api_process import Server
from cluster.deployed import free_port
from cluster.real_product import Product
from cluster.up_process import kubectl
from support.pages import ROOT

sys.path.insert(0, str(ROOT / "tests/kubernetes"))
try:
    import real_operators
finally:
    sys.path.remove(str(ROOT / "tests/kubernetes"))

Obj = dict[str, Any]
lacks = real_operators.lacks


@dataclass(frozen=True)
class Site:
    """A cluster that operators run at.

    Attributes:
        kubeconfig: of its administrator.
        kubectl: runs kubectl there; it must not fail.
    """

    kubeconfig: Path
    kubectl: Callable[..., str]

    @classmethod
    def of(cls, server: Server | Product) -> Site:
        """A cluster of ours, or our product at the real Kubernetes."""
        return cls(server.kubeconfig, server.kubectl if isinstance(server, Product) else partial(kubectl, server))

    def get(self, *words: str) -> Any:
        """Objects, decoded."""
        return json.loads(self.kubectl("get", *words, "-o", "json"))

    def apply(self, *objects: Obj) -> None:
        """Apply objects."""
        self.kubectl("apply", "-f", "-", given=yaml.safe_dump_all(objects))


def need(*names: str) -> None:
    """Skip a test where an operator cannot run."""
    for name in names:
        if reason := lacks(name):
            pytest.skip(reason)


@contextmanager
def installed(name: str, site: Site, home: Path, *options: str) -> Iterator[Path]:
    """An operator at a cluster for the length of a block, with its log."""
    cluster = yaml.safe_load(site.kubeconfig.read_text())["clusters"][0]["cluster"]
    home.mkdir(exist_ok=True)
    # Some operators listen on a fixed port too, so an operator does not run twice at the same time.
    with (Path(tempfile.gettempdir()) / f"kilauea-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ports = [free_port() for _ in range(3)]
        with real_operators.running_operator(name, site.kubectl, cluster, home, ports, *options) as log:
            yield log
