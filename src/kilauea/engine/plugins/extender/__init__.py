"""Include another program in decisions, over HTTP.

What:
    Calls a server: `POST URL/VERB` with a JSON object; the response is a JSON object. Verbs that are not configured are
    not called. With `extender.managedResources`, calls are made only for pods that request one of these resources.

    `predicate` sends `task` and `node`, and expects `status` (the reason why the pod cannot run there; empty if it can)
    and `code` (2: evictions may help). `prioritize` sends `task` and `nodes`, and expects `nodeScore`, numbers by name.
    `preemptable` and `reclaimable` send `evictor` and `evictees`, and expect `status` (1 permit, 0 abstain, -1 reject)
    and `victims`, objects with `UID`. `jobEnqueueable` sends `job` and expects a `status` of the same kind. `jobReady`
    sends `job` and expects `status`, true or false. `queueOverused` sends `queue` and expects `overused`.
    `allocateFunc` and `deallocateFunc` send `task` and expect `errorMessage`: with a message, the pod does not start.
    `jobEnqueued`, `onSessionOpen` and `onSessionClose` only notify the server.

Why:
    A policy that needs other data, such as licenses or the state of a storage system, can live in a separate program.

Arguments:
    extender.urlPrefix (text, ""): the base URL of the verbs, `http://` or `https://`.
    extender.httpTimeout (text, 1s): a duration; the maximum time for one response.
    extender.cycleTimeout (text, 10s): a duration; the maximum time for all responses of a cycle. Later requests fail.
    extender.ignorable (true or false, false): scheduling continues if the extender fails. If false, the pods that it
    manages wait as long as it fails.
    extender.managedResources (list): the extender is called only for pods that request one of these; if empty, for all
    pods.

    The arguments named `...Verb` are the paths of the verbs. Identical requests in a cycle are sent once. `kilauea
    plan` calls the extender, too.

Example:
    tiers:
    - plugins:
      - name: extender
        arguments:
          extender.urlPrefix: http://licences.example:8888/scheduler
          extender.predicateVerb: predicate
          extender.prioritizeVerb: prioritize
          extender.httpTimeout: 500ms
          extender.managedResources: [example.com/licence]

Difference from the original:
    An extender that fails and is ignorable abstains, where Volcano lets it block evictions and admit jobs regardless of
    other plugins. One that fails and is not ignorable never makes a job ready; if `onSessionOpen` fails, its pods wait
    instead of being scheduled without it. Failed scores are ignored. TLS, the time limit for a cycle and concurrent
    requests for many nodes are additions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from kilauea.api.times import SECOND, parse_duration
from kilauea.engine.conf import Finding, argument
from kilauea.engine.evaluation import kernels
from kilauea.engine.extension import ABSTAIN, REJECT, Refusal, Rejection, Scope, SpareReason
from kilauea.engine.extension.outside import Endpoint, Reply
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.model.tasks import Task
from kilauea.engine.plugin import Plugin
from kilauea.engine.plugins.extender.answers import (
    FITS,
    Malformed,
    Verdict,
    flag_of,
    problem_of,
    scores_of,
    verdict_of,
    victims_of,
    vote_of,
)
from kilauea.engine.plugins.extender.bodies import job_body, node_body, queue_body, session_body, task_body
from kilauea.engine.session import Session

T = TypeVar("T")

MOST_REASONS = 100
"""Maximum number of distinct reasons in a cycle; further ones share the first."""
MOST_FINDINGS = 10
NO_NAMES: tuple[str, ...] = ()
OTHER = Rejection("Extender", "node(s) were rejected by the extender", hopeless=True)
SPARED = SpareReason("SparedByExtender", "the extender does not select it as a victim")


@dataclass(frozen=True)
class ExtenderArguments:
    """Arguments of extender."""

    url: str = argument("extender.urlPrefix", "", "The base URL of the verbs.")
    timeout: str = argument("extender.httpTimeout", "1s", "A duration; the maximum time for one response.")
    budget: str = argument("extender.cycleTimeout", "10s", "A duration; the maximum time for all responses of a cycle.")
    ignorable: bool = argument("extender.ignorable", False, "Scheduling continues if the extender fails.")
    managed: tuple[str, ...] = argument(
        "extender.managedResources", NO_NAMES, "Call it only for pods that request one of these."
    )
    on_open: str = argument("extender.onSessionOpenVerb", "", "Notified at the start of a cycle.")
    on_close: str = argument("extender.onSessionCloseVerb", "", "Notified at its end.")
    predicate: str = argument("extender.predicateVerb", "", "Nodes that can run a pod.")
    prioritize: str = argument("extender.prioritizeVerb", "", "Scores of nodes.")
    preemptable: str = argument("extender.preemptableVerb", "", "Victims in the queue of a pod.")
    reclaimable: str = argument("extender.reclaimableVerb", "", "Victims in other queues.")
    overused: str = argument("extender.queueOverusedVerb", "", "Queues that exceed their deserved share.")
    enqueueable: str = argument("extender.jobEnqueueableVerb", "", "Jobs that may be admitted.")
    enqueued: str = argument("extender.jobEnqueuedVerb", "", "Notified of admitted jobs.")
    ready: str = argument("extender.jobReadyVerb", "", "Jobs that may start.")
    allocate: str = argument("extender.allocateFuncVerb", "", "Notified of placed pods; can reject them.")
    deallocate: str = argument("extender.deallocateFuncVerb", "", "Notified of pods that leave their node.")
    authority: str = argument("extender.tls.caFile", "", "File with authorities for the server's certificate, PEM.")
    certificate: str = argument("extender.tls.certFile", "", "File with the client certificate, PEM.")
    key: str = argument("extender.tls.keyFile", "", "File with its key, PEM.")
    insecure: bool = argument("extender.tls.insecureSkipVerify", False, "Accept any certificate of the server.")


class Extender(Plugin):
    """See the module."""

    name = "extender"
    depends_on_time = False
    Arguments = ExtenderArguments

    def on_session_open(self, session: Session) -> None:
        given: ExtenderArguments = self.arguments
        self._session = session
        self._managed = frozenset(given.managed)
        self._broken = ""
        """The reason why no requests are possible in this session."""
        self._findings: dict[str, None] = {}
        self._verdicts: dict[tuple[str, int, bytes], Verdict] = {}
        """By task, row of the node and the node's figures."""
        self._reasons = [OTHER]
        self._codes: dict[Verdict, int] = {FITS: 0}
        self._refused: dict[str, str] = {}
        """By placed task: the reason why the extender refuses it."""
        self._line = session.outside.open(self._endpoint(given))
        if self._line is None:
            message = "no extender is asked: this program makes no requests; pods are placed without it"
            session.findings.append(Finding("plugin extender", message, code="ExtenderNotAsked"))
            self._broken = message
        self._lenient = given.ignorable or self._line is None
        if given.on_open and not self._broken:
            reply = self._ask(given.on_open, [session_body(session)], read=False)[0]
            if reply.error and not given.ignorable:
                self._broken = reply.error
        self._register(session, given)

    def on_session_close(self, session: Session) -> None:
        """Notify the extender that the session ends."""
        if self._line is not None and self.arguments.on_close:
            self._ask(self.arguments.on_close, [{}], read=False)

    def _register(self, session: Session, given: ExtenderArguments) -> None:
        if given.predicate or given.prioritize:
            session.add_task_trait(self.name, lambda task: task.key if self._interested(task) else None)
        if given.predicate:
            session.add_predicate(self.name, self._fit, self._reasons, scope=Scope.NODE, applies=self._applies)
        if given.prioritize:
            session.add_batch_node_score(self.name, self._score, applies=self._applies)
        if given.preemptable:
            session.add_preemptable(self.name, lambda t, c: self._victims(given.preemptable, t, c), why=SPARED)
        if given.reclaimable:
            session.add_reclaimable(self.name, lambda t, c: self._victims(given.reclaimable, t, c), why=SPARED)
        if given.overused:
            session.add_overused(self.name, self._overused)
        if given.enqueueable:
            session.add_job_enqueueable(self.name, self._enqueueable)
        if given.enqueued:
            session.add_job_enqueued(self.name, lambda job: self._tell(given.enqueued, {"job": job_body(session, job)}))
        if given.ready or given.allocate:
            session.add_job_ready(self.name, self._ready)
        if given.allocate or given.deallocate:
            session.add_event_handler(self.name, self._allocated, self._deallocated)

    # --- arguments

    def _endpoint(self, given: ExtenderArguments) -> Endpoint:
        try:
            parts = urlsplit(given.url)
            valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            valid = False
        if not valid:
            self._broken = f"extender.urlPrefix takes a URL such as http://host:port/path, not {given.url!r}"
            self._find("extender.urlPrefix", f"{self._broken}: {self._effect(given)}")
        timeout = self._duration("extender.httpTimeout", given.timeout, "1s")
        budget = self._duration("extender.cycleTimeout", given.budget, "10s")
        return Endpoint(given.url, timeout, budget, given.authority, given.certificate, given.key, given.insecure)

    def _effect(self, given: ExtenderArguments) -> str:
        return "nothing is asked" if given.ignorable else "pods that it manages wait"

    def _duration(self, key: str, text: str, default: str) -> int:
        try:
            found = parse_duration(text)
            if found > 0:
                return min(found, 3600 * SECOND)
            problem = f"{key} takes a duration above 0, not {text!r}"
        except ValueError as error:
            problem = f"{key}: {error}"
        self._find(key, f"{problem}; {default} is kept")
        return parse_duration(default)

    def _find(self, key: str, message: str) -> None:
        self._session.findings.append(Finding("plugin extender", message, code="wrong-value", path=(key,)))

    # --- requests

    def _interested(self, task: Task) -> bool:
        return not self._managed or not self._managed.isdisjoint(task.spec.requests)

    def _applies(self, shape: TaskShape) -> bool:
        return self.name in shape.traits

    def _ask(self, verb: str, bodies: Sequence[object], *, read: bool = True) -> list[Reply]:
        """Return the replies; each failure is also reported as a finding, once."""
        if self._broken or self._line is None:
            return [Reply(error=self._broken)] * len(bodies)
        replies = self._line.ask(verb, bodies, read=read)
        for reply in replies:
            if reply.error:
                self._fail(reply.error)
        return replies

    def _fail(self, error: str) -> None:
        if error not in self._findings and len(self._findings) < MOST_FINDINGS:
            self._findings[error] = None
            message = f"{error}; {self._effect(self.arguments)}" if not self._lenient else f"{error}; ignored"
            self._session.findings.append(Finding("plugin extender", message, code="ExtenderFailed"))

    def _read(self, verb: str, reply: Reply, read: Callable[[Any], T]) -> T | str:
        """The content of a reply, or the reason why there is none."""
        if reply.error:
            return reply.error
        try:
            return read(reply.body)
        except Malformed as error:
            problem = f"the answer of the extender to {verb} is malformed: {error}"
            self._fail(problem)
            return problem

    def _one(self, verb: str, body: object, read: Callable[[Any], T]) -> T | str:
        return self._read(verb, self._ask(verb, [body])[0], read)

    def _tell(self, verb: str, body: object) -> None:
        self._ask(verb, [body], read=False)

    # --- nodes

    def _fit(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.int64]:
        """Codes of nodes; nodes without room are not sent, as they are rejected anyway."""
        table = nodes.table
        room = kernels.fits(nodes.used - nodes.releasing + nodes.pipelined, shape.need, nodes.allocatable)
        rows = np.arange(len(table)) if nodes.rows is None else nodes.rows
        key = str(shape.traits[self.name])
        stamps = {int(row): (key, int(row), table.block[:, row].tobytes()) for row in rows[room]}
        unknown = [row for row, stamp in stamps.items() if stamp not in self._verdicts]
        if unknown:
            task = task_body(self._session, self._session.state.tasks[key])
            bodies = [{"task": task, "node": node_body(table, row)} for row in unknown]
            verb = self.arguments.predicate
            for row, reply in zip(unknown, self._ask(verb, bodies), strict=True):
                self._verdicts[stamps[row]] = self._verdict(self._read(verb, reply, verdict_of))
        codes = np.zeros(len(nodes), dtype=np.int64)
        codes[room] = [self._code(self._verdicts[stamp]) for stamp in stamps.values()]
        return codes

    def _verdict(self, found: Verdict | str) -> Verdict:
        if isinstance(found, Verdict):
            return found
        return FITS if self._lenient else Verdict(found, True)

    def _code(self, verdict: Verdict) -> int:
        code = self._codes.get(verdict)
        if code is None and len(self._reasons) < MOST_REASONS:
            self._reasons.append(Rejection("Extender", verdict.reason, hopeless=verdict.hopeless))
            code = self._codes[verdict] = len(self._reasons)
        return 1 if code is None else code

    def _score(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.float64] | None:
        session, table = self._session, nodes.table
        rows = range(len(table)) if nodes.rows is None else nodes.rows.tolist()
        task = session.state.tasks[str(shape.traits[self.name])]
        body = {"task": task_body(session, task), "nodes": [node_body(table, row) for row in rows]}
        found = self._one(self.arguments.prioritize, body, scores_of)
        if isinstance(found, str):
            return None
        return np.array([found.get(table.names[row], 0.0) for row in rows], dtype=np.float64)

    # --- victims

    def _victims(self, verb: str, evictor: Task, candidates: Sequence[Task]) -> tuple[list[Task], int]:
        if not self._interested(evictor):
            return [], ABSTAIN
        session = self._session
        evictees = [task_body(session, task) for task in candidates]
        found = self._one(verb, {"evictor": task_body(session, evictor), "evictees": evictees}, victims_of)
        if isinstance(found, str):
            return [], ABSTAIN if self._lenient else REJECT
        uids, vote = found
        return [task for task in candidates if task.uid in uids], vote

    # --- queues and jobs

    def _overused(self, queue: Queue) -> Refusal | None:
        found = self._one(self.arguments.overused, {"queue": queue_body(queue)}, lambda body: flag_of(body, "overused"))
        if isinstance(found, str):
            return None if self._lenient else Refusal("ExtenderFailed", found, queue.name)
        message = f"the extender says that queue {queue.name} has all it deserves"
        return Refusal("QueueOverused", message, queue.name) if found else None

    def _enqueueable(self, job: Job) -> tuple[int, Refusal | None]:
        found = self._one(self.arguments.enqueueable, {"job": job_body(self._session, job)}, vote_of)
        if isinstance(found, str):
            failed = Refusal("ExtenderFailed", found, job.queue)
            return (ABSTAIN, None) if self._lenient else (REJECT, failed)
        refusal = Refusal("NotAdmitted", "the extender does not admit the pod group", job.queue)
        return found, refusal if found == REJECT else None

    def _ready(self, job: Job) -> bool:
        refused = next((self._refused[key] for key in job.tasks if key in self._refused), "")
        if refused:
            self._session.refuse(job, Refusal("ExtenderRefused", refused, job.queue))
            return False
        if not self.arguments.ready:
            return True
        body = {"job": job_body(self._session, job)}
        found = self._one(self.arguments.ready, body, lambda answer: flag_of(answer, "status"))
        if isinstance(found, str):
            if not self._lenient:
                self._session.refuse(job, Refusal("ExtenderFailed", found, job.queue))
            return bool(self._lenient)
        if not found:
            message = "the extender says that the pod group is not ready"
            self._session.refuse(job, Refusal("ExtenderRefused", message, job.queue))
        return found

    # --- events

    def _allocated(self, task: Task, row: int) -> Refusal | None:
        """Report a placed task; a refusal undoes the placement, or else its job does not start."""
        if self.arguments.allocate and self._interested(task):
            verb = self.arguments.allocate
            reply = self._ask(verb, [{"task": task_body(self._session, task)}])[0]
            said = self._read(verb, reply, problem_of)
            failed = bool(reply.error) or said.startswith("the answer of the extender")
            if said and not (failed and self._lenient):
                reason = said if failed else f"the extender refuses pod {task.name}: {said}"
                self._refused[task.key] = reason
                return Refusal("ExtenderRefused", reason)
        return None

    def _deallocated(self, task: Task, row: int) -> None:
        self._refused.pop(task.key, None)
        if self.arguments.deallocate and self._interested(task):
            self._one(self.arguments.deallocate, {"task": task_body(self._session, task)}, problem_of)
