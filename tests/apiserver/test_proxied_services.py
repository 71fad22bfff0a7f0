"""Pods behind a service that a request through the server names."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.apiserver.decoding import decode
from kilauea.apiserver.dynamic import remote
from support.api_core import Api

PROXY = "/api/v1/namespaces/default/services/web/proxy/"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"


def piece(api: Api, name: str, service: str, ports: list[dict[str, Any]]) -> None:
    """A slice of a service, with the pod `behind`."""
    endpoint = {"addresses": ["10.0.0.1"], "targetRef": {"kind": "Pod", "namespace": "default", "name": "behind"}}
    about = {"name": name, "labels": {remote.SERVICE_NAME: service}}
    body = {"metadata": about, "addressType": "IPv4", "endpoints": [endpoint], "ports": ports}
    api.good("POST", SLICES, body)


def served(api: Api) -> None:
    api.create_pod("behind")
    spec = {"ports": [{"port": 80}]}
    api.good("POST", "/api/v1/namespaces/default/services", {"metadata": {"name": "web"}, "spec": spec})


def test_slices_of_other_services_are_not_decoded(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading all slices of a namespace for each request would hold others up for as long as its users like."""
    served(api)
    for number in range(20):
        piece(api, f"other-{number}", "other", [{"port": 80}])
    piece(api, "web-1", "web", [{"port": 80}])
    read: list[bytes] = []

    def counted(value: bytes) -> Any:
        read.append(value)
        return decode(value)

    monkeypatch.setattr(remote, "decode", counted)
    assert api.ask("GET", PROXY).code == 501  # the pod is simulated
    assert len(read) == 1


def test_a_slice_without_a_number_of_its_port_leads_nowhere(api: Api) -> None:
    served(api)
    piece(api, "web-1", "web", [{"name": ""}])
    answer = api.ask("GET", PROXY)
    assert (answer.code, answer.body["message"]) == (503, 'no endpoints available for service "web"')
