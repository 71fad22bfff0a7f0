"""Labels, annotations and names with a meaning, spelled as Volcano and Kubernetes spell them."""

GROUP_NAME = "scheduling.k8s.io/group-name"
QUEUE_NAME = "scheduling.volcano.sh/queue-name"
TASK_ROLE = "volcano.sh/task-spec"
TASK_PRIORITY = "volcano.sh/task-priority"
PREEMPTABLE = "volcano.sh/preemptable"
HIERARCHY = "volcano.sh/hierarchy"
HIERARCHY_WEIGHTS = "volcano.sh/hierarchy-weights"
WAITING_TIME = ("volcano.sh/sla-waiting-time", "sla-waiting-time")
"""Annotations for the time that a pod group may wait; the first valid one counts."""
CARD_QUOTA = "volcano.sh/card.quota"
"""On a queue: how many cards of each model it may use."""
CARD_REQUEST = "volcano.sh/card.request"
"""On a pod group: how many cards of each model it will want, as long as its pods do not say."""
CARD_NAME = "volcano.sh/card.name"
"""On a pod: the card model it wants, or several with `|` between, best first."""
SERVICE_TYPE = "volcano.sh/service.type"
COOLDOWN_TIME = "volcano.sh/cooldown-time"
REVOCABLE_ZONE = "volcano.sh/revocable-zone"
SCORING_TYPE = "volcano.sh/resource-strategy-scoring-type"
"""On a pod: whether it prefers free nodes (`LeastAllocated`) or full ones (`MostAllocated`)."""
SCORING_WEIGHT = "volcano.sh/resource-strategy-weight"
"""On a pod with the former: a JSON object of weights by resource."""
NUMA_POLICY = "volcano.sh/numa-topology-policy"
NODE_GROUP = "volcano.sh/nodegroup-name"
"""On a node: the group that it is in."""
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
"""On a Command that opens a queue: `true` opens what was closed with it, too."""
ROOT_QUEUE = "root"
DEFAULT_QUEUE = "default"
SCHEDULER_NAMES = ("volcano",)
DEFAULT_SCHEDULER = "default-scheduler"
"""kube-scheduler, which places pods that do not name one."""
ALL_SCHEDULERS = (*SCHEDULER_NAMES, "kilauea", DEFAULT_SCHEDULER)
"""Schedulers for which one stands in that has a cluster to itself."""

SYSTEM_NAMESPACE = "kube-system"
SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""Priority classes that every cluster has, with their values."""

TRUE_WORDS = frozenset({"1", "t", "T", "TRUE", "true", "True"})
FALSE_WORDS = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def parse_bool(text: str | None) -> bool | None:
    """True or False for the words that Kubernetes components accept; None for anything else."""
    if text in TRUE_WORDS:
        return True
    return False if text in FALSE_WORDS else None
