"""Plugins and actions that Volcano has or had and Kilauea does not; configurations that name them work without them."""

from __future__ import annotations

_RESERVATION = (
    "jobs that have waited long reserve no nodes; sla admits and serves jobs that waited for their time first"
)

LACKING_PLUGINS = {
    "crossquota": "pods without cards may use all cpu and memory of nodes with cards; see `proportional` of "
    "resource-strategy-fit",
    "dynamicresources": "predicates allocates devices for resource claims",
    "fairshare": "what namespaces used in the past does not change the order of jobs",
    "group-topology-affinity": "pod groups are not kept apart in the network",
    "reservation": _RESERVATION,
}
"""By name of a plugin: the effect of leaving it out, or the plugin that replaces it."""

LACKING_ACTIONS = {"elect": _RESERVATION, "reserve": _RESERVATION}
"""The same for actions."""
