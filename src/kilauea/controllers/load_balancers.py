"""Addresses of services of type LoadBalancer, as a cloud assigns them, so that clients do not wait for them forever.

The address is derived from the service's own, so it is unique and stable. As with all services of simulated pods,
nothing answers there. Services on loopback, whose pods are processes on this machine, are reached at their own address.
Services with a load balancer class are left to its controllers.
"""

from __future__ import annotations

from ipaddress import AddressValueError, IPv4Address
from typing import Any

from kilauea.api.kinds import SERVICES
from kilauea.api.ports import Interest, Key, Obj, Outcome, Patch, View
from kilauea.controllers.objects import NOTHING, is_going, own_key, spec_of, status_of

RANGE = IPv4Address("172.16.0.0")
"""Start of 172.16.0.0/12, a private range as large as that of the services' own addresses."""
HOST_BITS = (1 << 20) - 1


class LoadBalancerController:
    """Maintains the status of services of type LoadBalancer."""

    name = "service-lb-controller"
    interests = (Interest(SERVICES, own_key),)

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Assign a service its address, or remove it from a service of another type."""
        service = view.get(SERVICES, key)
        if service is None or is_going(service) or spec_of(service).get("loadBalancerClass"):
            return NOTHING
        has = (status_of(service).get("loadBalancer") or {}).get("ingress") or []
        if spec_of(service).get("type") == "LoadBalancer":
            wanted = has or _ingress(service)
        else:
            wanted = []
        if wanted == has:
            return NOTHING
        patch = {"status": {"loadBalancer": {"ingress": wanted or None}}}
        return Outcome([Patch(SERVICES, key, patch, subresource="status")])


def _ingress(service: Obj) -> list[dict[str, Any]]:
    """The external address of a service: the requested one, or one derived from its own."""
    asked = spec_of(service).get("loadBalancerIP")
    if asked:
        return [{"ip": asked, "ipMode": "VIP"}]
    try:
        own = IPv4Address(spec_of(service).get("clusterIP", ""))
    except AddressValueError:
        return []
    address = own if own.is_loopback else RANGE + (int(own) & HOST_BITS)
    return [{"ip": str(address), "ipMode": "VIP"}]
