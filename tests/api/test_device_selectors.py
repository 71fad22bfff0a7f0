"""Selectors of devices: what they say of a device, and which are refused."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.api.cel import CelError
from kilauea.api.device_selectors import capacity_value, device_matcher, version_value

D = "gpu.example.com"
DEVICE: dict[str, Any] = {
    "driver": D,
    "attributes": {D: {"model": "A100", "index": 3, "good": True, "version": version_value("1.10.0")}},
    "capacity": {D: {"memory": capacity_value(40 * 2**30 * 1000)}},
    "allowMultipleAllocations": False,
}

ANSWERS = [
    (f'device.driver == "{D}"', True),
    (f"device.driver == '{D}'", True),
    ('device.driver == "other"', False),
    (f'device.attributes["{D}"].model == "A100" && device.attributes["{D}"].index > 2', True),
    (f'device.attributes["{D}"].good', True),
    (f'device.capacity["{D}"].memory.compareTo(quantity("40Gi")) >= 0', True),
    (f'device.capacity["{D}"].memory.isGreaterThan(quantity("40Gi"))', False),
    (f'device.attributes["{D}"].version.isGreaterThan(semver("1.9.9"))', True),
    (f'device.attributes["{D}"].version.compareTo(semver("1.10.0-rc.1")) > 0', True),
    (f'device.attributes["{D}"].version == semver("1.10.0")', True),
    (f'device.attributes["{D}"].version.minor() == 10', True),
    ('has(device.attributes["absent.example.com"].model)', False),
    ('"model" in device.attributes["absent.example.com"]', False),
    (f'cel.bind(own, device.attributes["{D}"], own.good && own.index == 3)', True),
    (f'cel.bind(a, device.attributes["{D}"], cel.bind(b, a.index, b == 3 && a.model != "b, )"))', True),
    (f'device.attributes["{D}"].model.matches("^A[0-9]+$")', True),
    (f'device.attributes["{D}"].exists(name, name == "model")', True),
]


@pytest.mark.parametrize(("expression", "answer"), ANSWERS)
def test_a_selector_says_what_kubernetes_would_say(expression: str, answer: bool) -> None:
    assert device_matcher(expression)(DEVICE)[0] is answer


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("device.driver ==", "compilation failed"),
        ("cel.bind(x, 1)", "cel.bind takes a name, a value and an expression"),
        ("device.driver == " + '"x"' * 5000, "longer than 10240 characters"),
        ("device.driver.unheard()", "undeclared reference to 'unheard'"),
        ("self.driver == ''", "undeclared reference to 'self'"),
    ],
)
def test_a_selector_that_cannot_be_used_says_why(expression: str, words: str) -> None:
    with pytest.raises(CelError, match=words.replace("(", r"\(")):
        device_matcher(expression)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ('device.attributes["absent.example.com"].model == "x"', "no such key: model"),
        ("1 + 1", "the answer is int, not bool"),
        ("1 / 0 == 1", "division by zero"),
        ("[1,2,3,4,5,6,7,8,9,10]" + ".map(x, [x,x,x,x,x,x,x,x,x,x]).flatten()" * 6 + " == []", "cost limit exceeded"),
    ],
)
def test_a_selector_that_fails_on_a_device_says_why(expression: str, words: str) -> None:
    with pytest.raises(CelError, match=words):
        device_matcher(expression)(DEVICE)


def test_a_search_in_a_selector_takes_linear_time() -> None:
    assert device_matcher('device.driver.find("(a+)+$") == ""')(DEVICE)[0]


@pytest.mark.parametrize(
    ("less", "more"),
    [("1.2.3", "1.2.4"), ("1.9.0", "1.10.0"), ("1.0.0-alpha", "1.0.0"), ("1.0.0-alpha.1", "1.0.0-alpha.beta"),
     ("1.0.0-alpha", "1.0.0-alpha.1"), ("1.0.0-2", "1.0.0-10")],
)  # fmt: skip
def test_versions_compare_as_semantic_versions_do(less: str, more: str) -> None:
    assert version_value(less) < version_value(more)
