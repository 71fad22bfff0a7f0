"""The place of a queue: below an existing queue, not below itself, not too deep, and not below a queue with work."""

from __future__ import annotations

from kilauea.admission.lookups import parent_of
from kilauea.admission.queues.tree import ancestors, below, children_of, is_below_root, queue_named
from kilauea.admission.review import Denied
from kilauea.admission.wording import not_found
from kilauea.api.kinds import POD_GROUPS, QUEUES
from kilauea.api.ports import Obj, View
from kilauea.api.quantity import QuantityError, parse_units
from kilauea.api.wellknown import ROOT_QUEUE


def check_place(queue: Obj, view: View, max_depth: int) -> None:
    """Refuse a parent that a queue cannot have.

    Raises:
        Denied: with the reason.
    """
    name, parent = queue["metadata"]["name"], parent_of(queue)
    if name == ROOT_QUEUE and parent:
        raise Denied(f"queue {name} cannot have queue {parent} as parent because it is above all queues")
    if not is_below_root(parent):
        return
    if parent == name:
        raise Denied(f"queue {name} cannot use itself as parent")
    above = list(ancestors(view, queue))
    _check_chain(queue, above)
    _check_depth(queue, view, 1 + len(above), max_depth)
    _check_work(name, above[0], view)


def _check_chain(queue: Obj, above: list[Obj]) -> None:
    """The way up ends at root."""
    name = queue["metadata"]["name"]
    chain = [name, *(each["metadata"]["name"] for each in above)]
    missing = parent_of(above[-1] if above else queue)
    if not is_below_root(missing):
        return
    if missing in chain:
        # `name` itself, unless there was a circle further up already.
        way = " > ".join(reversed([*chain, missing]))
        raise Denied(f"queue {name} cannot have queue {parent_of(queue)} as parent because that creates a cycle: {way}")
    raise Denied(f"failed to get parent queue {missing} of queue {chain[-1]}: {not_found(QUEUES, missing)}")


def _check_depth(queue: Obj, view: View, depth: int, most: int) -> None:
    """Neither the queue nor what hangs under it lies too deep."""
    name = queue["metadata"]["name"]
    if depth > most:
        raise Denied(f"queue {name} exceeds the maximum allowed depth of {most}")
    for each, levels in below(view, name):
        if depth + levels > most:
            raise Denied(f"queue {each['metadata']['name']} exceeds the maximum allowed depth of {most}")


def _check_work(name: str, parent: Obj, view: View) -> None:
    """Only leaves have work, so a queue that has some does not become a parent."""
    above = parent["metadata"]["name"]
    if any(child["metadata"]["name"] != name for child in children_of(view, above)):
        return
    pods = allocated_pods(parent)
    refused = f"queue {above} cannot be the parent queue of queue {name} because it has"
    if pods:
        raise Denied(f"{refused} allocated Pods: {pods}")
    groups = view.indexed(POD_GROUPS, "queue", above)
    count = sum((each.get("status") or {}).get("phase") != "Completed" for each in groups)
    if count:
        raise Denied(f"{refused} PodGroups that are not Completed: {count}")


def allocated_pods(queue: Obj) -> int:
    """Return the number of pods that hold resources of a queue, as the scheduler has written it."""
    try:
        return parse_units(((queue.get("status") or {}).get("allocated") or {}).get("pods", 0))
    except QuantityError:
        return 0


def check_deletion(name: str, queue: Obj | None, view: View, *, check_pods: bool) -> None:
    """Refuse to delete queues that everything needs, and those that have others under them.

    Args:
        name: of the queue.
        queue: as it is; None if it does not exist.
        view: the other queues.
        check_pods: True if allocated pods hold it up.

    Raises:
        Denied: with the reason.
    """
    if name in ("default", "root"):
        raise Denied(f"`{name}` queue can not be deleted")
    queue = queue or queue_named(view, name)
    if queue is None:
        raise Denied(not_found(QUEUES, name))
    pods = allocated_pods(queue) if check_pods else 0
    if pods:
        raise Denied(f"queue {name} cannot be deleted because it has allocated Pods: {pods}")
    children = [child["metadata"]["name"] for child in children_of(view, name)]
    if children:
        message = f"because it has {len(children)} child queues: {', '.join(children)}"
        raise Denied(f"queue {name} can not be deleted {message}")
