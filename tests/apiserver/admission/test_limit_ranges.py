"""Many LimitRanges and quotas in a namespace, and pods of many containers: the same answers, in few steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.apiserver.admission import limits
from kilauea.apiserver.admission.limits import LimitItem
from kilauea.apiserver.admission.quota.usage import missing_amounts
from support.api_core import PODS, Api

RANGES = "/api/v1/namespaces/default/limitranges"
QUOTAS = "/api/v1/namespaces/default/resourcequotas"
MANY = 30
AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["0", "1", "2", "1500m", "4"]))


def limit_range(number: int, **item: Any) -> dict[str, Any]:
    return {"metadata": {"name": f"r{number:03}"}, "spec": {"limits": [{"type": "Container", **item}]}}


def pod(count: int, **amounts: Any) -> dict[str, Any]:
    containers = [
        {"name": f"c{number}", "image": "busybox:1", "resources": {"requests": {"cpu": f"{number + 1}m"}, **amounts}}
        for number in range(count)
    ]
    return {"metadata": {"generateName": "p-"}, "spec": {"containers": containers}}


def item_of(kind: str, bounds: tuple[Mapping[str, str], ...]) -> LimitItem:
    return LimitItem(kind, min=dict(bounds[0]), max=dict(bounds[1]), max_limit_request_ratio=dict(bounds[2]))


@given(st.tuples(AMOUNTS, AMOUNTS, AMOUNTS), st.lists(st.tuples(AMOUNTS, AMOUNTS), min_size=1, max_size=3))
def test_what_is_within_limits_has_no_problem(
    bounds: tuple[dict[str, str], ...], containers: list[tuple[dict[str, str], dict[str, str]]]
) -> None:
    spec = {"containers": [{"resources": {"requests": asked, "limits": most}} for asked, most in containers]}
    for kind in ("Container", "Pod"):
        item, things = item_of(kind, bounds), limits._pod_asked(spec)[kind]
        problems = [
            words
            for asked in things.asked
            for limit, check in (
                (item.min, limits._below),
                (item.max, limits._above),
                (item.max_limit_request_ratio, limits._apart),
            )
            for words in limits._each(limit, kind, check, *asked)
        ]
        assert things.is_within(item) == (not problems)


def test_a_limit_is_compared_once_however_many_containers_a_pod_has(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(MANY):
        api.good("POST", RANGES, limit_range(number, min={"cpu": "1m"}, max={"cpu": "4"}, default={"cpu": "2"}))
    calls = Counter[str]()
    for name in ("container_amounts", "_each", "_add_missing", "parse"):
        original = getattr(limits, name)

        def counted(*given: Any, name: str = name, original: Any = original) -> Any:
            calls[name] += 1
            return original(*given)

        monkeypatch.setattr(limits, name, counted)
    found = api.good("POST", PODS, pod(MANY))
    assert found["spec"]["containers"][-1]["resources"]["limits"] == {"cpu": "2"}
    assert calls == {"container_amounts": 2 * MANY, "_add_missing": 2 * MANY, "parse": 2 * MANY}


def test_the_first_limit_range_with_a_default_gives_it_and_the_last_that_gives_one_is_told(api: Api) -> None:
    api.good("POST", RANGES, limit_range(1, default={"cpu": "2"}))
    api.good("POST", RANGES, limit_range(2, default={"cpu": "3", "memory": "1Gi"}, defaultRequest={"memory": "1Mi"}))
    api.good("POST", RANGES, limit_range(3, default={"cpu": "4"}, defaultRequest={"cpu": "5m"}))
    found = api.good("POST", PODS, pod(1))
    resources = found["spec"]["containers"][0]["resources"]
    assert resources == {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1m", "memory": "1Mi"}}
    told = found["metadata"]["annotations"]["kubernetes.io/limit-ranger"]
    assert told == "LimitRanger plugin set: memory request for container c0; memory limit for container c0"


def test_the_first_limit_range_that_refuses_says_all_that_is_wrong(api: Api) -> None:
    for number, most in ((1, "4"), (2, "2m"), (3, "1m")):
        api.good("POST", RANGES, limit_range(number, max={"cpu": most}, min={"cpu": "1m"}))
    refused = api.ask("POST", PODS, pod(3, limits={"cpu": "5m"}))
    assert refused.code == 403
    assert str(refused.body["message"]).endswith("maximum cpu usage per Container is 2m, but limit is 5m")


def test_what_containers_lack_is_found_once_for_all_quotas(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(MANY):
        hard = {"pods": "100", "requests.memory": "1Ti"} if number == MANY - 1 else {"requests.cpu": "100", "cpu": "99"}
        api.good("POST", QUOTAS, {"metadata": {"name": f"q{number:03}"}, "spec": {"hard": hard}})
    looked_at: list[Any] = []

    def counted(pod: dict[str, Any]) -> dict[str, str]:
        looked_at.append(pod)
        return missing_amounts(pod)

    monkeypatch.setattr("kilauea.apiserver.admission.quota.account.missing_amounts", counted)
    refused = api.ask("POST", PODS, pod(2))
    assert refused.code == 403
    words = f"failed quota: q{MANY - 1:03}: must specify requests.memory for: c0,c1"
    assert str(refused.body["message"]).endswith(words)
    assert len(looked_at) == 1
