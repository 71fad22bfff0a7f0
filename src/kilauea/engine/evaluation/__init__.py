"""Nodes for a task: which can take it, how good they are, and if none can, why. The array maths of the hot loop."""

from kilauea.engine.evaluation.evaluation import Choice, Evaluation, Unfit

__all__ = ["Choice", "Evaluation", "Unfit"]
