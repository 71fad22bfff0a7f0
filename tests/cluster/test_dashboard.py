"""The dashboard of `kilauea up`, and that of `kilauea dashboard`, in a browser."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from cluster.api_process import Server
from cluster.test_history import is_in_state, job
from cluster.up_process import apply, gang, kubectl, pod, queue, running_up, until
from support.browser import browser, program

LINK = re.compile(r"http://127\.0\.0\.1:\d+/login\?token=\S+")
MARKUP = "<img src=x onerror=document.title='broken'>"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A cluster with two nodes of 4 cpu: one gang runs, and one waits."""
    program()
    folder = tmp_path_factory.mktemp("dashboard") / "data"
    with running_up(folder, "--nodes", "2", "--node-cpu", "4") as running:
        apply(running, queue("research", deserved={"cpu": "2"}))
        hostile = pod("hostile", group="waits", cpu="3", **{"volcano.sh/task-spec": MARKUP})
        apply(running, *gang("runs", 3, queue="research"), *gang("waits", 8, queue="research", cpu="3"), hostile)
        yield running


def link(server: Server) -> str:
    """The link that was printed last."""
    found: str = LINK.findall(server.log.read_text())[-1]
    return found


def test_a_browser_logs_in_sees_changes_live_and_keeps_its_focus(server: Server, tmp_path: Path) -> None:
    async def look() -> None:
        async with browser(tmp_path) as page:
            address = link(server)
            await page.open(address)
            await page.until("document.getElementById('connection').dataset.state === 'live'")
            assert await page.value("document.title") == "Overview · Kilauea"
            await page.until("document.querySelector('#queue-research .waits')?.textContent === '1'")
            await page.value("window.same = document.querySelector('#queue-research a'); same.focus()")
            apply(server, queue("late"), *gang("more", 9, queue="research", cpu="3"))
            await page.until("document.querySelector('#queue-late') !== null")
            await page.until("document.querySelector('#queue-research .waits')?.textContent === '2'")
            assert await page.value("document.activeElement === same")
            assert page.problems == []
            assert link(server) != address, "the next link is printed"

    asyncio.run(look())


def test_the_page_of_a_job_explains_shows_events_and_the_log(server: Server, tmp_path: Path) -> None:
    async def look() -> None:
        async with browser(tmp_path) as page:
            address = link(server)
            base = address.partition("/login")[0]
            await page.open(address)
            await page.until("document.querySelector('#queue-research') !== null")
            await page.open(f"{base}/jobs/PodGroup/default/waits")
            await page.until("document.querySelector('#explain pre')?.textContent.includes('default/waits')")
            assert "kilauea explain podgroup waits" in await page.value(
                "document.getElementById('explain').textContent"
            )
            await page.until("document.querySelector('#events table') !== null")
            assert await page.value("document.querySelectorAll('main img').length") == 0
            await page.open(f"{base}/jobs/PodGroup/default/runs")
            await page.until("document.querySelector('#logs button') !== null")
            await page.value("document.querySelector('#logs button').click()")
            await page.until("document.querySelector('#logs pre') !== null")
            await page.until("/^Log of .*: shown$/.test(document.getElementById('said').textContent)")
            assert page.problems == []

    asyncio.run(look())


def test_the_form_plans_what_is_pasted_by_keyboard_alone(server: Server, tmp_path: Path) -> None:
    async def look() -> None:
        async with browser(tmp_path) as page:
            address = link(server)
            base = address.partition("/login")[0]
            await page.open(address)
            await page.open(f"{base}/plan")
            wanted = yaml.safe_dump_all(gang("try", 1, queue="research"))
            await page.value("document.getElementById('manifest').focus()")
            await page.do("Input.insertText", text=wanted)
            await page.press("Tab")
            assert await page.value("document.activeElement.textContent") == "Plan"
            await page.press("Enter")
            await page.until("document.querySelector('#outcome .verdict, #outcome .notice') !== null")
            assert "default/try would" in await page.value("document.getElementById('outcome').textContent")
            await page.value("document.getElementById('manifest').value = 'kind: Job\\nspec: [1'")
            await page.value("document.querySelector('#plan button').click()")
            await page.until("document.querySelector('#outcome .error') !== null")
            assert page.problems == []

    asyncio.run(look())


def test_what_happened_to_a_job_is_shown_also_after_it_was_deleted(server: Server, tmp_path: Path) -> None:
    async def look() -> None:
        async with browser(tmp_path) as page:
            address = link(server)
            base = address.partition("/login")[0]
            apply(server, job("short", 1, 1), *gang("fills", 5, queue="default", command="sleep 900"))
            until(is_in_state(server, "short", "Completed"), "the job to end")
            kubectl(server, "delete", "vcjob", "short")
            apply(server, job("later", 8, 5))
            await page.open(address)
            await page.until("document.querySelector('#queue-research') !== null")
            await page.open(f"{base}/jobs/Job/default/short")
            await page.until("document.querySelector('#past table')?.textContent.includes('the job was deleted')")
            assert await page.value("document.getElementById('explain')") is None
            await page.open(f"{base}/history?name=short")
            await page.until("document.querySelector('#earlier tbody a')?.textContent === 'default/short'")
            await page.until("document.querySelector('#usage table')?.textContent.includes('default')")
            await page.value("document.querySelector('#earlier tbody a').click()")
            await page.until("document.querySelector('#past table')?.textContent.includes('Completed')")
            await page.open(f"{base}/jobs/Job/default/later")
            await page.until("document.querySelector('#explain .why')?.textContent.startsWith('Expected start: ')")
            await page.until("document.querySelector('#past table')?.textContent.includes('Submitted')")
            kubectl(server, "delete", "vcjob/later", "podgroup/fills", *(f"pod/fills-{number}" for number in range(5)))
            assert page.problems == []

    asyncio.run(look())


def test_the_command_shows_any_cluster_with_the_rights_of_its_kubeconfig(server: Server, tmp_path: Path) -> None:
    config = yaml.safe_load(server.kubeconfig.read_text())
    config["users"][0]["user"]["as"] = "ann"
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config))
    rule = {"apiGroups": ["", "scheduling.volcano.sh"], "resources": ["pods", "queues"], "verbs": ["list", "watch"]}
    rules = "rbac.authorization.k8s.io"
    role = {"apiVersion": f"{rules}/v1", "kind": "ClusterRole", "metadata": {"name": "looks"}, "rules": [rule]}
    reference = {"apiGroup": rules, "kind": "ClusterRole", "name": "looks"}
    subjects = [{"apiGroup": rules, "kind": "User", "name": "ann"}]
    binding = {"apiVersion": f"{rules}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "looks"}}
    apply(server, role, binding | {"roleRef": reference, "subjects": subjects})
    log = tmp_path / "log"
    with log.open("wb") as output:
        words = [sys.executable, "-m", "kilauea", "dashboard", "--kubeconfig", str(kubeconfig)]
        process = subprocess.Popen(words, stdout=output, stderr=output, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    try:
        until(lambda: LINK.search(log.read_text()) or process.poll() is not None, "the link")

        async def look() -> None:
            async with browser(tmp_path / "profile") as page:
                await page.open(LINK.findall(log.read_text())[0])
                await page.until("document.querySelector('#queue-research') !== null")
                await page.until("document.getElementById('notices').textContent.includes('You may not list nodes')")
                assert page.problems == []

        asyncio.run(look())
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0, log.read_text()
        assert "Traceback" not in log.read_text()
    finally:
        process.kill()
        process.wait()
