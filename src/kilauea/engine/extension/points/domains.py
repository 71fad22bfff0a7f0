"""Points at which plugins choose and score network domains for gangs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kilauea.engine.extension.points.registry import Registry


class DomainPoints(Registry):
    """Network domains for gangs: which to try, and their scores."""

    # --- network domains

    def add_hyper_node_order(self, plugin: str, score: Callable[..., Any]) -> None:
        """Add scores of network domains for a part of a gang: of (part, numbers of domains), a score by number."""
        self.add("hyper_node_order", plugin, score)

    def add_hyper_node_gradient_for_job(self, plugin: str, gradient: Callable[..., Any]) -> None:
        """Network domains to try for a job, in groups from the most to the least wanted; the first plugin decides.

        Of (job, number of the domain to stay in, purpose `Allocate` or `Evict`).
        """
        self.add("hyper_node_gradient_for_job", plugin, gradient)

    def add_hyper_node_gradient_for_sub_job(self, plugin: str, gradient: Callable[..., Any]) -> None:
        """As for a job, of a part of a gang (`kilauea.engine.placement.tasks.Part`)."""
        self.add("hyper_node_gradient_for_sub_job", plugin, gradient)

    def hyper_node_scores(self, part: Any, domains: Sequence[int]) -> dict[int, float]:
        """Sum of the plugins' scores for each network domain (by number), 0 without any score."""
        answers = self._all("hyper_node_order", part, domains)
        return {domain: sum(float(answer.get(domain, 0)) for answer in answers) for domain in domains}

    def hyper_node_gradient(self, point: str, subject: Any, domain: int, purpose: str) -> list[list[int]]:
        """The first plugin's answer at `hyper_node_gradient_for_job` or `..._for_sub_job`; else only the domain."""
        for plugin, function in self.walk(point):
            gradient: list[list[int]] = self.ask(point, plugin, function, subject, domain, purpose)
            return gradient
        return [[domain]]
