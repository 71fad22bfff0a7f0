"""Well-known labels, annotations and names of Volcano and Kubernetes."""

from collections.abc import Mapping

GROUP_NAME = "scheduling.k8s.io/group-name"
QUEUE_NAME = "scheduling.volcano.sh/queue-name"
TASK_ROLE = "volcano.sh/task-spec"
TASK_PRIORITY = "volcano.sh/task-priority"
PREEMPTABLE = "volcano.sh/preemptable"
HIERARCHY = "volcano.sh/hierarchy"
HIERARCHY_WEIGHTS = "volcano.sh/hierarchy-weights"
WAITING_TIME = ("volcano.sh/sla-waiting-time", "sla-waiting-time")
"""Annotations for the maximum waiting time of a pod group; the first valid one is used."""
CARD_QUOTA = "volcano.sh/card.quota"
"""On a queue: the quota of cards by model."""
CARD_REQUEST = "volcano.sh/card.request"
"""On a pod group: its future request of cards by model, as long as its pods do not specify it."""
CARD_NAME = "volcano.sh/card.name"
"""On a pod: the requested card model, or several separated by `|`, best first."""
SERVICE_TYPE = "volcano.sh/service.type"
COOLDOWN_TIME = "volcano.sh/cooldown-time"
REVOCABLE_ZONE = "volcano.sh/revocable-zone"
SCORING_TYPE = "volcano.sh/resource-strategy-scoring-type"
"""On a pod: prefer free nodes (`LeastAllocated`) or full ones (`MostAllocated`)."""
SCORING_WEIGHT = "volcano.sh/resource-strategy-weight"
"""On a pod with the former: a JSON object of weights by resource."""
NUMA_POLICY = "volcano.sh/numa-topology-policy"
NODE_GROUP = "volcano.sh/nodegroup-name"
"""On a node: its node group."""
NODE_GROUP_LIMITS = "volcano.sh/nodegroup-resource-limits"
TASK_TOPOLOGY = (
    "volcano.sh/task-topology",
    "volcano.sh/task-topology-affinity",
    "volcano.sh/task-topology-anti-affinity",
    "volcano.sh/task-topology-task-order",
)
MIN_AVAILABLE = "volcano.sh/jdb-min-available"
MAX_UNAVAILABLE = "volcano.sh/jdb-max-unavailable"
QUEUE_ALLOCATION_GATE = "scheduling.volcano.sh/queue-allocation-gate"
OVERSUBSCRIPTION_CPU = "volcano.sh/oversubscription-cpu"
OVERSUBSCRIPTION_MEMORY = "volcano.sh/oversubscription-memory"
OFFLINE_EVICTING = "volcano.sh/offline-job-evicting"
QOS_LEVEL = "volcano.sh/qos-level"

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"

BETA_STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"
DEFAULT_STORAGE_CLASS = "storageclass.kubernetes.io/is-default-class"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"
NO_PROVISIONER = "kubernetes.io/no-provisioner"

CASCADE = "kilauea.dev/cascade"
"""On a Command that opens a queue: `true` also opens the queues that were closed with it."""
PAUSED = "kilauea.dev/paused"
"""On a queue: with `true`, no more pods start in it and in the queues below it, which still accept jobs."""
ROOT_QUEUE = "root"
DEFAULT_QUEUE = "default"
SCHEDULER_NAMES = ("volcano",)
DEFAULT_SCHEDULER = "default-scheduler"
"""kube-scheduler, which schedules pods without a scheduler name."""
GANG_SCHEDULERS = (*SCHEDULER_NAMES, "kilauea")
"""Scheduler names whose pods the podgroup controller groups."""
ALL_SCHEDULERS = (*GANG_SCHEDULERS, DEFAULT_SCHEDULER)
"""Scheduler names that a scheduler serves if it is the only one in a cluster."""

SYSTEM_NAMESPACE = "kube-system"
SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""Built-in priority classes, with their values."""

TRUE_WORDS = frozenset({"1", "t", "T", "TRUE", "true", "True"})
FALSE_WORDS = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def parse_bool(text: str | None) -> bool | None:
    """Parse a boolean in the notations of Kubernetes components; return None for anything else."""
    if text in TRUE_WORDS:
        return True
    return False if text in FALSE_WORDS else None


def is_paused(annotations: Mapping[str, str] | None) -> bool:
    """Return True if a queue with these annotations is paused itself."""
    return parse_bool((annotations or {}).get(PAUSED)) is True
