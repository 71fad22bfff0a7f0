"""Bad input for `kilauea up`: it says what is wrong and how to mend it, and what runs goes on."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.api_process import Server, running_server
from cluster.up_process import (
    EXAMPLES,
    SCHEDULING,
    apply,
    ask,
    group,
    kubectl,
    phases,
    pod,
    queue,
    running_up,
    said,
    until,
)

GOOD = (EXAMPLES / "sharing" / "scheduler.conf").read_text()
BAD = 'actions: "enqueue, alocate"\ntiers:\n- plugins:\n  - name: gang\n'


def start(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the command with something that it cannot use, and take what it says."""
    words = ["-m", "kilauea", "up", "--listen", "127.0.0.1:0", "--data-dir", str(folder / "data"), *options]
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=60, check=False)


def refusal(done: subprocess.CompletedProcess[str]) -> str:
    """The one line that a start ended with."""
    assert (done.returncode, done.stdout) == (1, ""), done.stdout + done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr.strip()


def test_a_port_in_use_is_said(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        words = refusal(start(tmp_path, "--listen", address))
    assert words.startswith(f"kilauea up: {address}: cannot listen (")
    assert "choose another port with --listen, or 0 for any free port" in words
    assert not (tmp_path / "data" / "kubeconfig").exists()


def test_a_data_folder_in_use_is_said_and_the_one_who_uses_it_goes_on(tmp_path: Path) -> None:
    with running_up(tmp_path / "data", "--nodes", "1") as server:
        assert str(tmp_path / "data") in refusal(start(tmp_path))
        assert kubectl(server, "get", "nodes", "-o", "name").split() == ["node/node-0"]


def test_a_kubeconfig_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "kubeconfig"
    words = refusal(start(tmp_path, "--kubeconfig", str(path)))
    assert words.startswith(f"kilauea up: {path}: cannot be written (")
    assert words.endswith("choose another file with --kubeconfig")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind: Pod\napiVersion: v1\nmetadata: {name: p}\nspec: {containers: []}\n", "Pod p: Pod "),
        ("kind: Pod\napiVersion: v1\nmetadata: {name: p}\n  spec: {}\n", "line 4"),
        ("kind: Poodle\napiVersion: v1\nmetadata: {name: p}\n", "Poodle p: the cluster has no Poodle of v1"),
        ("metadata: {name: p}\n", "a document without a kind"),
        (
            f"kind: Queue\napiVersion: {SCHEDULING}\nmetadata: {{name: q}}\nspec: {{deserved: {{cpu: lots}}}}\n",
            'Queue q: Queue.scheduling.volcano.sh "q" is invalid: spec.deserved.cpu: Invalid value: "lots"',
        ),
        ("kind: Pod\napiVersion v1\n", "line 3, column 1: not valid YAML"),
        ("- 1\n- 2\n", "a document without a kind"),
        ("kind: Pod\napiVersion: [v1]\nmetadata: {name: p}\n", "apiVersion is ['v1']: it must be text"),
        ("kind: ConfigMap\napiVersion: v1\nmetadata: words\n", "metadata is 'words': it must be a map"),
        ("kind: ConfigMap\napiVersion: v1\nmetadata: {name: 5}\n", "metadata.name is 5: text is needed"),
        ("kind: ConfigMap\napiVersion: v1\n", "ConfigMap without a name"),
        ("kind: List\napiVersion: v1\nitems: 5\n", "items is 5: it must be a list of objects"),
    ],
)
def test_a_manifest_that_is_refused_is_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    line = refusal(start(tmp_path, "-f", str(path)))
    assert line.startswith(f"kilauea up: {path}: ")
    assert words in line


def test_what_could_not_start_for_a_manifest_starts_with_it_mended(tmp_path: Path) -> None:
    path = tmp_path / "objects.yaml"
    path.write_text(yaml.safe_dump_all([queue("kept"), queue("bad", weight="heavy")]))
    assert "Queue bad" in refusal(start(tmp_path, "-f", str(path)))
    path.write_text(yaml.safe_dump_all([queue("kept"), queue("bad", weight=2), pod("p")]))
    with running_up(tmp_path / "data", "--nodes", "1", "-f", str(path)) as server:
        kubectl(server, "wait", "--for=jsonpath={.status.phase}=Running", "pod/p", "--timeout=30s")


@pytest.mark.parametrize(
    ("text", "at", "words"),
    [
        (BAD, 1, "unknown action 'alocate'; did you mean 'allocate'?"),
        ("actions: allocate\ntiers:\n- plugins:\n  - name: gnag\n", 4, "did you mean 'gang'?"),
        ("actions: allocate\ntiers: [\n", 3, "not valid YAML"),
        ("actions: allocate\ntiers: 5\n", 2, "tiers"),
    ],
)
def test_a_scheduler_configuration_that_cannot_be_used_is_refused_at_the_start(
    tmp_path: Path, text: str, at: int, words: str
) -> None:
    path = tmp_path / "scheduler.conf"
    path.write_text(text)
    line = refusal(start(tmp_path, "--scheduler-conf", str(path)))
    assert line.startswith((f"kilauea up: {path}:{at}: ", f"kilauea up: {path}: line {at}, "))
    assert words in line


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--node-cpu", "lots"), '"lots" is not a quantity: use a number with an optional suffix'),
        (("--node-memory", "0"), 'invalid amount "0": must be above 0'),
        (("--nodes", "-1"), "-1 is not in the range"),
        (("--nodes", "5001"), "5001 is not in the range"),
        (("--listen", "nowhere"), 'invalid address "nowhere": use HOST:PORT'),
        (("-f", "no/such.yaml"), "'no/such.yaml' does not exist"),
        (("--scheduler-conf", "no/such.conf"), "'no/such.conf' does not exist"),
        (("--seed", "rng"), "'rng' is not a valid integer"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(tmp_path: Path, options: tuple[str, ...], words: str) -> None:
    done = start(tmp_path, *options)
    assert done.returncode == 2
    assert words in done.stderr
    assert not (tmp_path / "data").exists()


def test_a_configuration_that_goes_bad_while_running_is_said_and_the_last_good_one_stays(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.conf"
    path.write_text(GOOD)
    with running_up(tmp_path / "data", "--nodes", "1", "--scheduler-conf", str(path)) as server:
        client = server.client()
        path.write_text(BAD)
        until(lambda: "ConfigurationRefused" in said(client, "Queue", "root"), "an event about the configuration")
        words = f"{path}:1: actions: unknown action 'alocate'; did you mean 'allocate'?"
        assert words in said(client, "Queue", "root")
        assert f"the configuration is invalid, and the previous one remains active: {words}" in server.log.read_text()
        apply(server, pod("after"))
        until(lambda: phases(client, "after") == {"Running": 1}, "a pod to be placed all the same")
        path.write_text(GOOD.replace("nodeorder", "binpack"))
        until(lambda: "ConfigurationLoaded" in said(client, "Queue", "root"), "the mended one to be used")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (pod("p", cpu="lots"), "quantities must match"),
        (queue("q", deserved={"cpu": "lots"}), "spec.deserved.cpu"),
        (group("g", 1) | {"spec": {"minResources": {"cpu": "1 or 2"}}}, "spec.minResources.cpu"),
        (
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "new"}, "status": {"capacity": {"cpu": "x"}}},
            "quantities must match",
        ),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
def test_a_quantity_that_is_none_is_refused_by_the_api(nonsense: Server, body: dict[str, Any], field: str) -> None:
    done = ask(nonsense, "apply", "-f", "-", given=yaml.safe_dump(body))
    assert done.returncode == 1
    assert field in done.stderr


def hyper(name: str, tier: int, *members: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """A HyperNode."""
    spec = {"tier": tier, "members": [{"type": kind, "selector": selector} for kind, selector in members]}
    return {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": name}, "spec": spec}


def exactly(name: str) -> dict[str, Any]:
    return {"exactMatch": {"name": name}}


NONSENSE = [
    queue("egg", parent="hen"),
    queue("hen", parent="egg"),
    queue("orphan", parent="nowhere"),
    queue("less", deserved={"cpu": "8"}, capability={"cpu": "1"}, guarantee={"resource": {"cpu": "16"}}),
    group("in-no-queue", 1, "missing"),
    pod("in-no-queue-0", group="in-no-queue"),
    group("in-a-circle", 1, "egg"),
    pod("in-a-circle-0", group="in-a-circle"),
    group("endless", 2147483647),
    pod("endless-0", group="endless"),
    pod("no-such-group", group="not a name/\\x"),
    pod("odd", **{"kilauea.dev/run-time": "soon", "kilauea.dev/exit-code": "x", "volcano.sh/preemptable": "maybe"}),
    pod(
        "odder",
        **{
            "volcano.sh/numa-topology-policy": "???",
            "volcano.sh/revocable-zone": "#",
            "kilauea.dev/start-delay": "-1s",
        },
    ),
    hyper("pattern", 1, ("Node", {"regexMatch": {"pattern": "(("}})),
    hyper("one", 2, ("HyperNode", exactly("two"))),
    hyper("two", 2, ("HyperNode", exactly("one"))),
    hyper("self", 3, ("HyperNode", exactly("self"))),
    hyper("left", 1, ("Node", exactly("node-0"))),
    hyper("right", 1, ("Node", exactly("node-0"))),
    hyper("early", 4, ("HyperNode", exactly("left"))),
    hyper("late", 5, ("HyperNode", exactly("left"))),
    hyper("hollow", 1, ("Node", exactly("no-such-node"))),
    {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "strange"}, "status": {"allocatable": {"cpu": "-4"}}},
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "half-said", "annotations": {"kilauea.dev/node-state": "sleepy"}},
        "spec": {"unschedulable": True},
    },
    {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "greedy"},
        "spec": {"minAvailable": "200%", "selector": {"matchLabels": {"missing": "has"}}},
    },
]
SAID = [
    ("Queue", "egg", "cycle detected in queue hierarchy"),
    ("Queue", "hen", "cycle detected in queue hierarchy"),
    ("Queue", "orphan", "the parent queue nowhere does not exist"),
    ("PodGroup", "in-no-queue", "queue missing of pod group default/in-no-queue does not exist"),
    ("Pod", "in-no-queue-0", "queue missing of pod group default/in-no-queue does not exist"),
    ("PodGroup", "endless", ""),
    ("Pod", "no-such-group", "does not exist"),
    ("Pod", "odd", 'kilauea.dev/run-time: invalid duration "soon": use e.g. 30s or 1h30m'),
    ("Pod", "odd", 'kilauea.dev/exit-code: invalid exit code "x": use 0 to 255'),
    ("HyperNode", "pattern", "member regexMatch pattern is invalid: '(('"),
    ("HyperNode", "one", "cyclic dependency detected: HyperNode one is already in the ancestor chain [one, two]"),
    ("HyperNode", "self", "cyclic dependency detected: HyperNode self"),
    ("HyperNode", "late", "HyperNode left already has a parent early, and cannot set another parent late"),
]


@pytest.fixture(scope="module")
def nonsense(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A cluster full of objects that make no sense, from a time when no admission looked at them."""
    folder = tmp_path_factory.mktemp("nonsense") / "data"
    with running_server(folder, "--durability", "normal") as server:
        for each in NONSENSE:  # one by one, as the API may refuse some
            ask(server, "apply", "-f", "-", given=yaml.safe_dump(each))
    with running_up(folder, "--nodes", "2") as server:
        yield server


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("egg", 'failed to get parent queue hen of queue egg: queue.scheduling.volcano.sh "hen" not found'),
        ("less", "deserved[cpu]=8 must be <= capability[cpu]=1"),
        ("in-no-queue", 'unable to find queue: queue.scheduling.volcano.sh "missing" not found'),
        ("pattern", "member regexMatch pattern is invalid: error parsing regexp: missing closing ): `((`"),
    ],
)
def test_what_can_be_seen_at_once_is_refused(tmp_path_factory: pytest.TempPathFactory, name: str, words: str) -> None:
    obj = next(each for each in NONSENSE if each["metadata"]["name"] == name)
    with running_up(tmp_path_factory.mktemp("refused") / "data", "--nodes", "0") as server:
        done = ask(server, "apply", "-f", "-", given=yaml.safe_dump(obj))
    assert "denied the request" in done.stderr
    assert words in done.stderr


@pytest.mark.parametrize(("kind", "name", "words"), SAID)
def test_what_is_wrong_with_an_object_is_said_of_the_object(nonsense: Server, kind: str, name: str, words: str) -> None:
    client = nonsense.client()
    until(lambda: said(client, kind, name) and words in said(client, kind, name), f"{words} on {kind} {name}")


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("queue/egg", "ParentCycle"),
        ("podgroup/in-no-queue", "QueueNotFound"),
        ("hypernode/self", "cyclic dependency detected"),
        ("hypernode/pattern", "InvalidObject"),
        ("pod/no-such-group", "FailedScheduling"),
    ],
)
def test_kubectl_describe_shows_it(nonsense: Server, what: str, words: str) -> None:
    until(lambda: words in kubectl(nonsense, "describe", what).partition("Events:")[2], f"{words} on {what}")


def test_what_makes_sense_runs_beside_all_that_makes_none(nonsense: Server) -> None:
    client = nonsense.client()
    apply(nonsense, pod("sound"), group("pair", 2), pod("pair-0", group="pair"), pod("pair-1", group="pair"))
    until(lambda: phases(client, "sound", "pair-") == {"Running": 3}, "sound pods to run")
    until(lambda: phases(client, "in-a-circle", "odd") == {"Running": 3}, "those that are odd, but can run, to run")
    assert phases(client, "in-no-queue", "no-such-group", "endless") == {"Pending": 3}
    kubectl(nonsense, "create", "job", "fine", "--image=demo", "--", "sleep", "1")
    kubectl(nonsense, "wait", "--for=condition=Complete", "job/fine", "--timeout=40s")
    assert nonsense.process.poll() is None
    assert "Traceback" not in nonsense.log.read_text(), nonsense.log.read_text()


def test_a_copy_of_the_folder_without_its_store_begins_again(nonsense: Server, tmp_path: Path) -> None:
    """The credentials alone make no cluster, but they do not prevent one either."""
    shutil.copytree(nonsense.data_dir / "credentials", tmp_path / "data" / "credentials")
    with running_up(tmp_path / "data", "--nodes", "1") as server:
        assert server.token == nonsense.token
        assert phases(server.client()) == {}
