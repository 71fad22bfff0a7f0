"""Services of type LoadBalancer get an address, for which Helm and other clients wait."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Network
from typing import Any

import pytest

from kilauea.api.kinds import SERVICES
from kilauea.controllers.load_balancers import LoadBalancerController
from support.controlled import Cluster


@pytest.fixture
def cluster(cluster_of: Callable[..., Cluster]) -> Cluster:
    return cluster_of(LoadBalancerController())


def service(cluster: Cluster, name: str, **spec: Any) -> None:
    given = {"type": "LoadBalancer", "ports": [{"port": 80}], **spec}
    cluster.create(SERVICES, {"metadata": {"name": name}, "spec": given})


def ingress(cluster: Cluster, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.get(SERVICES, name)["status"].get("loadBalancer", {}).get("ingress") or []
    return found


def test_each_service_of_type_load_balancer_gets_an_address_of_its_own(cluster: Cluster) -> None:
    service(cluster, "a", clusterIP="10.96.0.20")
    service(cluster, "b", clusterIP="10.111.255.254")
    cluster.settle()
    assert ingress(cluster, "a") == [{"ip": "172.16.0.20", "ipMode": "VIP"}]
    assert ingress(cluster, "b") == [{"ip": "172.31.255.254", "ipMode": "VIP"}]


def test_a_service_on_loopback_is_reached_at_its_own_address(cluster: Cluster) -> None:
    cluster.api.backend.service_range = IPv4Network("127.96.0.0/16")  # as where pods are processes
    service(cluster, "a", clusterIP="127.96.0.20")
    cluster.settle()
    assert ingress(cluster, "a") == [{"ip": "127.96.0.20", "ipMode": "VIP"}]


def test_a_service_gets_the_address_that_it_asks_for(cluster: Cluster) -> None:
    service(cluster, "a", loadBalancerIP="192.0.2.7")
    cluster.settle()
    assert ingress(cluster, "a") == [{"ip": "192.0.2.7", "ipMode": "VIP"}]


def test_an_address_that_another_program_wrote_stays(cluster: Cluster) -> None:
    service(cluster, "a", loadBalancerClass="example.com/mine")
    given = [{"hostname": "edge.example.com"}]
    cluster.patch(SERVICES, "a", {"status": {"loadBalancer": {"ingress": given}}}, subresource="status")
    cluster.settle()
    assert ingress(cluster, "a") == given


def test_a_service_of_a_class_of_load_balancers_or_of_another_type_gets_none(cluster: Cluster) -> None:
    service(cluster, "classed", loadBalancerClass="example.com/mine")
    service(cluster, "inside", type="ClusterIP")
    cluster.settle()
    assert (ingress(cluster, "classed"), ingress(cluster, "inside")) == ([], [])


def test_a_service_that_becomes_one_of_another_type_loses_its_address(cluster: Cluster) -> None:
    service(cluster, "a")
    cluster.settle()
    assert len(ingress(cluster, "a")) == 1
    cluster.patch(SERVICES, "a", {"spec": {"type": "ClusterIP"}})
    cluster.settle()
    assert ingress(cluster, "a") == []
