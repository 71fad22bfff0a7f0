"""Points at which plugins choose and score network domains for gangs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kilauea.engine.extension.points.registry import Registry


class DomainPoints(Registry):
    """Network domains for gangs: which to try, and their scores."""

    # --- network domains

    def add_hyper_node_order(self, plugin: str, score: Callable[..., Any]) -> None:
        """Add scores of network domains for a part of a gang: (part, numbers of domains) -> score by number."""
        self.add("hyper_node_order", plugin, score)

    def add_hyper_node_gradient_for_job(self, plugin: str, gradient: Callable[..., Any]) -> None:
        """Add the network domains to try for a job, in groups from most to least preferred; the first plugin decides.

        Arguments: the job, the number of the domain to stay in, and the purpose, `Allocate` or `Evict`.
        """
        self.add("hyper_node_gradient_for_job", plugin, gradient)

    def add_hyper_node_gradient_for_sub_job(self, plugin: str, gradient: Callable[..., Any]) -> None:
        """The same for a part of a gang (`kilauea.engine.placement.tasks.Part`)."""
        self.add("hyper_node_gradient_for_sub_job", plugin, gradient)

    def hyper_node_scores(self, part: Any, domains: Sequence[int]) -> dict[int, float]:
        """Return the sum of the plugins' scores for each network domain by number; 0 without scores."""
        answers = self._all("hyper_node_order", part, domains)
        return {domain: sum(float(answer.get(domain, 0)) for answer in answers) for domain in domains}

    def hyper_node_gradient(self, point: str, subject: Any, domain: int, purpose: str) -> list[list[int]]:
        """Return the first plugin's result at `hyper_node_gradient_for_job` or `..._for_sub_job`; else the domain."""
        for plugin, function in self.walk(point):
            gradient: list[list[int]] = self.ask(point, plugin, function, subject, domain, purpose)
            return gradient
        return [[domain]]
