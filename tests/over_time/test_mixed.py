"""Random clusters in which many rules meet come to rest, and no pod, gang or node is worse off than a law says.

In the profile `default` 100 histories are played, in `thorough` 5,000.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from over_time.configurations import MIXED
from over_time.failures import write
from over_time.history import play
from over_time.mixed_laws import broken_when_mixed
from over_time.mixed_worlds import mixed_cases

MOST = settings.default.max_examples if settings.default is not None else 60
HISTORIES = MOST if MOST >= 1000 else MOST // 3


@pytest.mark.slow
@pytest.mark.parametrize("name", MIXED)
@settings(max_examples=HISTORIES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_a_cluster_of_many_rules_comes_to_rest_and_keeps_them(name: str, data: st.DataObject) -> None:
    history = play(MIXED[name], data.draw(mixed_cases(name)), longest=80)
    found = broken_when_mixed(history)
    if found:
        pytest.fail(write(f"mixed-{name}", history, found, judge=broken_when_mixed), pytrace=False)
