"""Nodes for a task: which can take it, how good they are, and if none can, why. The array maths of the hot loop."""

from kilauea.engine.evaluation.evaluation import Evaluation, NodeChoice, Unfit

__all__ = ["Evaluation", "NodeChoice", "Unfit"]
