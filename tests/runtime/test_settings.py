"""The page `/configz`: the settings in use, and no secret."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
from prometheus_client import CollectorRegistry

from kilauea.api.ports import Key
from kilauea.engine.conf import MetricsConf
from kilauea.engine.cycle import default_conf
from kilauea.runtime.daemon import DaemonOptions
from kilauea.runtime.inputs.conf_file import conf_file, conf_in
from kilauea.runtime.manager.process import ManagerOptions
from kilauea.runtime.scheduler.process import SchedulerOptions
from kilauea.runtime.settings import plain
from kilauea.runtime.webhooks.configurations import Where
from kilauea.runtime.webhooks.process import WebhookOptions
from kilauea.telemetry.serving import pages, serve_pages

SECRET = "swordfish"
DAEMON = DaemonOptions(
    Path("/etc/kubeconfig"),
    {"TOKEN": SECRET, "HOME": "/h"},
    master=f"https://admin:{SECRET}@192.0.2.1:6443",
    lease=Key("volcano-system", "volcano"),
)


def test_options_are_plain_and_have_no_environment() -> None:
    found = plain(SchedulerOptions(DAEMON, "/conf"))
    assert found["daemon"]["lease"] == "volcano-system/volcano"
    assert found["daemon"]["kubeconfig"] == "/etc/kubeconfig"
    assert found["daemon"]["terms"] == {"lease": 15.0, "renew": 10.0, "retry": 2.0}
    assert "environment" not in found["daemon"]
    assert "volcano" in found["live"]["names"]


def test_all_components_have_json_without_secrets() -> None:
    for options in (SchedulerOptions(DAEMON), ManagerOptions(DAEMON), WebhookOptions(DAEMON, Where("n", "s"))):
        text = json.dumps(plain(options))
        assert SECRET not in text
        assert "https://REDACTED@192.0.2.1:6443" in text


def test_the_configuration_shows_arguments_and_hides_passwords() -> None:
    text = b"""
actions: "allocate"
tiers:
- plugins: [{name: binpack, arguments: {binpack.cpu: 5}}]
metrics: {type: elasticsearch, address: "https://u:swordfish@es:9200", elasticsearch.password: swordfish}
"""
    conf = conf_in(conf_file("x", text))
    assert conf.metrics.password == SECRET
    found = plain(conf)
    assert SECRET not in json.dumps(found)
    assert found["metrics"]["password"] == "REDACTED"
    assert found["tiers"][0][0]["arguments"] == {"binpack.cpu": 5}


def test_an_empty_secret_is_shown_as_empty() -> None:
    assert plain(MetricsConf())["password"] == ""
    assert plain(default_conf())["actions"] == list(default_conf().actions)


def test_every_page_is_served() -> None:
    registry, why = CollectorRegistry(), ["not listed yet: Pod"]

    async def ask() -> list[tuple[int, str]]:
        made = pages(lambda: why[0], registry, lambda: {"vc-scheduler": {"a": 1}})
        answers: list[tuple[int, str]] = []
        async with serve_pages("127.0.0.1", 0, made) as port, aiohttp.ClientSession() as session:
            for path in ("healthz", "livez", "readyz", "metrics", "configz"):
                async with session.get(f"http://127.0.0.1:{port}/{path}") as answer:
                    answers.append((answer.status, await answer.text()))
            why[0] = ""
            async with session.get(f"http://127.0.0.1:{port}/readyz") as answer:
                answers.append((answer.status, await answer.text()))
        return answers

    alive, live, unready, metrics, configz, ready = asyncio.run(ask())
    assert alive == live == ready == (200, "ok")
    assert unready == (503, "not ready: not listed yet: Pod")
    assert metrics[0] == 200
    settings: dict[str, Any] = json.loads(configz[1])
    assert settings == {"vc-scheduler": {"a": 1}}
