"""The chart and install.yaml at the real Kubernetes: what they install runs jobs, with Volcano's names and rights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.deployed import CHART, NAMESPACE, ROOT, Site, real_site, recorded_job
from cluster.up_process import until

BUNDLE = "jsonpath={.webhooks[0].clientConfig.caBundle}"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with real_site(tmp_path) as running:
        yield running


def test_one_helm_install_runs_jobs_with_two_of_each_component(site: Site) -> None:
    two = [word for each in ("scheduler", "controller", "admission") for word in ("--set", f"custom.{each}_replicas=2")]
    site.helm("install", "volcano", str(CHART), "--namespace", NAMESPACE, "--create-namespace", *two)
    site.start_all()
    site.apply(recorded_job("first", 3))
    site.wait_for("first", "Running")
    site.start("volcano-scheduler", 1)
    site.start("volcano-controllers", 1)
    site.stop("volcano-scheduler-0", kill=True)
    site.stop("volcano-controllers-0", kill=True)
    site.apply(recorded_job("second", 3))
    site.wait_for("second", "Running")
    site.stop("volcano-scheduler-1")
    site.stop("volcano-controllers-1")
    site.stop("volcano-admission-0")
