"""Metrics of which there is much: counted in lists, and named only when somebody reads them."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector


class Tally(Collector):
    """A histogram with one label, into which an observation costs next to nothing.

    Args:
        name: of the metric.
        words: what it is.
        bounds: of the buckets, ascending; what lies above the last has one more.
        label: name of the label.
        values: what the label may be.
    """

    def __init__(self, name: str, words: str, bounds: Sequence[float], label: str, values: Sequence[str]) -> None:
        self._name, self._words, self._label = name, words, label
        self._bounds = list(bounds)
        self._counts = {value: [0] * (len(bounds) + 1) for value in values}
        self._sums = dict.fromkeys(values, 0.0)

    def observe(self, value: str, amount: float) -> None:
        """Count an observation under a value of the label."""
        self._counts[value][bisect_left(self._bounds, amount)] += 1
        self._sums[value] += amount

    def collect(self) -> Iterator[Metric]:
        """The histogram as it is now."""
        family = HistogramMetricFamily(self._name, self._words, labels=[self._label])
        names = [*map(str, self._bounds), "+Inf"]
        for value, counts in self._counts.items():
            buckets = zip(names, map(float, itertools.accumulate(counts)), strict=True)
            family.add_metric([value], list(buckets), self._sums[value])
        yield family


class Snapshot(Collector):
    """A gauge of which all series are set at once; those of before are gone.

    Args:
        name: of the metric.
        words: what it is.
        labels: names of the labels.
    """

    def __init__(self, name: str, words: str, labels: Sequence[str]) -> None:
        self._name, self._words, self._labels = name, words, labels
        self._series: Sequence[tuple[Sequence[str], float]] = ()

    def set(self, series: Iterable[tuple[Sequence[str], float]]) -> None:
        """These are the series now: values of the labels, and the value."""
        self._series = tuple(series)

    def collect(self) -> Iterator[Metric]:
        """The gauge as it was set last."""
        family = GaugeMetricFamily(self._name, self._words, labels=self._labels)
        for labels, value in self._series:
            family.add_metric(labels, value)
        yield family
