"""Well-known charts are installed, upgraded, rolled back and uninstalled on `kilauea up` with Helm.

`make test-charts` fetches Helm and the charts first; what could not be fetched is skipped.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from charts import sources
from charts.releases import Chart, Helm, chart
from cluster.up_process import running_up


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Helm]:
    """Helm at a cluster of its own."""
    if not sources.helm().exists() or shutil.which("kubectl") is None:
        pytest.skip("Helm or kubectl is missing: run `make test-charts`, which needs Go and kubectl")
    work = tmp_path_factory.mktemp("charts")
    with running_up(work / "data", "--nodes", "3", "--node-cpu", "16", "--node-memory", "64Gi") as server:
        yield Helm(server, work)


@pytest.fixture
def given(request: pytest.FixtureRequest, cluster: Helm) -> Iterator[Chart]:
    """A chart, with the releases that it needs."""
    name = request.param
    needed = [chart(each) for each in sources.LIST["charts"][name].get("needs", ())]
    found = chart(name)
    for each in (found, *needed):
        if not each.folder.exists():
            pytest.skip(f"{each.folder} was not fetched: run `make test-charts`")
    for each in needed:
        cluster.install(each)
    yield found
    for each in reversed(needed):
        cluster.uninstall(each)


@pytest.mark.parametrize("given", sources.LIST["charts"], indirect=True)
def test_a_chart_is_installed_upgraded_rolled_back_and_uninstalled(cluster: Helm, given: Chart) -> None:
    before = cluster.everything()
    cluster.install(given)
    first = cluster.manifest(given)
    _assert_runs(cluster, given, 1)
    if given.tests:
        cluster.test(given)
    cluster.upgrade(given)
    assert cluster.manifest(given) != first
    _assert_runs(cluster, given, 2)
    cluster.roll_back(given)
    assert cluster.manifest(given) == first
    _assert_runs(cluster, given, 3)
    cluster.uninstall(given)
    assert cluster.left(before, given) == set()


def _assert_runs(cluster: Helm, given: Chart, revision: int) -> None:
    """The release is deployed, its hooks succeeded, its pods run, and its objects are as it says."""
    assert cluster.state(given) == (revision, "deployed")
    assert cluster.unfinished_hooks(given) == []
    phases = cluster.pods(given)
    assert len(phases) >= given.pods
    assert set(phases.values()) <= {"Running", "Succeeded"}, phases
    assert cluster.difference(given) == ""


@pytest.mark.parametrize("given", ["web"], indirect=True)
def test_an_atomic_upgrade_whose_pods_find_no_node_is_rolled_back(cluster: Helm, given: Chart) -> None:
    cluster.install(given)
    first = cluster.manifest(given)
    words = ["--reuse-values", "--set", "resources.requests.cpu=1000", "--atomic", "--timeout=8s"]
    with pytest.raises(AssertionError, match="has been rolled back"):
        cluster.helm(given, "upgrade", given.name, str(given.folder), *words)
    assert cluster.manifest(given) == first
    _assert_runs(cluster, given, 3)
    cluster.uninstall(given)
