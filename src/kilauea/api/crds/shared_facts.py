"""Facts of the types that several groups use: metadata of templates, selectors, references, conditions, topology."""

from __future__ import annotations

from kilauea.api.batch import ObjectReference, TemplateMeta
from kilauea.api.crds.facts import ATOMIC, INT64, NAME, TIME, Facts, fact, one_of
from kilauea.api.meta import Condition, LabelSelector, OwnerReference, SelectorRequirement
from kilauea.api.scheduling import NetworkTopology

_QUALIFIED = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)

FACTS: Facts = {
    TemplateMeta: {
        "annotations": fact("Annotations of created objects."),
        "labels": fact("Labels of created objects."),
        "name": fact("Ignored; the names of created objects are generated."),
        "namespace": fact("Ignored; created objects are in the same namespace."),
        "finalizers": fact("Finalizers of created objects."),
    },
    SelectorRequirement: {
        "key": fact("Key of the label.", required=True),
        "operator": fact("In, NotIn, Exists or DoesNotExist.", required=True),
        "values": fact("Values of the label, for In and NotIn.", ATOMIC),
    },
    LabelSelector: {
        "match_labels": fact("Required labels with their values."),
        "match_expressions": fact("Requirements on labels, all of which must be met.", ATOMIC),
    },
    OwnerReference: {
        "api_version": fact("Group and version of the object.", required=True),
        "kind": fact("Kind of the object.", required=True),
        "name": fact("Name of the object.", required=True),
        "uid": fact("UID of the object.", required=True),
        "controller": fact("True if this owner manages the object."),
        "block_owner_deletion": fact("True if the owner is not removed before this object."),
    },
    ObjectReference: {
        "api_version": fact("Group and version of the object."),
        "kind": fact("Kind of the object."),
        "namespace": fact("Namespace of the object."),
        "name": fact("Name of the object."),
        "uid": fact("UID of the object."),
        "resource_version": fact("Revision of the referenced object."),
        "field_path": fact("Part of the referenced object."),
    },
    Condition: {
        "type": fact("Type of the condition.", maxLength=316, pattern=_QUALIFIED, required=True),
        "status": fact("True, False or Unknown.", one_of("True", "False", "Unknown"), required=True),
        "observed_generation": fact("Generation of the object that the condition is based on.", INT64, minimum=0),
        "last_transition_time": fact("Time of the last change of the status.", TIME, required=True),
        "reason": fact(
            "Machine-readable reason in CamelCase.",
            maxLength=1024,
            minLength=1,
            pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
            required=True,
        ),
        "message": fact("Human-readable reason.", maxLength=32768, required=True),
    },
    NetworkTopology: {
        "mode": fact(
            "hard: the pods of the group stay within one HyperNode; soft: they do so if they can.",
            one_of("hard", "soft"),
            default="hard",
        ),
        "highest_tier_allowed": fact("Highest tier of HyperNode in which the pods may be placed.", minimum=0),
        "highest_tier_name": fact("Name of this tier, instead of its number.", NAME),
    },
}
