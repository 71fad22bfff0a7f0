"""The plugin extender and a process that serves it over HTTP and TLS."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from kilauea.cli.main import main
from kilauea.engine.cycle import cycle
from kilauea.engine.extension.outside import Endpoint
from kilauea.engine.plan import Plan
from kilauea.pki import SERVER, Authority, pem, subject
from kilauea.runtime.inputs.extensions import load_extensions
from kilauea.runtime.requests import MOST_BYTES, HttpRequests
from support import extender_server
from support.builders import NOW, Data, Objects, binds, conf, gang, group, node, parsed, pending, plugin, pod, state_of

Rules = dict[str, Data]
SECOND = 1_000_000


class Served:
    """A running extender."""

    def __init__(self, folder: Path, port: int, process: subprocess.Popen[str], scheme: str = "http") -> None:
        self.folder = folder
        self.process = process
        self.url = f"{scheme}://127.0.0.1:{port}/api"

    def answers(self, **rules: Data) -> None:
        (self.folder / "rules.json").write_text(json.dumps(rules))

    def asked(self, verb: str = "") -> list[Data]:
        log = self.folder / "log"
        lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        return [line for line in lines if line["path"].endswith(verb)]


def serve(folder: Path, *certificate: str) -> Served:
    (folder / "rules.json").write_text("{}")
    command = [sys.executable, extender_server.__file__, str(folder / "rules.json"), str(folder / "log"), *certificate]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return Served(folder, int(process.stdout.readline()), process, "https" if certificate else "http")


def stop(served: Served) -> None:
    served.process.kill()
    served.process.wait()
    if served.process.stdout is not None:
        served.process.stdout.close()


@pytest.fixture
def extender(tmp_path: Path) -> Iterator[Served]:
    served = serve(tmp_path)
    yield served
    stop(served)


@pytest.fixture
def requests() -> HttpRequests:
    return HttpRequests()


def arguments(url: str, *verbs: str, **more: Any) -> Data:
    given = {"extender.urlPrefix": url} | {f"extender.{verb}Verb": verb for verb in verbs}
    return given | {f"extender.{key}": value for key, value in more.items()}


def played(requests: HttpRequests, url: str, *objects: Objects, verbs: str = "predicate", **more: Any) -> Plan:
    document = conf("allocate", ["gang"], ["predicates", plugin("extender", arguments(url, *verbs.split(), **more))])
    usable, plugins, actions = parsed(document)
    return cycle(state_of(*objects), usable, NOW, plugins=plugins, actions=actions, outside=requests)


ONE = (node("n1"), group(), pod("p"))


def test_the_answers_of_a_process_decide_where_a_pod_runs(extender: Served, requests: HttpRequests) -> None:
    extender.answers(
        predicate={"nodes": {"n1": {"body": {"status": "no licence", "code": 2}}}, "body": {}},
        prioritize={"body": {"nodeScore": {"n2": 1, "n3": 5}}},
    )
    nodes = [node(f"n{i}") for i in range(1, 4)]
    plan = played(requests, extender.url + "/", nodes, group(), pod("p"), verbs="predicate prioritize")
    assert (binds(plan), plan.findings) == ({"p": "n3"}, ())
    assert sorted(asked["body"]["node"]["Name"] for asked in extender.asked("predicate")) == ["n1", "n2", "n3"]
    (scored,) = extender.asked("prioritize")
    assert [told["Name"] for told in scored["body"]["nodes"]] == ["n2", "n3"]
    assert (scored["path"], scored["type"]) == ("/api/prioritize", "application/json")


def test_connections_are_kept_from_cycle_to_cycle(extender: Served, requests: HttpRequests) -> None:
    extender.answers(predicate={"body": {}})
    for _ in range(3):
        assert binds(played(requests, extender.url, *ONE)) == {"p": "n1"}
    assert len({asked["peer"] for asked in extender.asked()}) == 1


@pytest.mark.parametrize("ignorable", [False, True])
@pytest.mark.parametrize(
    ("rule", "why"),
    [
        pytest.param({"code": 500}, ", code 500", id="an error"),
        pytest.param({"code": 302}, ", code 302", id="a redirect"),
        pytest.param({"code": 202}, ", code 202", id="another status than 200"),
        pytest.param({"raw": "<html>"}, "the response is not JSON", id="no JSON"),
        pytest.param({"raw": ""}, "the response is not JSON", id="nothing"),
        pytest.param({"raw": "[" * 100_000}, "the response is not JSON", id="JSON that is nested too deeply"),
        pytest.param({"length": MOST_BYTES}, "the response is larger than 10 MiB", id="too much"),
        pytest.param({"body": [1]}, "it is not a JSON object", id="JSON of another form"),
        pytest.param({"sleep": 3}, "no answer within 0.2 s", id="too late"),
    ],
)
def test_a_broken_answer_keeps_the_pod_waiting_with_a_reason_and_the_cycle_goes_on(
    extender: Served, requests: HttpRequests, rule: Data, why: str, ignorable: bool
) -> None:
    extender.answers(predicate=rule)
    others = [pod("other", "o", requests={"cpu": 1}), group("o")]
    managed = pod("p", requests={"cpu": 1, "example.com/licence": 1})
    offer = node("n1", resources={"example.com/licence": 1})
    plan = played(
        requests,
        extender.url,
        [offer, group(), managed, others],
        ignorable=ignorable,
        httpTimeout="200ms" if "sleep" in rule else "10s",
        managedResources=["example.com/licence"],
    )
    assert binds(plan) == ({"other": "n1", "p": "n1"} if ignorable else {"other": "n1"})
    assert [why in finding.message for finding in plan.findings] == [True]
    assert ignorable or why in pending(plan)["p"].message


def test_a_node_whose_answer_is_late_is_passed_over(extender: Served, requests: HttpRequests) -> None:
    extender.answers(predicate={"nodes": {"n1": {"sleep": 3}}, "body": {}})
    plan = played(requests, extender.url, node("n1"), node("n2"), group(), pod("p"), httpTimeout="300ms")
    assert binds(plan) == {"p": "n2"}


def test_a_slow_extender_holds_up_a_cycle_no_longer_than_its_time(extender: Served, requests: HttpRequests) -> None:
    extender.answers(predicate={"sleep": 2})
    nodes = [node(f"n{i}") for i in range(200)]
    started = time.monotonic()
    plan = played(requests, extender.url, nodes, gang("g", 3, 1), httpTimeout="300ms", cycleTimeout="600ms")
    assert time.monotonic() - started < 5
    assert binds(plan) == {}
    assert any("no time is left in this cycle" in finding.message for finding in plan.findings)


def test_a_process_that_is_gone_is_named(extender: Served, requests: HttpRequests) -> None:
    stop(extender)
    plan = played(requests, extender.url, *ONE)
    assert binds(plan) == {}
    assert f"failed predicate with extender at URL {extender.url}/predicate" in pending(plan)["p"].message


def test_a_process_that_ends_in_the_middle_of_a_cycle_is_no_reason_to_stop(
    extender: Served, requests: HttpRequests
) -> None:
    extender.answers(predicate={"sleep": 3, "body": {}})
    line = requests.open(Endpoint(extender.url, 10 * SECOND, 10 * SECOND))
    extender.process.kill()
    (reply,) = line.ask("predicate", [{}])
    assert reply.error.startswith("failed predicate with extender")


def test_answers_stand_in_the_order_of_the_questions(extender: Served, requests: HttpRequests) -> None:
    slow = {"n0": {"sleep": 0.3, "body": {"status": "n0"}}}
    extender.answers(predicate={"nodes": slow | {f"n{i}": {"body": {"status": f"n{i}"}} for i in range(1, 9)}})
    line = requests.open(Endpoint(extender.url, 5 * SECOND, 10 * SECOND))
    replies = line.ask("predicate", [{"node": {"Name": f"n{i}"}} for i in range(9)])
    assert [reply.body["status"] for reply in replies] == [f"n{i}" for i in range(9)]


def test_the_command_plan_asks_the_extender(extender: Served, tmp_path: Path) -> None:
    extender.answers(predicate={"body": {"status": "no licence"}})
    usable = conf("allocate", ["gang"], ["predicates", plugin("extender", arguments(extender.url, "predicate"))])
    (tmp_path / "scheduler.conf").write_text(yaml.safe_dump(usable))
    example = Path(__file__).resolve().parents[2] / "examples" / "first-steps"
    command = ["plan", "-f", str(example), "--scheduler-conf", str(tmp_path / "scheduler.conf")]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    assert "no licence" in result.stdout
    assert extender.asked("predicate")


def test_the_programs_carry_requests() -> None:
    assert isinstance(load_extensions([], installed=False).outside, HttpRequests)


# --- TLS


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Served]:
    """An extender with a certificate of an authority, which is in the file `ca.pem`."""
    now = datetime.datetime.now(datetime.UTC)
    authority = Authority.create("test", now)
    issued = authority.issue(subject("extender"), ["127.0.0.1"], SERVER, now)
    files = {"ca.pem": pem(authority.certificate), "tls.pem": issued.certificate, "tls.key": issued.key}
    for name, text in files.items():
        (tmp_path / name).write_bytes(text)
    served = serve(tmp_path, str(tmp_path / "tls.pem"), str(tmp_path / "tls.key"))
    yield served
    stop(served)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        pytest.param({"tls.caFile": "ca.pem"}, "", id="its authority is trusted"),
        pytest.param({"tls.insecureSkipVerify": True}, "", id="any certificate will do"),
        pytest.param({"tls.caFile": "ca.pem", "tls.certFile": "tls.pem", "tls.keyFile": "tls.key"}, "", id="its own"),
        pytest.param({}, "certificate verify failed", id="an unknown authority"),
        pytest.param({"tls.caFile": "none.pem"}, "TLS cannot be set up: ", id="a file that does not exist"),
        pytest.param({"tls.caFile": "tls.key"}, "TLS cannot be set up: ", id="a file with something else"),
        pytest.param(
            {"tls.caFile": "ca.pem", "tls.certFile": "ca.pem", "tls.keyFile": "tls.key"},
            "TLS cannot be set up: ",
            id="a key of another certificate",
        ),
    ],
)
def test_tls(secured: Served, requests: HttpRequests, given: Data, why: str) -> None:
    secured.answers(predicate={"body": {}})
    files = {key: str(secured.folder / value) if isinstance(value, str) else value for key, value in given.items()}
    plan = played(requests, secured.url, *ONE, httpTimeout="5s", **files)
    assert bool(binds(plan)) is not bool(why)
    assert why in (pending(plan)["p"].message if why else "")


def test_http_to_a_server_of_https_fails_with_a_reason(secured: Served, requests: HttpRequests) -> None:
    url = secured.url.replace("https", "http")
    plan = played(requests, url, *ONE)
    assert f"failed predicate with extender at URL {url}/predicate" in pending(plan)["p"].message
