"""Metrics with many series: counted in lists, and named only when they are scraped."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

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


class Series(Collector):
    """A gauge with labels whose series take little memory, and next to no time to set.

    One of the library takes half a kilobyte and several microseconds for each.

    Args:
        name: of the metric.
        words: what it is.
        labels: names of the labels.

    Attributes:
        values: by the values of the labels.
    """

    def __init__(self, name: str, words: str, labels: Sequence[str]) -> None:
        self._name, self._words, self._labels = name, words, labels
        self.values: dict[tuple[str, ...], float] = {}

    def collect(self) -> Iterator[Metric]:
        """The series as they are now."""
        family = GaugeMetricFamily(self._name, self._words, labels=self._labels)
        for labels, value in self.values.items():
            family.add_metric(labels, value)
        yield family


class Gauges(Collector):
    """Gauges with the same labels, which are looked up when they are scraped.

    Args:
        gauges: what each is, by name.
        labels: names of the labels.
        series: values of the labels, with the value of each gauge.
    """

    def __init__(
        self,
        gauges: Mapping[str, str],
        labels: Sequence[str],
        series: Callable[[], Iterable[tuple[Sequence[str], Sequence[float]]]],
    ) -> None:
        self._gauges, self._labels, self._series = gauges, labels, series

    def collect(self) -> Iterator[Metric]:
        """The gauges as they are now."""
        series = list(self._series())
        for number, (name, words) in enumerate(self._gauges.items()):
            family = GaugeMetricFamily(name, words, labels=self._labels)
            for labels, values in series:
                family.add_metric(labels, values[number])
            yield family
