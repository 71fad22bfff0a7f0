"""What the server of the webhooks answers: reviews that are good, wrong, broken, too large, or none at all."""

from __future__ import annotations

import asyncio
import base64
import datetime
import io
import json
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from kilauea.admission.registry import HOOKS
from kilauea.admission.review import Settings
from kilauea.api.kinds import QUEUES
from kilauea.api.ports import Seen
from kilauea.client.view import Cache
from kilauea.runtime.clock import SystemClock
from kilauea.runtime.inputs.template_rules import template_errors
from kilauea.runtime.webhooks.credentials import renewed
from kilauea.runtime.webhooks.reviews import answer, answer_in_time
from kilauea.runtime.webhooks.serving import MAX_BODY, Tls, application, check
from support.admitted import VIEW, queue, view_of

PATHS = {hook.path: hook for hook in HOOKS}
QUEUE = {"metadata": {"name": "q"}, "spec": {"weight": 1, "reclaimable": True}}


def review(obj: Any, path: str, operation: str = "CREATE", **more: Any) -> dict[str, Any]:
    """A request as an API server sends it."""
    group, version, plural, *_ = PATHS[path].resource
    request = {
        "uid": "u1",
        "resource": {"group": group, "version": version, "resource": plural},
        "operation": operation,
        "name": "q",
        "object": obj,
        "userInfo": {"username": "user"},
        **more,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def answered(path: str, body: Any) -> Any:
    """The response of a hook."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    decoded = json.loads(answer(PATHS[path], data, VIEW, Settings()).body)
    assert (decoded["apiVersion"], decoded["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    return decoded["response"]


def test_a_good_object_is_let_in() -> None:
    assert answered("/queues/validate", review(QUEUE, "/queues/validate")) == {"uid": "u1", "allowed": True}
    assert answered("/queues/mutate", review(QUEUE, "/queues/mutate")) == {"uid": "u1", "allowed": True}


def test_changes_are_a_json_patch() -> None:
    response = answered("/queues/mutate", review({"metadata": {"name": "q"}}, "/queues/mutate"))
    assert response["patchType"] == "JSONPatch"
    patch = json.loads(base64.b64decode(response["patch"]))
    assert patch == [{"op": "add", "path": "/spec", "value": {"reclaimable": True, "weight": 1}}]


def test_a_deletion_is_about_the_object_as_it_was() -> None:
    body = review(None, "/queues/validate", "DELETE", name="root", oldObject={"metadata": {"name": "root"}})
    message = "`root` queue can not be deleted"
    assert answered("/queues/validate", body) == {"uid": "u1", "allowed": False, "status": {"message": message}}


@pytest.mark.parametrize(
    ("path", "operation", "message"),
    [
        ("/jobs/mutate", "DELETE", "expect operation to be 'CREATE' or 'UPDATE'"),
        ("/jobs/validate", "DELETE", "expect operation to be 'CREATE' or 'UPDATE'"),
        ("/pods/validate", "UPDATE", "expect operation to be 'CREATE'"),
        ("/queues/mutate", "UPDATE", "invalid operation `UPDATE`, expect operation to be `CREATE`"),
        (
            "/queues/validate",
            "CONNECT",
            "invalid operation `CONNECT`, expect operation to be `CREATE`, `UPDATE` or `DELETE`",
        ),
        ("/podgroups/validate", "UPDATE", "unsupported operation UPDATE"),
    ],
)
def test_an_operation_that_a_hook_is_not_for(path: str, operation: str, message: str) -> None:
    assert answered(path, review({}, path, operation))["status"]["message"] == message


def test_a_resource_that_a_hook_is_not_for() -> None:
    response = answered("/jobs/validate", review(QUEUE, "/queues/validate"))
    assert response["status"]["message"] == "expect resource to be {batch.volcano.sh v1alpha1 jobs}"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"request": 7}', b'{"request": {"object": "text"}}', b"[" * 9999])
def test_a_body_that_cannot_be_read_is_denied_with_what_is_wrong(body: bytes) -> None:
    response = answered("/queues/validate", body)
    assert response["allowed"] is False
    assert response["status"]["message"].startswith("the AdmissionReview cannot be read: ")


Asked = Callable[[aiohttp.ClientSession, str], Awaitable[None]]


def at_a_server(ask: Asked) -> None:
    """Run a test at a server with a certificate of our own."""

    async def main() -> None:
        credentials = renewed(None, ["127.0.0.1"], datetime.datetime.now(datetime.UTC))
        check(credentials)
        tls = Tls()
        tls.use(credentials)
        answers = {
            path: partial(answer_in_time, hook, view=VIEW, settings=Settings(), clock=SystemClock())
            for path, hook in PATHS.items()
        }

        async def broken(body: bytes) -> bytes:
            raise RuntimeError(body)

        runner = web.AppRunner(application({**answers, "/broken": broken}, lambda: "reading queues"), lingering_time=0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls.context).start()
        trust = ssl.create_default_context(cadata=credentials.bundle.decode())
        try:
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust)) as session:
                await ask(session, f"https://127.0.0.1:{runner.addresses[0][1]}")
        finally:
            await runner.cleanup()

    asyncio.run(asyncio.wait_for(main(), 30))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "kind", "body", "expected"),
    [
        ("/queues/validate", "application/json", b"{}", (200, "expect resource to be")),
        ("/queues/validate", "text/plain", b"{}", (200, "")),
        ("/queues/validate", "application/json", b" " * (MAX_BODY + 1), (413, "request body too large")),
        ("/broken", "application/json", b"{}", (500, "internal error")),
        ("/nowhere", "application/json", b"{}", (404, "")),
    ],
)
def test_answers_over_https(path: str, kind: str, body: bytes, expected: tuple[int, str]) -> None:
    async def ask(session: aiohttp.ClientSession, url: str) -> None:
        async with session.post(url + path, data=io.BytesIO(body), headers={"Content-Type": kind}) as found:
            assert found.status == expected[0]
            assert expected[1] in await found.text()

    at_a_server(ask)


def test_health_and_readiness() -> None:
    async def ask(session: aiohttp.ClientSession, url: str) -> None:
        for page, expected in (("/healthz", (200, "ok")), ("/readyz", (503, "not ready: reading queues"))):
            async with session.get(url + page) as found:
                assert (found.status, await found.text()) == expected

    at_a_server(ask)


def test_a_key_that_does_not_fit_is_found_out() -> None:
    now = datetime.datetime.now(datetime.UTC)
    one, other = renewed(None, ["a"], now), renewed(None, ["a"], now)
    with pytest.raises(ValueError, match="cannot be used together"):
        check(type(one)(one.bundle, one.certificate, other.key))


def job_in(queue_name: str) -> bytes:
    """A request to create a job in a queue."""
    template = {"spec": {"containers": [{"name": "c", "image": "busybox"}]}}
    spec = {"queue": queue_name, "minAvailable": 1, "tasks": [{"name": "w", "replicas": 1, "template": template}]}
    job = {"metadata": {"name": "q", "namespace": "default"}, "spec": spec}
    return json.dumps(review(job, "/jobs/validate", namespace="default")).encode()


async def answered_in_time(queue_name: str, view: Cache) -> Any:
    """The response to a job in a queue of a view that changes."""
    settings = Settings(check_template=template_errors)
    hook = PATHS["/jobs/validate"]
    return json.loads(await answer_in_time(hook, job_in(queue_name), view, settings, SystemClock()))["response"]


def test_a_job_that_is_sent_right_after_its_queue_is_admitted() -> None:
    view = view_of()

    async def ask() -> Any:
        asked = asyncio.create_task(answered_in_time("fresh", view))
        await asyncio.sleep(0.05)
        assert not asked.done()
        view.declare(QUEUES).on_events([Seen("ADDED", json.dumps(queue("fresh")).encode(), "2")])
        return await asked

    assert asyncio.run(ask())["allowed"] is True


@pytest.mark.slow
def test_a_job_without_a_queue_is_denied_after_a_moment() -> None:
    message = asyncio.run(answered_in_time("none", view_of()))["status"]["message"]
    assert 'unable to find job queue: queue.scheduling.volcano.sh "none" not found' in message
