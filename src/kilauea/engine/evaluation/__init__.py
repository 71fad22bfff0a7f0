"""Nodes for a task: the feasible ones, their scores, or the reasons if none is. The array math of the hot loop."""

from kilauea.engine.evaluation.evaluation import Evaluation, NodeChoice, Unfit

__all__ = ["Evaluation", "NodeChoice", "Unfit"]
