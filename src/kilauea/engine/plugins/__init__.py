"""The plugins, one per file, and the list of all of them."""

from __future__ import annotations

from kilauea.engine.plugin import Plugin
from kilauea.engine.plugins.binpack import Binpack
from kilauea.engine.plugins.capacity import Capacity
from kilauea.engine.plugins.capacity_card import CapacityCard
from kilauea.engine.plugins.cdp import Cdp
from kilauea.engine.plugins.conformance import Conformance
from kilauea.engine.plugins.deviceshare import DeviceShare
from kilauea.engine.plugins.drf import Drf
from kilauea.engine.plugins.extender import Extender
from kilauea.engine.plugins.fragmentation import Fragmentation
from kilauea.engine.plugins.gang import Gang
from kilauea.engine.plugins.network_topology_aware import NetworkTopologyAware
from kilauea.engine.plugins.nodegroup import NodeGroup
from kilauea.engine.plugins.nodeorder import NodeOrder
from kilauea.engine.plugins.numa_aware import NumaAware
from kilauea.engine.plugins.overcommit import Overcommit
from kilauea.engine.plugins.pdb import Pdb
from kilauea.engine.plugins.predicates import Predicates
from kilauea.engine.plugins.priority import Priority
from kilauea.engine.plugins.proportion import Proportion
from kilauea.engine.plugins.rescheduling import Rescheduling
from kilauea.engine.plugins.resource_strategy_fit import ResourceStrategyFit
from kilauea.engine.plugins.resourcequota import ResourceQuota
from kilauea.engine.plugins.sla import Sla
from kilauea.engine.plugins.task_topology import TaskTopology
from kilauea.engine.plugins.tdm import Tdm
from kilauea.engine.plugins.usage import Usage

PLUGINS: dict[str, type[Plugin]] = {
    plugin.name: plugin
    for plugin in (
        Gang,
        Priority,
        Conformance,
        Drf,
        Proportion,
        Capacity,
        CapacityCard,
        Predicates,
        NodeOrder,
        Binpack,
        Overcommit,
        NetworkTopologyAware,
        Sla,
        Pdb,
        ResourceQuota,
        Cdp,
        Tdm,
        NodeGroup,
        ResourceStrategyFit,
        TaskTopology,
        Extender,
        DeviceShare,
        Fragmentation,
        Usage,
        Rescheduling,
        NumaAware,
    )
}
