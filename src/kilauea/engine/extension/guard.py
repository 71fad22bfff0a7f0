"""The guard around custom plugins and actions: any error in them is reported as a fault with their name.

Plugins of this package are called directly. Every function that another plugin registers is wrapped: an exception is
reported with the plugin, file and line; results are validated more closely; the data of the nodes is read-only; and a
watchdog limits the time of each call. The engine has no clock, so the watchdog is passed in by the caller
(`kilauea.runtime.watchdog`); without one, calls are not limited.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from types import TracebackType
from typing import Any, Literal, Protocol

import numpy as np

from kilauea.engine.extension.points.answers import PluginFault
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.nodes import NodeRows

Kind = Literal["plugin", "action"]


class Hang(BaseException):
    """A call takes too long; raised inside it by a watchdog.

    It does not derive from `Exception`, so that plugins do not catch it by accident.
    """


class ActionFault(Exception):
    """An action raised an exception, or took too long."""

    def __init__(self, action: str, point: str, error: object) -> None:
        self.what = f"failed in {point}: {error}"
        super().__init__(f"action {action} {self.what}")
        self.action = action


class Watchdog(Protocol):
    """Limits the time of calls to custom plugins and actions."""

    def call(self, kind: Kind, function: Callable[..., Any], *arguments: object) -> Any:
        """Call the function and return its answer.

        Raises:
            Hang: inside the function, never after this method has returned, if the call takes too long for its kind.
        """


class Unwatched:
    """A watchdog without limits."""

    def call(self, kind: Kind, function: Callable[..., Any], *arguments: object) -> Any:
        """Call the function and return its answer."""
        return function(*arguments)


UNWATCHED = Unwatched()


class Guard:
    """Wraps one plugin or action."""

    def __init__(self, name: str, module: str, watchdog: Watchdog, kind: Kind = "plugin", *, domains: int = 0) -> None:
        """Wrap a plugin or action that a module defines; `domains` is the number of network domains."""
        self._name = name
        self._domains = domains
        self._module = module
        self._watchdog = watchdog
        self._kind = kind
        self._fault = PluginFault if kind == "plugin" else ActionFault

    def around(self, point: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the wrapped function of a plugin at an extension point."""
        call = self._look if point in OVER_NODES else self.call
        check = ANSWERS.get(point)

        def guarded(*arguments: Any) -> Any:
            # Lists belong to the engine, so the plugin gets copies.
            given: list[Any] = [list(argument) if isinstance(argument, list) else argument for argument in arguments]
            answer = call(point, function, *given)
            error = check(answer, arguments) if check is not None else ""
            if not error and point.startswith("hyper_node_gradient"):
                error = _unknown_domains(answer, self._domains)
            if error:
                raise self._fault(self._name, point, error)
            return answer

        return guarded

    def call(self, point: str, function: Callable[..., Any], *arguments: object) -> Any:
        """Call the function and return its answer; an exception becomes a fault of the plugin.

        Raises:
            PluginFault, ActionFault: the function raised an exception or took too long, or called a plugin that did.
        """
        try:
            return self._watchdog.call(self._kind, function, *arguments)
        except (PluginFault, KeyboardInterrupt):
            raise
        except Hang as hang:
            raise self._fault(self._name, point, f"{hang}{self._place(hang.__traceback__)}") from hang
        except BaseException as error:  # including SystemExit: a plugin must not end the process
            raise self._fault(self._name, point, f"{describe(error)}{self._place(error.__traceback__)}") from error

    def _look(self, point: str, function: Callable[..., Any], shape: Any, nodes: NodeRows, *more: Any) -> Any:
        """Call the function with nodes whose data is read-only during the call."""
        block = nodes.table.block
        block.flags.writeable = False
        try:
            copies = [extra.copy() for extra in more]
            return self.call(point, function, shape, NodeRows(nodes.table, nodes.rows), *copies)
        finally:
            block.flags.writeable = True

    def _place(self, trace: TracebackType | None) -> str:
        """` (file.py, line 7)`: the last line of a traceback in the plugin's own file, or in any that is not ours."""
        own = other = ""
        while trace is not None:
            frame = trace.tb_frame
            module = str(frame.f_globals.get("__name__", ""))
            here = f" ({PurePath(frame.f_code.co_filename).name}, line {trace.tb_lineno})"
            if module == self._module:
                own = here
            elif module.partition(".")[0] != "kilauea":
                other = here
            trace = trace.tb_next
        return own or other


def describe(error: BaseException) -> str:
    """Type and text of an exception."""
    return f"{type(error).__name__}: {error}".removesuffix(": ")


# --- results: each check returns an error or an empty string, and omits checks that the engine makes for every plugin


def _kind(answer: object) -> str:
    if isinstance(answer, np.ndarray):
        return f"an array of {answer.dtype} with shape {answer.shape}"
    return "None" if answer is None else f"{type(answer).__name__} {answer!r:.60}"


def _check_bool(answer: object, _: Sequence[Any]) -> str:
    return "" if isinstance(answer, (bool, np.bool_)) else f"expected True or False, got {_kind(answer)}"


def _whole(answer: object) -> bool:
    return isinstance(answer, (int, np.integer)) and not isinstance(answer, bool)


def _vote(answer: object, _: Sequence[Any]) -> str:
    """False would count as ABSTAIN, which is probably not intended."""
    return f"expected PERMIT, ABSTAIN or REJECT, got {answer}" if isinstance(answer, (bool, np.bool_)) else ""


def _first_vote(answer: object, _: Sequence[Any]) -> str:
    return _vote(answer[0], ()) if isinstance(answer, tuple) and answer else ""


def _last_vote(answer: object, arguments: Sequence[Any]) -> str:
    if not isinstance(answer, tuple) or len(answer) != 2:
        return ""
    return _vote(answer[1], ()) or _candidates(answer[0], arguments[1:])


def _candidates(answer: object, arguments: Sequence[Any]) -> str:
    """Victims must be among the candidates."""
    if not isinstance(answer, Sequence):
        return f"expected a list of tasks, got {_kind(answer)}"
    known = {id(task) for task in arguments[0]}
    stranger = next((task for task in answer if id(task) not in known), None)
    return "" if stranger is None else f"{getattr(stranger, 'key', stranger)} is not among the candidates"


def _key(answer: object, _: Sequence[Any]) -> str:
    return "the sort key is not a number" if isinstance(answer, float) and math.isnan(answer) else ""


def _scores_by_domain(answer: object, _: Sequence[Any]) -> str:
    good = isinstance(answer, Mapping) and all(
        _whole(domain) and isinstance(score, (int, float, np.number)) and np.isfinite(score)
        for domain, score in answer.items()
    )
    return "" if good else f"expected finite scores by number of the domain, got {_kind(answer)}"


def _gradient(answer: object, _: Sequence[Any]) -> str:
    good = isinstance(answer, Sequence) and all(
        isinstance(group, Sequence) and all(_whole(domain) and domain >= 0 for domain in group) for group in answer
    )
    return "" if good else f"expected lists of numbers of domains, got {_kind(answer)}"


def _unknown_domains(answer: Sequence[Sequence[int]], domains: int) -> str:
    stranger = next((domain for group in answer for domain in group if domain >= domains), None)
    return "" if stranger is None else f"there is no domain {stranger}, only {domains}"


def _job(answer: object, _: Sequence[Any]) -> str:
    return "" if answer is None or isinstance(answer, Job) else f"expected a job or None, got {_kind(answer)}"


OVER_NODES = frozenset("predicate node_score batch_node_score node_map best_node".split())
"""Points whose functions get a shape and nodes as arguments."""
ANSWERS: dict[str, Callable[[Any, Sequence[Any]], str]] = {
    **dict.fromkeys("job_order queue_order task_order sub_job_order cluster_order victim_queue_order".split(), _key),
    **dict.fromkeys("job_ready sub_job_ready preemptive job_starving".split(), _check_bool),
    **dict.fromkeys("job_pipelined sub_job_pipelined".split(), _vote),
    **dict.fromkeys("preemptable reclaimable unified_evictable".split(), _last_vote),
    "job_enqueueable": _first_vote,
    "victim_tasks": _candidates,
    "hyper_node_order": _scores_by_domain,
    "hyper_node_gradient_for_job": _gradient,
    "hyper_node_gradient_for_sub_job": _gradient,
    "target_job": _job,
}
"""Checks by extension point; at other points, the engine itself checks the result, or accepts any."""
