"""Numatopologies in `kilauea up`: pods get processors by them, and they go with their nodes."""

from __future__ import annotations

from pathlib import Path

from cluster.up_process import PODS, apply, group, pod, running_up, until

TOPOLOGIES = "/apis/nodeinfo.volcano.sh/v1alpha1/numatopologies"
CONF = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: gang}, {name: predicates}, {name: numa-aware}]
"""


def test_pods_get_processors_by_a_numatopology_and_it_goes_with_its_node(tmp_path: Path) -> None:
    conf = tmp_path / "scheduler.yaml"
    conf.write_text(CONF)
    with running_up(tmp_path / "data", "--nodes", "2", "--scheduler-conf", str(conf)) as server:
        client = server.client()
        first, second = (each["metadata"]["name"] for each in client.get("/api/v1/nodes")["items"])
        spec = {
            "policies": {"CPUManagerPolicy": "static", "TopologyManagerPolicy": "single-numa-node"},
            "numares": {"cpu": {"allocatable": "0-3", "capacity": 4}},
            "cpuDetail": {str(cpu): {"numa": cpu // 2, "socket": cpu // 2, "core": cpu} for cpu in range(4)},
        }
        kind = {"apiVersion": "nodeinfo.volcano.sh/v1alpha1", "kind": "Numatopology"}
        apply(server, {**kind, "metadata": {"name": first}, "spec": spec})
        policy = {"volcano.sh/numa-topology-policy": "single-numa-node"}
        wanting = pod("whole", group="whole", cpu="2", **policy)
        resources = {"cpu": "2", "memory": "128Mi"}
        wanting["spec"]["containers"][0]["resources"] = {"requests": resources, "limits": resources}
        apply(server, group("whole", 1), wanting)
        until(lambda: client.get(f"{PODS}/whole")["spec"].get("nodeName") == first, "a pod on the node")
        given = client.get(f"{PODS}/whole")["metadata"]["annotations"]["volcano.sh/topology-decision"]
        assert given == '{"numa":{"0":{"cpu":"2"}}}'
        apply(server, {**kind, "metadata": {"name": "early"}, "spec": spec}, {**kind, "metadata": {"name": second}})
        assert client.send("DELETE", f"/api/v1/nodes/{first}").code == 200

        def names() -> list[str]:
            return [each["metadata"]["name"] for each in client.get(TOPOLOGIES)["items"]]

        until(lambda: sorted(names()) == sorted(["early", second]), "the Numatopology to go with its node")
