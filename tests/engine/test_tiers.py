"""How much each tier of the network counts for pods without a wish, also where tiers are far apart."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.engine.plugins.network_topology_aware import NetworkTopologyAware

FAR = 2**31 - 1


def faded(tiers: list[int], fading: float) -> tuple[dict[int, float], float]:
    """Weight of each tier, and of all from the first to the last, those without domains included."""
    plugin = NetworkTopologyAware.__new__(NetworkTopologyAware)
    plugin._tree = SimpleNamespace(distinct_tiers=tiers)  # type: ignore[assignment]
    plugin.arguments = SimpleNamespace(fading=fading)
    return plugin._faded


@given(
    st.lists(st.integers(0, 12), min_size=2, max_size=6, unique=True).map(sorted),
    st.sampled_from([0.0, 0.1, 0.5, 0.8, 0.999, 1.0, 1.5, 3.0]),
)
def test_every_tier_counts_by_its_number_whether_or_not_it_has_domains(tiers: list[int], fading: float) -> None:
    plain = {tier: fading ** max(tier - 1, 0) for tier in range(tiers[0], tiers[-1] + 1)}
    weights, whole = faded(tiers, fading)
    if sum(plain.values()):
        assert [weights[t] / whole for t in tiers] == pytest.approx([plain[t] / sum(plain.values()) for t in tiers])


@pytest.mark.parametrize("tiers", [[1, FAR], [0, FAR], [1, 5, FAR - 1, FAR], [FAR - 1, FAR]], ids=str)
@pytest.mark.parametrize("fading", [0.0, 5e-324, 0.8, 1.0, 1.5, 1e15])
def test_tiers_far_apart_give_shares_of_one(tiers: list[int], fading: float) -> None:
    weights, whole = faded(tiers, fading)
    assert 0 < sum(weights.values()) <= whole < float("inf")
