"""Namespaces that the affinity terms of pods select."""

from __future__ import annotations

from collections.abc import Mapping

from kilauea.api.selectors import matches
from kilauea.engine.model.task_specs import PodTerm

NO_LABELS: Mapping[str, str] = {}


class Namespaces:
    """Labels of namespaces, for terms with a namespace selector."""

    def __init__(self, labels: Mapping[str, Mapping[str, str]]) -> None:
        self._labels = labels

    def meant(self, term: PodTerm, namespace: str, *, must_exist: bool) -> bool:
        """Return True if a term selects pods in this namespace.

        Volcano resolves the selector of an incoming pod's term among existing namespaces (`must_exist`), and treats a
        missing namespace as one without labels when it evaluates the terms of running pods.
        """
        if namespace in term.namespaces:
            return True
        if term.namespace_selector is None:
            return False
        labels = self._labels.get(namespace)
        if labels is None:
            if must_exist:
                return False
            labels = NO_LABELS
        return matches(term.namespace_selector, labels)
