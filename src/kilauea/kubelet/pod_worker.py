"""`PodWorker`: manages the life cycle of one pod on this machine.

It sleeps until something happens: the pod or an object that it uses has changed, a container has exited, a probe has a
verdict, or a timer has expired. Then it checks everything, does what is due, and writes the status if it has changed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from kilauea.api.kinds import PODS
from kilauea.api.ports import ApiError, Obj, key_of
from kilauea.api.times import SECOND
from kilauea.kubelet.container_config import facts_of, logs_of, termination_message, unenforced
from kilauea.kubelet.container_runtime import ContainerError, ContainerState
from kilauea.kubelet.host import Host
from kilauea.kubelet.members import Member, images_of, members_of, next_of
from kilauea.kubelet.resizing import Resizer
from kilauea.kubelet.running import Running
from kilauea.kubelet.starting import Starter
from kilauea.kubelet.status import changed, phase_of, pod_status
from kilauea.kubelet.storage import exceeded, is_limited, used
from kilauea.kubelet.volumes import VolumeError
from kilauea.kubelet.volumes.manager import Prepared, fields_shown
from kilauea.nodes.lifecycle import DEADLINE
from kilauea.nodes.pod_status import ENDED, FAILED
from kilauea.nodes.requests import requests_of
from kilauea.nodes.timestamps import moment_of, second_text

DEADLINE_WORDS = "Pod was active on the node longer than the specified deadline"
_FIRST_RETRY, _LONGEST_RETRY = 0.5, 122.0
"""Seconds until a retry of volumes that could not be mounted; doubled each time."""
LOOK_SECONDS = 10
"""Seconds between two measurements of the disk space of pods with a limit."""
_EVICTION_GRACE = 1.0
"""Grace period in seconds for containers of an evicted pod, as in kubelets."""
SHORT_RUN = 0.03
"""Seconds within which a container may end before its start is written."""
_WRITE_RETRY = 1.0
_GONE_GRACE = 2.0
"""Grace period in seconds for containers of a pod that was deleted immediately, or restarts."""
log = logging.getLogger(__name__)


class PodWorker:
    """One pod of this machine.

    Args:
        host: the machine.
        pod: as the API has it.
        found: runs of its containers that the runtime knows of an earlier process.
        refusal: reason and message if the node rejects the pod.

    Attributes:
        pod: the current pod in the API.
        requests: amounts that it requests.
    """

    def __init__(
        self, host: Host, pod: Obj, found: Sequence[ContainerState] = (), refusal: tuple[str, str] | None = None
    ) -> None:
        self.pod = pod
        self.requests = requests_of(pod)
        self._host = host
        self._members = members_of(pod, self._host.runtime.name)
        self._by_name = {each.name: each for each in self._members}
        self._wake = asyncio.Event()
        self._exit_came = asyncio.Event()
        self._exits: list[ContainerState] = []
        self._running = Running(host, self._by_name, self._wake.set)
        self._starter = Starter(host)
        self._resizer = Resizer(host)
        self._exited: list[str] = []
        """Containers to remove from the runtime once their end is written."""
        self._volumes: dict[str, Prepared] | None = None
        self._stale = False
        self._shown: Mapping[str, Any] = {}
        """Fields of the pod, as shown in its volumes."""
        self._failures = 0
        self._retry = 0
        self._why: dict[str, str] = {}
        self._refused = False
        self._look = 0
        """Time of the next measurement of used disk space, in microseconds since 1970."""
        self._measuring: asyncio.Task[None] | None = None
        self._evicted = ""
        """The reason why the pod is evicted; empty if it is not."""
        self._ending = False
        self._grace_end = 0.0
        self._gone = False
        self._told = False
        self._find_again(found)
        if refusal is not None:
            self._refuse(*refusal)

    @property
    def waits(self) -> bool:
        """True if a container could not be started because of something external."""
        return self._retry > 0 or any(each.retry for each in self._members)

    # --- notifications

    def update(self, pod: Obj) -> None:
        """Handle a new version of the pod."""
        if _version(pod) >= _version(self.pod):
            if pod["metadata"].get("generation") != self.pod["metadata"].get("generation"):
                self.requests = self._granted(pod)
            self.pod = pod
            for each in members_of(pod, self._host.runtime.name):
                if each.name not in self._by_name:  # an ephemeral container; others cannot be added
                    self._members.append(each)
                    self._by_name[each.name] = each
        self._wake.set()

    def _granted(self, pod: Obj) -> Mapping[str, int]:
        """The requests of a pod, without those of a resize that is not granted yet."""
        return requests_of(pod, {each.name: each.spec.get("resources") or {} for each in self._members})

    def vanish(self) -> None:
        """Handle that the pod is no longer in the API."""
        self._gone = True
        self._wake.set()

    def exited(self, state: ContainerState) -> None:
        """Handle that a container has exited."""
        self._exits.append(state)
        self._exit_came.set()
        self._wake.set()

    def refresh(self) -> None:
        """Handle a change of an object that the pod uses."""
        self._stale = True
        self._retry = 0
        for each in self._members:
            if each.fresh:
                each.retry = 0
        self._wake.set()

    # --- disk space

    @property
    def is_evicted(self) -> bool:
        """True if it has been evicted."""
        return bool(self._evicted)

    @property
    def frees_space(self) -> bool:
        """True if it has been evicted, and its files are not released yet."""
        return self.is_evicted and self._volumes is not None

    async def disk_usage(self) -> int:
        """Return the bytes on the disk that the end of the pod would free; 0 if they cannot be measured."""
        try:
            volumes, written, _ = await self._folders(self._volumes or {})
            return await used(self.pod, volumes, written)
        except ContainerError as error:
            log.warning("the disk usage of pod %s is not measured: %s", self._about(), error)
            return 0

    def evict(self, message: str) -> None:
        """End the pod because of its disk usage, soon even if it is ending with a long grace period."""
        self._evicted = message
        if self._ending:
            self._end_within(_EVICTION_GRACE)
        self._wake.set()

    async def _folders(self, volumes: Mapping[str, Prepared]) -> tuple[dict[str, Path], ...]:
        """The folders of the volumes, of what containers have written outside of them, and of their logs, by name."""
        running = {each.id: each.name for each in self._members if each.running}
        found = await self._host.runtime.folders(list(running))
        logs = {each.name: logs_of(self._host.data, self.pod) / each.name for each in self._members}
        written = {running[id]: folder for id, folder in found.items()}
        return {name: each.path for name, each in volumes.items()}, written, logs

    # --- life cycle

    async def run(self) -> None:
        """Run until the pod has ended, and been deleted if requested."""
        try:
            while True:
                self._wake.clear()
                if await self._step():
                    return
                await self._sleep()
        finally:
            self._running.cancel()
            if self._measuring is not None:
                self._measuring.cancel()

    async def _sleep(self) -> None:
        due = self._due()
        seconds = None if due is None else max(due - self._host.clock.now(), 0) / SECOND
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()

    async def _step(self) -> bool:
        """Do what is due; return True if nothing is left to do."""
        now = self._host.clock.now()
        self._take_exits()
        self._check_end(now)
        if self._ending:
            self._stop_more()
        elif any(each.restarts_all for each in self._members) and not await self._restart_all():
            pass  # some still run
        elif await self._go_on(now):
            await self._see_short_runs()
        return await self._report()

    async def _see_short_runs(self) -> None:
        """Wait briefly for the end of containers that have just started, so that one status reports both."""
        self._exit_came.clear()
        if not self._exits:
            with suppress(TimeoutError):
                async with asyncio.timeout(SHORT_RUN):
                    await self._exit_came.wait()
        self._take_exits()
        self._check_end(self._host.clock.now())

    def _due(self) -> int | None:
        """Time of the next timer, in microseconds since 1970."""
        moments = [] if self._ending else [next_of(self._members, self._host.clock.now()).due, self._deadline()]
        moments += [] if self._ending else [self._resizer.due]
        moments += [self._retry or None, self._host.volumes.renewal(self.pod["metadata"]["uid"])]
        if not self._ending and self._measuring is None and is_limited(self.pod):
            moments.append(self._look)
        return min((each for each in moments if each is not None), default=None)

    def _deadline(self) -> int | None:
        seconds = self.pod["spec"].get("activeDeadlineSeconds")
        started = moment_of((self.pod.get("status") or {}).get("startTime"))
        return None if seconds is None or started is None else started + int(seconds) * SECOND

    def _find_again(self, found: Sequence[ContainerState]) -> None:
        """Take over containers that still run, or have ended meanwhile."""
        now = self._host.clock.now()
        latest: dict[str, ContainerState] = {}
        for state in sorted(found, key=lambda each: each.attempt):
            latest[state.name] = state
        for state in found:
            if state.state == "exited":
                self._exited.append(state.id)
        for member in self._members:
            last = latest.get(member.name)
            if last is None or last.attempt < member.attempt:
                if member.running:
                    member.lose(now)
            elif last.state == "running":
                member.run(last)
                self._running.watch(member, self._target_address(), self.pod, found=True)
            elif "terminated" not in member.state or last.attempt > member.attempt:
                self._end(member, last)

    def _target_address(self) -> str:
        status = self.pod.get("status") or {}
        return str(status.get("podIP") or self._host.pod_address(self.pod))

    def _refuse(self, reason: str, message: str) -> None:
        self._why = {"reason": reason, "message": f"Pod was rejected: {message}"}
        self._host.event(self.pod, reason, message, warning=True)
        self._ending = self._refused = True

    def _take_exits(self) -> None:
        exits, self._exits = self._exits, []
        for state in exits:
            member = self._by_name.get(state.name)
            self._exited.append(state.id)
            if member is not None and state.attempt >= member.attempt:
                self._running.forget(member)
                self._end(member, state)

    def _end(self, member: Member, state: ContainerState) -> None:
        failed = state.exit_code != 0
        message = termination_message(self._host, self.pod, member.spec, state.attempt, failed)
        member.end(state, message)

    def _check_end(self, now: int) -> None:
        """Record that the pod should end, and the reason."""
        metadata = self.pod["metadata"]
        deadline = self._deadline()
        if self._gone:
            self._end_within(_GONE_GRACE)
        elif "deletionTimestamp" in metadata:
            self._end_within(float(metadata.get("deletionGracePeriodSeconds") or 0))
        elif self._ending:
            return
        elif (self.pod.get("status") or {}).get("phase") in ENDED or next_of(self._members, now).over:
            self._end_within(self._own_grace())
        elif deadline is not None and deadline <= now:
            self._fail(DEADLINE, DEADLINE_WORDS)
        elif self._evicted:
            self._fail("Evicted", self._evicted, grace=_EVICTION_GRACE, warning=True)
        elif self._volumes is not None and self._look <= now and self._measuring is None and is_limited(self.pod):
            self._look = now + LOOK_SECONDS * SECOND
            self._measuring = asyncio.ensure_future(self._measure(self._volumes))

    def _fail(self, reason: str, message: str, *, grace: float | None = None, warning: bool = False) -> None:
        """End the pod because of the kubelet itself."""
        self._why = {"reason": reason, "message": message}
        self._host.event(self.pod, reason, message, warning=warning)
        self._end_within(self._own_grace() if grace is None else grace)

    async def _measure(self, volumes: Mapping[str, Prepared]) -> None:
        """Check if the pod uses more disk space than allowed."""
        try:
            self._evicted = self._evicted or await exceeded(self.pod, *await self._folders(volumes))
        except ContainerError as error:
            log.warning("the disk usage of pod %s is not measured: %s", self._about(), error)
        self._measuring = None
        self._wake.set()

    def _own_grace(self) -> float:
        seconds = self.pod["spec"].get("terminationGracePeriodSeconds")
        return 30.0 if seconds is None else float(seconds)

    def _end_within(self, grace: float) -> None:
        """End all containers; a shorter time than before takes precedence."""
        end = asyncio.get_running_loop().time() + grace
        if not self._ending:
            self._ending, self._grace_end = True, end
        elif end < self._grace_end - 1:
            self._grace_end = end
            self._running.hurry()

    def _stop_more(self) -> None:
        """Stop main containers at once, and then sidecars one by one, from the last on."""
        running = [each for each in self._members if each.running]
        first = [each for each in running if each.role != "sidecar"] or running[-1:]
        left = max(self._grace_end - asyncio.get_running_loop().time(), 0)
        for each in first:
            if not self._running.stopping(each):
                self._host.event(self.pod, "Killing", f"Stopping container {each.name}")
                self._running.stop(each, self.pod, left, self._target_address())

    async def _restart_all(self) -> bool:
        """End all containers to restart them; return True once they have ended, and the first ones may start."""
        concerned = [each for each in self._members if each.role != "ephemeral"]
        running = [each for each in concerned if each.running]
        for each in running:
            if not self._running.stopping(each):
                each.is_replaced = True
                self._host.event(self.pod, "Killing", f"Stopping container {each.name}")
                self._running.stop(each, self.pod, _GONE_GRACE, self._target_address(), hook=False)
        if running or not await self._write_status(stopped=False):
            return False
        for each in concerned:
            each.reset()
        return True

    async def _go_on(self, now: int) -> bool:
        """Start containers that are due; return True if a container runs that did not run before."""
        self._change_images()
        await self._resize(now)
        if self._retry > now:
            return False
        for each in self._members:
            if each.backs_off(self._about(), now):
                message = f"Back-off restarting failed container {each.name} in pod {self._about()}"
                self._host.event(self.pod, "BackOff", message, warning=True)
        following = next_of(self._members, now)
        if (following.start or self._outdated(now)) and not await self._mount(now):
            return False
        started = False
        for each in following.start:
            if self._volumes is None or self._running.hooked or self._interrupted():
                break
            if await self._starter.start(self.pod, each, self._volumes, self._host.clock.now()):
                self._running.watch(each, self._target_address(), self.pod)
                started = True
        return started

    async def _resize(self, now: int) -> None:
        """Give the containers their desired resources."""
        if not self._resizer.is_due(self.pod, self._members):
            return
        for each in await self._resizer.resize(self.pod, self._members, now):
            self._replace(each, f"Container {each.name} resize requires restart")
        self.requests = self._granted(self.pod)

    def _change_images(self) -> None:
        """Let containers run with the current images of the pod."""
        wanted = images_of(self.pod)
        for each in self._members:
            image = wanted.get(each.name)
            if image is None or image == each.spec.get("image", ""):
                continue
            each.spec = {**each.spec, "image": image}
            each.retry = each.failures = 0
            if each.running:
                self._replace(each, f"Container {each.name} definition changed, will be restarted")

    def _replace(self, member: Member, message: str) -> None:
        """End a container to restart it, regardless of its restart policy."""
        member.is_replaced = True
        self._running.restart(member, self.pod, self._target_address(), message)

    def _interrupted(self) -> bool:
        return self._gone or "deletionTimestamp" in self.pod["metadata"]

    def _about(self) -> str:
        metadata = self.pod["metadata"]
        return f"{metadata['name']}_{metadata.get('namespace', '')}({metadata['uid']})"

    def _outdated(self, now: int) -> bool:
        """Return True if volumes must be updated."""
        renewal = self._host.volumes.renewal(self.pod["metadata"]["uid"])
        return self._stale or (renewal is not None and renewal <= now) or fields_shown(self.pod) != self._shown

    async def _mount(self, now: int) -> bool:
        """Prepare the volumes; return False if they are not ready."""
        if self._volumes is not None and not self._outdated(now):
            return True
        self._stale, self._shown = False, fields_shown(self.pod)
        if not self._told:
            self._tell_limits()
        try:
            self._volumes = await self._host.volumes.prepare(self.pod, facts_of(self.pod, self._host))
        except VolumeError as error:
            self._host.event(self.pod, "FailedMount", str(error), warning=True)
            pause = min(_FIRST_RETRY * 2**self._failures, _LONGEST_RETRY)
            self._failures += 1
            self._retry = now + int(pause * SECOND)
            return False
        self._failures = self._retry = 0
        return True

    def _tell_limits(self) -> None:
        """Report once which limits are not enforced."""
        self._told = True
        fields = unenforced(self.pod)
        if fields and not (self.pod.get("status") or {}).get("startTime"):
            message = f"not enforced for pods that run as processes of this machine: {', '.join(fields)}"
            self._host.event(self.pod, "NotEnforced", message, warning=True)

    # --- status

    async def _report(self) -> bool:
        """Write the status if it has changed; return True if nothing is left to do."""
        stopped = self._ending and not any(each.running for each in self._members)
        if not self._gone and not await self._write_status(stopped):
            if stopped and self._evicted:  # the disk may be too full for the status until its files are removed
                self._host.volumes.remove(self.pod["metadata"]["uid"])
                await self._forget_exited()
                self._volumes = None
            return False
        await self._forget_exited()
        if not stopped:
            return False
        self._clean()
        return self._gone or "deletionTimestamp" not in self.pod["metadata"] or await self._delete()

    async def _forget_exited(self) -> None:
        """Remove containers that have exited, with what they have written."""
        for id in self._exited:
            await self._host.forget(id)
        self._exited.clear()

    def _phase(self, stopped: bool) -> str:
        before = str((self.pod.get("status") or {}).get("phase") or "")
        if before in ENDED:
            return before
        if self._why and stopped:
            return FAILED
        found = phase_of(self._members, ending=stopped)
        return found if stopped or found not in ENDED else before or "Pending"

    async def _write_status(self, stopped: bool) -> bool:
        """Write the status; return False if it must be written again."""
        if self._refused:
            status: dict[str, Any] = {"phase": FAILED, **self._why}
            if not (self.pod.get("status") or {}).get("startTime"):
                status["startTime"] = second_text(self._host.clock.now())
        else:
            text = second_text(self._host.clock.now())
            why = self._why if stopped else {}
            resize = {} if stopped else self._resizer.conditions()
            status = pod_status(
                self.pod, self._phase(stopped), self._members, text, {**why, **self._addresses()}, resize
            )
        if not changed(self.pod, status):
            return True
        patch = {"metadata": {"uid": self.pod["metadata"]["uid"]}, "status": status}
        try:
            answer = await self._host.api.patch(PODS, key_of(self.pod), patch, "strategic", "status")
        except ApiError as error:
            return self._not_written(error)
        pod = msgspec.json.decode(answer)
        pod["metadata"].pop("managedFields", None)
        if _version(pod) > _version(self.pod):
            self.pod = pod
        return True

    def _not_written(self, error: ApiError) -> bool:
        if error.code in (404, 409):
            self._gone = error.code == 404 or self._gone
            self._wake.set() if self._gone else self._later()
            return False
        log.warning("the status of pod %s is not written: %s; it will be tried again soon", self._about(), error)
        self._later()
        return False

    def _later(self) -> None:
        asyncio.get_running_loop().call_later(_WRITE_RETRY, self._wake.set)

    def _addresses(self) -> dict[str, Any]:
        status = self.pod.get("status") or {}
        host, ip = self._host.node_address(self.pod), status.get("podIP") or self._host.pod_address(self.pod)
        return {"hostIP": host, "hostIPs": [{"ip": host}], "podIP": ip, "podIPs": [{"ip": ip}]}

    def _clean(self) -> None:
        """Release the resources of the pod; its logs stay until it is deleted."""
        uid = self.pod["metadata"]["uid"]
        self._host.volumes.remove(uid)
        self._host.gpus.release(uid)
        self._host.terminations.release(uid)
        if self._host.network is not None:
            self._host.network.release(uid)

    async def _delete(self) -> bool:
        """Complete the deletion of the pod; return False if it must be retried."""
        metadata = self.pod["metadata"]
        if metadata.get("finalizers") and not metadata.get("deletionGracePeriodSeconds"):
            return True
        try:
            await self._host.api.delete(PODS, key_of(self.pod), uid=metadata["uid"], grace=0)
        except ApiError as error:
            if error.code not in (404, 409):
                self._later()
                return False
        return True


def _version(pod: Obj) -> int:
    text = pod["metadata"].get("resourceVersion") or "0"
    return int(text) if text.isdigit() else 0
