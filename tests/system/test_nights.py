"""Inference takes cards back in the morning and training comes back in the evening, for seven nights of virtual time.

`tests/cluster/test_stories.py` plays the same in real time.
"""

from __future__ import annotations

import json

import pytest

from kilauea.api.kinds import NODES, PODS
from system.nights import GANGS, SERVICES, Change, Nights, Obj, annotated, nights, unchanged
from system.users import NODE_STATE

NIGHT = {"search": 8, "language": 8, "vision": 8}
MORNING = {"search": 8, "chat": 8, "language": 8}
DAY = {"search": 8, "chat": 16}
VISION = ["vision-worker1-0", "vision-worker2-0"]
LANGUAGE = ["language-worker1-0", "language-worker2-0"]
CARDS = "nvidia.com/gpu"


def waits_for_cards(why: str, pods: int = 2, asked: int = 4, cards: str = CARDS) -> bool:
    """True if a gang is told that it waits whole, and for cards."""
    gang = f"{pods}/{pods} tasks in gang unschedulable: pod group is not ready, {pods} Pending, {pods} minAvailable; "
    short = f"0/3 nodes are unavailable: 3 Insufficient {cards} (requested {asked}, available 0)"
    return why.startswith(gang) and why.endswith(short)


def first_evening(story: Nights, change: Change = unchanged) -> None:
    """The services and the gangs are submitted, and have all cards."""
    story.apply(*SERVICES, *GANGS, change=change)
    story.rest()
    assert (story.cards(), story.evictions()) == (NIGHT, [])


def scaled(story: Nights, replicas: int, cards: dict[str, int], evicted: list[str]) -> None:
    """The service is scaled; then these cards run, and these pods were evicted for it, and no others."""
    story.scale("chat", replicas)
    story.rest()
    assert story.cards() == cards
    assert sorted(story.evictions()) == evicted


VARIANTS = pytest.mark.parametrize(
    ("conf", "change"),
    [("scheduler.conf", unchanged), ("annotated.conf", annotated)],
    ids=["owners say what they are", "annotations say it"],
)


@VARIANTS
def test_for_seven_nights_training_borrows_gives_back_whole_waits_and_returns(conf: str, change: Change) -> None:
    with nights(conf) as story:
        first_evening(story, change)
        for night in range(7):
            assert (story.job("vision"), story.job("language")) == (("Running", night), ("Running", night))
            scaled(story, 1, MORNING, VISION)
            assert (story.job("vision"), story.job("language")) == (("Pending", night + 1), ("Running", night))
            assert waits_for_cards(story.why("vision"))
            assert story.waiting() == {"vision": 2}
            scaled(story, 2, DAY, LANGUAGE)
            assert (story.job("vision"), story.job("language")) == (("Pending", night + 1), ("Pending", night + 1))
            assert waits_for_cards(story.why("vision"))
            assert waits_for_cards(story.why("language"))
            scaled(story, 0, NIGHT, [])


def aborting(obj: Obj) -> None:
    """Jobs that are aborted when a pod is evicted, and may restart no more often than by default."""
    if obj["kind"] == "Job":
        obj["spec"]["policies"][1]["action"] = "AbortJob"
        del obj["spec"]["maxRetry"]


def test_with_abort_job_a_gang_is_resumed_each_evening_and_no_night_counts_as_a_retry() -> None:
    with nights() as story:
        first_evening(story, aborting)
        for _ in range(7):
            scaled(story, 1, MORNING, VISION)
            scaled(story, 2, DAY, LANGUAGE)
            assert (story.job("vision"), story.job("language")) == (("Aborted", 0), ("Aborted", 0))
            assert story.waiting() == {}
            scaled(story, 0, {"search": 8}, [])
            for name in ("vision", "language"):
                assert story.state(name)["state"]["reason"] == "Suspended"
                story.resume(name)
            story.rest()
            assert (story.cards(), story.evictions()) == (NIGHT, [])


def retrying_by_default(obj: Obj) -> None:
    """Jobs that do not say how often they may restart."""
    obj["spec"].pop("maxRetry", None)


def test_a_job_that_does_not_say_how_often_it_restarts_fails_on_the_third_morning_and_every_one_told_it() -> None:
    with nights() as story:
        first_evening(story, retrying_by_default)
        for night in (1, 2):
            scaled(story, 1, MORNING, VISION)
            assert story.job("vision") == ("Pending", night)
            (told,) = [each for each in story.said("Restarting", "vision") if f"retry {night}" in each]
            assert told.startswith("RestartJob on PodEvicted of pod vision-worker")
            assert told.endswith(f"retry {night} of spec.maxRetry 3")
            scaled(story, 0, NIGHT, [])
        scaled(story, 1, MORNING, VISION)
        state = story.state("vision")["state"]
        assert (state["phase"], state["reason"]) == ("Failed", "MaxRetryReached")
        assert state["message"].endswith("with a larger spec.maxRetry if its pods are often evicted or fail")
        assert story.said("MaxRetryReached", "vision") == [state["message"]]
        scaled(story, 0, {"search": 8, "language": 8}, [])


# --- other mornings


WHOLE, SLICE = "NVIDIA-GeForce-RTX-4090", "NVIDIA-H200/mig-1g.18gb-mixed"


def in_slices(obj: Obj) -> None:
    """Slices of cards instead of whole ones."""
    text = json.dumps(obj).replace('"nvidia.com/gpu"', '"nvidia.com/mig-1g.18gb"').replace(WHOLE, SLICE)
    for place in ('"nvidia.com/gpu.product": "', '"values": ["'):
        text = text.replace(place + SLICE, place + SLICE.partition("/")[0])
    obj.update(json.loads(text))


def test_slices_of_cards_are_lent_and_taken_back_as_whole_cards_are() -> None:
    with nights(change=in_slices) as story:
        first_evening(story, in_slices)
        for night in range(2):
            scaled(story, 1, MORNING, VISION)
            assert waits_for_cards(story.why("vision"), cards="nvidia.com/mig-1g.18gb")
            scaled(story, 2, DAY, LANGUAGE)
            scaled(story, 0, NIGHT, [])
            assert story.job("vision") == ("Running", night + 1)


def test_two_tenants_that_scale_up_at_once_take_one_gang_each() -> None:
    with nights() as story:
        story.system.users.delete(NODES, "gpu-2")
        story.apply(*SERVICES, *GANGS, change=giving(search=0))
        story.rest()
        assert story.cards() == {"language": 8, "vision": 8}
        for night in range(2):
            story.scale("chat", 1)
            story.scale("search", 1)
            story.rest()
            assert (story.cards(), sorted(story.evictions())) == ({"chat": 8, "search": 8}, LANGUAGE + VISION)
            story.scale("chat", 0)
            story.scale("search", 0)
            story.rest()
            assert (story.cards(), story.evictions()) == ({"language": 8, "vision": 8}, [])
            assert (story.job("language"), story.job("vision")) == (("Running", night + 1), ("Running", night + 1))


def test_a_replica_beyond_the_quota_waits_is_told_so_and_evicts_no_pod() -> None:
    with nights() as story:
        story.apply(*SERVICES, *GANGS, change=giving(search=0))
        story.rest()
        scaled(story, 3, {"chat": 16, "language": 8}, VISION)
        (pod,) = [each for each in story.system.users.all(PODS) if not each["spec"].get("nodeName") and chats(each)]
        assert story.said("FailedScheduling", pod["metadata"]["name"])[-1] == (
            f"Queue <acme-chat> has insufficient <{WHOLE}> quota: requested <8000>, total would be <24000>, "
            "but capability is <16000>"
        )


def test_training_that_may_not_be_preempted_keeps_its_cards_and_the_service_waits() -> None:
    def kept(obj: Obj) -> None:
        if obj["kind"] == "Job":
            obj["metadata"]["annotations"]["volcano.sh/preemptable"] = "false"

    with nights() as story:
        first_evening(story, kept)
        scaled(story, 1, NIGHT, [])
        assert story.waiting() == {"chat": 1}
        assert waits_for_cards(story.why("chat"), pods=1, asked=8)
        scaled(story, 0, NIGHT, [])


def test_a_gang_larger_than_what_comes_back_waits_whole_until_the_rest_does() -> None:
    def large(obj: Obj) -> None:
        """Vision has two pods with a machine each."""
        if obj["metadata"]["name"] == "training-vision":
            obj["metadata"]["annotations"]["volcano.sh/card.quota"] = json.dumps({WHOLE: 16})
        if obj["metadata"]["name"] == "vision":
            for task in obj["spec"]["tasks"]:
                amounts = task["template"]["spec"]["containers"][0]["resources"]
                amounts["requests"]["nvidia.com/gpu"] = amounts["limits"]["nvidia.com/gpu"] = 8

    with nights(change=large) as story:
        story.system.users.delete(NODES, "gpu-2")
        story.apply("vision", change=large)
        story.apply(*SERVICES, change=giving(search=0))
        story.rest()
        assert story.cards() == {"vision": 16}
        for night in range(2):
            scaled(story, 1, {"chat": 8}, VISION)
            assert (story.waiting(), story.job("vision")) == ({"vision": 2}, ("Pending", night + 1))
            assert story.why("vision").startswith("1/2 tasks in gang unschedulable: pod group is not ready")
            assert "Pending: 1 Schedulable, 1 Unschedulable." in story.why("vision")
            assert "2 Insufficient nvidia.com/gpu (requested 8, available 0)" in story.why("vision")
            scaled(story, 0, {"vision": 16}, [])


def test_a_machine_that_fails_in_the_night_costs_its_gang_one_restart_and_no_other_pod() -> None:
    with nights() as story:
        first_evening(story)
        pods = story.system.users.all(PODS)
        (node,) = {each["spec"]["nodeName"] for each in pods if each["metadata"]["name"].startswith("vision")}
        story.system.users.patch(NODES, node, {"metadata": {"annotations": {NODE_STATE: "silent"}}})
        story.rest()
        assert (story.cards(), story.evictions()) == ({"search": 8, "language": 8}, [])
        scaled(story, 1, {"search": 8, "chat": 8}, LANGUAGE)
        story.system.users.patch(NODES, node, {"metadata": {"annotations": {NODE_STATE: None}}})
        story.rest()
        cards = story.cards()
        assert (cards.pop("search"), cards.pop("chat"), sum(cards.values()), len(cards)) == (8, 8, 8, 1)
        scaled(story, 0, NIGHT, [])
        assert (story.job("vision"), story.job("language")) == (("Running", 1), ("Running", 1))


def giving(**replicas: int) -> Change:
    """Services that start with other numbers of replicas."""

    def change(obj: Obj) -> None:
        if obj["kind"] == "Deployment":
            obj["spec"]["replicas"] = replicas.get(obj["metadata"]["name"], obj["spec"]["replicas"])

    return change


def chats(pod: Obj) -> bool:
    """True for a pod of the service chat."""
    return bool(pod["metadata"]["labels"].get("app") == "chat")
