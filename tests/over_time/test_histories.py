"""Random clusters are disturbed, come to rest, and keep their promises on the way.

In the profile `default` some 300 histories are played, in `thorough` more than 10,000. A history that breaks a law is
shrunk and written to `build/laws`; the message has the command that shows the fault.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from over_time.configurations import CONFIGURATIONS
from over_time.failures import write
from over_time.history import play
from over_time.laws import broken
from over_time.worlds import cases

MOST = settings.default.max_examples if settings.default is not None else 60
HISTORIES = MOST if MOST >= 1000 else MOST // 3


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGURATIONS)
@settings(max_examples=HISTORIES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_a_cluster_comes_to_rest_and_keeps_its_promises(name: str, data: st.DataObject) -> None:
    objects, changes = data.draw(cases(name))
    history = play(CONFIGURATIONS[name], objects, changes)
    found = broken(history)
    if found:
        pytest.fail(write(name, history, found), pytrace=False)
