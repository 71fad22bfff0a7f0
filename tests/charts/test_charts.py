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
    cluster.put_beside(found)
    yield found
    cluster.remove_beside(found)
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


@pytest.mark.parametrize("given", ["web"], indirect=True)
def test_a_dry_run_at_the_server_changes_nothing(cluster: Helm, given: Chart) -> None:
    before = cluster.everything()
    said = cluster.helm(given, "install", given.name, str(given.folder), "--create-namespace", "--dry-run=server")
    assert "kind: Deployment" in said
    assert cluster.everything() == before


@pytest.mark.parametrize("given", ["web"], indirect=True)
def test_objects_that_exist_are_taken_over_and_replaced_and_an_uninstalled_release_returns(
    cluster: Helm, given: Chart
) -> None:
    place = ["--namespace", given.namespace]
    cluster.run("kubectl", "delete", "namespace", given.namespace, "--ignore-not-found")  # Helm leaves it
    cluster.run("kubectl", "create", "namespace", given.namespace)
    cluster.run("kubectl", "create", "service", "clusterip", given.name, "--tcp=80:80", *place)
    with pytest.raises(AssertionError, match="cannot be imported into the current release"):
        cluster.install(given)
    cluster.install(given, "--take-ownership")
    first = cluster.manifest(given)
    words = ["--reset-then-reuse-values", "--set", "autoscaling.minReplicas=3", "--force", "--wait"]
    cluster.helm(given, "upgrade", given.name, str(given.folder), *words)
    assert cluster.manifest(given) != first
    _assert_runs(cluster, given, 2)
    cluster.helm(given, "uninstall", given.name, "--keep-history", "--cascade", "foreground", "--wait")
    cluster.roll_back(given)
    assert cluster.manifest(given) == first
    _assert_runs(cluster, given, 3)
    cluster.uninstall(given)
    cluster.run("kubectl", "delete", "namespace", given.namespace)
