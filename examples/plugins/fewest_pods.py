"""Prefer the node that runs the fewest pods.

What:
    Scores every node with the number of its pods, negated.

Why:
    Pods that share nothing but a node disturb each other least when they are spread.

Arguments:
    fewest-pods.weight (number, 1): factor of the score.

Example:
    tiers:
    - plugins:
      - name: fewest-pods
        arguments:
          fewest-pods.weight: 2

Difference from the original:
    The original has no such plugin.
"""

from __future__ import annotations

from dataclasses import dataclass

from kilauea.engine.conf import argument
from kilauea.engine.plugin import Plugin
from kilauea.engine.session import Session


@dataclass(frozen=True)
class Arguments:
    """Arguments in the configuration."""

    weight: float = argument("fewest-pods.weight", 1.0, "Factor of the score.")


class FewestPods(Plugin):
    """See the module."""

    name = "fewest-pods"
    Arguments = Arguments

    def on_session_open(self, session: Session) -> None:
        """Register the score."""
        weight = self.arguments.weight
        session.add_node_score(self.name, lambda shape, nodes: -weight * nodes.pod_count.astype(float))
