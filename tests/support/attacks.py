"""Attacks on a server by an account of it, and another client that notes how long it has to wait meanwhile.

Each attack once held the server for ten seconds or more, took gigabytes, or kept its folder from starting again.
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from apiserver.test_transport import Process, connected
from kilauea.apiserver.status import TIMEOUT
from support.api_core import MAPS, PODS
from support.definitions import DEFINITIONS, TREES, trees

PATIENCE = 1.0
"""Seconds within which every other client is answered, without those for which the machine was busy otherwise."""
YAML = "application/yaml"
MERGE = "application/merge-patch+json"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
Attack = Callable[[Process], Any]


def thread_waits(pid: int) -> dict[str, int]:
    """Nanoseconds by thread of a process that it has waited for a core, where the system tells."""
    tasks, found = Path(f"/proc/{pid}/task"), {}
    for task in tasks.iterdir() if tasks.exists() else ():
        with suppress(OSError, IndexError):  # a thread that has ended, a system that does not tell
            found[task.name] = int((task / "schedstat").read_text().split()[1])
    return found


def stolen() -> dict[str, int]:
    """Nanoseconds by core that the host of a virtual machine gave to others, where the system tells."""
    stat = Path("/proc/stat")
    lines = [line.split() for line in stat.read_text().splitlines()] if stat.exists() else []
    tick = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    return {name: int(ticks[7]) * tick for name, *ticks in lines if name.startswith("cpu") and name != "cpu"}


class CoreWaits:
    """How long threads waited for a core, or cores were away, since this was made.

    A server that shares its cores with ten other programs takes ten times as long for everything, whatever it is asked.
    The load of its own worker processes is in it too, so a quiet machine is the stricter judge of these.

    Args:
        read: returns nanoseconds so far, by thread or core.
    """

    def __init__(self, read: Callable[[], dict[str, int]]) -> None:
        self._read = read
        self._before = read()

    def most(self) -> float:
        """Seconds of the thread or core for which it was longest."""
        return max((each - self._before.get(name, 0) for name, each in self._read().items()), default=0) / 1e9


class Bystander(threading.Thread):
    """Another client, which reads and writes all the time, and notes how long the slowest answer took."""

    def __init__(self, server: Process) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._done = threading.Event()
        self.slowest = 0.0
        """Seconds, without those for which the server or this process waited for a core, or cores were stolen."""
        self.answers = 0

    def run(self) -> None:
        """Ask until it is told to end, and at least once."""
        where = urllib.parse.urlsplit(self._server.url)
        head = {"Authorization": f"Bearer {self._server.token}", "Content-Type": "application/merge-patch+json"}
        connection = http.client.HTTPSConnection(where.hostname or "", where.port, context=self._server.tls())
        over = False
        while not over:
            body = json.dumps({"data": {"count": str(self.answers)}})
            for method, sent in (("GET", None), ("PATCH", body)):
                of_server, own = partial(thread_waits, self._server.process.pid), partial(thread_waits, os.getpid())
                waits = [CoreWaits(read) for read in (of_server, own, stolen)]
                start = time.monotonic()
                connection.request(method, f"{MAPS}/bystander", sent, head)
                answer = connection.getresponse()
                answer.read()
                assert answer.status == 200
                seconds = time.monotonic() - start
                if seconds > self.slowest:
                    self.slowest = max(self.slowest, seconds - sum(each.most() for each in waits))
                self.answers += 1
            over = self._done.wait(0.01)
        connection.close()

    def end(self) -> None:
        """End it."""
        self._done.set()
        self.join()


@contextmanager
def watched_by_a_bystander(server: Process) -> Iterator[None]:
    """Fail if another client has to wait meanwhile."""
    bystander = Bystander(server)
    bystander.start()
    try:
        yield
    finally:
        bystander.end()
    assert bystander.answers > 0
    assert bystander.slowest < PATIENCE, f"an answer took {bystander.slowest:.2f} s"


def send(method: str, path: str, body: bytes, content_type: str = "application/json") -> Attack:
    """An attack that is one request; it may be refused or run out of its time, but not be an error of the server."""

    def attack(server: Process) -> None:
        code, text, _ = server.ask(method, path, body, content_type=content_type)
        assert code < 500 or code == TIMEOUT, text[:300]

    return attack


def copies() -> bytes:
    return json.dumps(
        [{"op": "copy", "from": "/metadata", "path": f"/metadata/x{number}"} for number in range(40)]
    ).encode()


def role() -> bytes:
    names = [f"n{number}" for number in range(300)]
    rule = {"verbs": names, "apiGroups": names, "resources": names}
    return json.dumps({"metadata": {"generateName": "wide-"}, "rules": [rule]}).encode()


def controllers() -> bytes:
    """An object with thousands of controllers; the error about each of them shows all."""
    kind = {"apiVersion": "v1", "kind": "ConfigMap", "controller": True}
    owners = [{**kind, "name": f"none-{number}", "uid": f"u{number}"} for number in range(8000)]
    return json.dumps({"metadata": {"generateName": "owned-", "ownerReferences": owners}}).encode()


def merged_lists(server: Process) -> None:
    def finalizers(start: int) -> bytes:
        names = [f"example.com/f{number}" for number in range(start, start + 5000)]
        return json.dumps({"metadata": {"name": "long", "finalizers": names}}).encode()

    server.ask("POST", MAPS, finalizers(0))
    merge = "application/strategic-merge-patch+json"
    assert server.ask("PATCH", f"{MAPS}/long", finalizers(2500), content_type=merge)[0] in (200, 409)


def terms(server: Process) -> None:
    text = ",".join(f"key{number}!=b" for number in range(20_000))
    assert server.ask("GET", f"{MAPS}?labelSelector={text}")[0] == 200


def lists_in_yaml(server: Process) -> None:
    for number in range(60):
        body = {"metadata": {"name": f"y{number}"}, "data": {f"k{each}": "v" * 20 for each in range(200)}}
        assert server.ask("POST", MAPS, json.dumps(body).encode())[0] in (201, 409)
    assert server.ask("GET", MAPS, accept=YAML)[0] == 200


def nested_rules(server: Process) -> None:
    rule = {"rule": "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))"}
    numbers = {"type": "array", "items": {"type": "integer"}, "maxItems": 1000, "x-kubernetes-validations": [rule]}
    wide = trees({"type": "object", "properties": {"numbers": numbers}})
    assert server.ask("POST", DEFINITIONS, json.dumps(wide).encode())[0] == 422
    numbers["maxItems"] = 100
    text = {"type": "string", "pattern": "^(a+)+$"}
    schema = {"type": "object", "properties": {"numbers": numbers, "text": text}}
    assert server.ask("POST", DEFINITIONS, json.dumps(trees(schema)).encode())[0] in (201, 409)
    end = time.monotonic() + 30
    while server.ask("GET", TREES)[0] != 200:
        assert time.monotonic() < end
        time.sleep(0.1)
    for spec in ({"numbers": [1] * 100}, {"text": "a" * 40 + "!"}):
        body = {"apiVersion": "example.com/v1", "kind": "Tree", "metadata": {"generateName": "t-"}, **spec}
        assert server.ask("POST", TREES, json.dumps(body).encode())[0] == 422


def many_rules(server: Process) -> None:
    """A definition with thousands of rules, and an object that all of them are about."""
    fields = {
        f"f{number}": {"type": "string", "maxLength": 9, "x-kubernetes-validations": [{"rule": f"self != 'a{number}'"}]}
        for number in range(3000)
    }
    definition = trees({"type": "object", "properties": fields})
    names = {"plural": "bushes", "singular": "bush", "kind": "Bush", "listKind": "BushList"}
    definition["metadata"]["name"], definition["spec"]["names"] = "bushes.example.com", names
    assert server.ask("POST", DEFINITIONS, json.dumps(definition).encode())[0] in (201, 409)
    bushes, end = "/apis/example.com/v1/bushes", time.monotonic() + 30
    while server.ask("GET", bushes)[0] != 200:
        assert time.monotonic() < end
        time.sleep(0.1)
    body = {
        "apiVersion": "example.com/v1",
        "kind": "Bush",
        "metadata": {"generateName": "b-"},
        **dict.fromkeys(fields, "b"),
    }
    assert server.ask("POST", bushes, json.dumps(body).encode())[0] == 201


NESTED = "lists.range(300).all(a, lists.range(300).all(b, a + b >= 0))"


def policies_with(name: str, expression: str) -> Attack:
    """A policy whose expressions cost much, and a write that it is about."""

    def attack(server: Process) -> None:
        rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
        spec = {
            "matchConstraints": {"resourceRules": [rule]},
            "matchConditions": [{"name": "costly", "expression": f"object.metadata.name.startsWith('{name}')"}],
            "validations": [{"expression": expression}] * 3,
        }
        bound = {"policyName": name, "validationActions": ["Deny"]}
        for plural, body in (("validatingadmissionpolicies", spec), ("validatingadmissionpolicybindings", bound)):
            policy = json.dumps({"metadata": {"name": name}, "spec": body}).encode()
            assert server.ask("POST", f"/apis/admissionregistration.k8s.io/v1/{plural}", policy)[0] in (201, 409)
        made = json.dumps({"metadata": {"name": f"{name}-{time.monotonic_ns()}"}})
        assert server.ask("POST", MAPS, made.encode())[0] == 201

    return attack


def large_writes(server: Process) -> None:
    """Many writes at once, each of which is as much work as its bytes; one that waits for a minute is given up."""

    def write(number: int) -> None:
        containers = [{"name": f"c{number}-{each}", "image": "b"} for each in range(15_000)]
        body = json.dumps({"metadata": {"generateName": "p-"}, "spec": {"containers": containers}})
        with suppress(TimeoutError):
            # With what is defaulted, it is too large; or its time is over before its turn.
            assert server.ask("POST", PODS, body.encode())[0] in (413, 504)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))


def small_changes(server: Process) -> None:
    """Small changes of a large object are as much work as the object."""
    keys = {f"k{number}": "v" for number in range(12_000)}
    server.ask("POST", MAPS, json.dumps({"metadata": {"name": "many-keys"}, "data": keys}).encode())

    def change(number: int) -> None:
        body = json.dumps({"metadata": {"annotations": {"a": str(number)}}}).encode()
        assert server.ask("PATCH", f"{MAPS}/many-keys", body, content_type=MERGE)[0] == 200

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(change, range(16)))


def changes_of_a_large_pod(server: Process) -> None:
    """Changes that a pod may not have, each to thousands of lines of it; other large writes go on meanwhile."""

    def pod(value: str) -> dict[str, Any]:
        env = [{"name": f"E{number}", "value": value} for number in range(8000)]
        return {"spec": {"containers": [{"name": "a", "image": "b", "env": env}]}}

    server.ask("POST", PODS, json.dumps({"metadata": {"name": "large"}, **pod("old")}).encode())
    merge = "application/strategic-merge-patch+json"
    assert server.ask("PATCH", f"{PODS}/large", json.dumps(pod("new")).encode(), content_type=merge)[0] == 422


def watches_of_the_past(server: Process) -> None:
    """Watches that catch up with thousands of events in a form that is made for them, and lists of that time."""
    _, text, _ = server.ask("GET", f"{MAPS}?limit=1")
    since = json.loads(text)["metadata"]["resourceVersion"]
    server.ask("POST", MAPS, json.dumps({"metadata": {"name": "often"}}).encode())
    for number in range(300):
        body = json.dumps({"data": {"number": str(number)}}).encode()
        server.ask("PATCH", f"{MAPS}/often", body, content_type=MERGE)
    table, query = "application/json;as=Table;v=v1;g=meta.k8s.io", f"resourceVersion={since}"

    def ask(number: int) -> None:
        asked = f"{query}&watch=1&timeoutSeconds=5" if number % 2 else f"{query}&resourceVersionMatch=Exact"
        assert server.ask("GET", f"{MAPS}?{asked}", accept=table)[0] in (200, 410)

    with ThreadPoolExecutor(20) as pool:
        list(pool.map(ask, range(20)))


def many_owners(server: Process) -> None:
    """An object that thousands of others own, none of which exists."""
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    owners = [{**kind, "name": f"none-{number}", "uid": f"u{number}"} for number in range(12_000)]
    body = {"metadata": {"generateName": "owned-", "ownerReferences": owners}}
    name = json.loads(server.ask("POST", MAPS, json.dumps(body).encode())[1])["metadata"]["name"]
    end = time.monotonic() + 100
    while server.ask("GET", f"{MAPS}/{name}", accept=METADATA)[0] != 404:
        assert time.monotonic() < end
        time.sleep(0.5)


def all_node_ports(server: Process) -> None:
    """A service that asks for more ports of the nodes than there are."""
    ports = [{"name": f"p{number}", "port": number} for number in range(1, 2800)]
    body = {"metadata": {"generateName": "s-"}, "spec": {"type": "NodePort", "ports": ports}}
    code, text, _ = server.ask("POST", MAPS.replace("configmaps", "services"), json.dumps(body).encode())
    assert (code, b"range is full" in text) == (500, True), text[:300]


def large_heads(server: Process) -> None:
    """Heads of many megabytes, by clients that are not known."""
    with ExitStack() as opened:
        for client in [opened.enter_context(connected(server)) for _ in range(10)]:
            with suppress(OSError):  # the server ends the connection
                client.sendall(b"GET /api HTTP/1.1\r\nHost: x\r\n")
                for number in range(100):
                    client.sendall(b"h%d: " % number + b"x" * 500_000 + b"\r\n")


def half_requests(server: Process) -> None:
    with ExitStack() as opened:
        for _ in range(50):
            opened.enter_context(connected(server)).sendall(b"GET /api HTTP/1.1\r\nHost:")


def trickled_bodies(server: Process) -> None:
    """Bodies that come byte by byte, and never end by themselves."""
    with ExitStack() as opened:
        clients = [opened.enter_context(connected(server)) for _ in range(20)]
        head = f"POST {MAPS}?timeout=3s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.token}\r\n"
        for client in clients:
            client.sendall(f"{head}Content-Length: 1000000\r\n\r\n".encode())
            client.settimeout(0.05)
        open_, end = set(clients), time.monotonic() + 60
        while open_ and time.monotonic() < end:
            for client in list(open_):
                with suppress(TimeoutError, ssl.SSLWantReadError):
                    client.sendall(b" ")
                    assert client.recv(20).startswith(b"HTTP/1.1 504")
                    open_.remove(client)
        assert not open_


def idle_watchers(server: Process) -> None:
    """Watchers that read nothing while much is written."""
    with ExitStack() as opened:
        for _ in range(10):
            client = opened.enter_context(connected(server))
            head = f"GET {MAPS}?watch=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.token}\r\n\r\n"
            client.sendall(head.encode())
        for number in range(60):
            body = {"data": {"text": f"{number}" + "x" * 500_000}}
            if server.ask("PATCH", f"{MAPS}/large", json.dumps(body).encode(), content_type=MERGE)[0] == 404:
                server.ask("POST", MAPS, json.dumps({"metadata": {"name": "large"}}).encode())


PAIRS = b"k8s\0\n\x0f\n\x02v1\x12\tConfigMap\x12\x80\x89\x7a" + b"\x12\x03\n\x01a" * 400_000
"""A ConfigMap in protobuf with one key 400,000 times."""
JSON_BODIES: tuple[tuple[str, str, bytes, str], ...] = (
    ("PATCH", f"{MAPS}/target", copies(), "application/json-patch+json"),
    ("POST", MAPS, b'{"data":[' + b"1," * 20_000, "application/json"),
    ("POST", MAPS, b"[" * 20_000, "application/json"),
    ("POST", f"{PODS}/none/binding", b'{"target":{"name":{"a":1}}}', "application/json"),
    ("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles?dryRun=All", role(), "application/json"),
)
"""Requests that are refused or cost much, for any client: method, path, body and its form."""
ATTACKS: dict[str, Attack] = {
    "deep YAML": send("POST", MAPS, b"a: " + b"[" * 2_900_000, content_type=YAML),
    "YAML with a key given often": send("POST", MAPS, b"a: 1\n" * 500_000, content_type=YAML),
    "many documents": send("POST", MAPS, b"---\n" * 700_000, content_type=YAML),
    "aliases": send("POST", MAPS, b"a: &a [x]\nb: [" + b"*a," * 900_000 + b"]", content_type=YAML),
    "broken JSON": send("POST", MAPS, b'{"data":[' + b"1," * 1_300_000),
    "deep JSON": send("POST", MAPS, b"[" * 2_900_000),
    "copies": send("PATCH", f"{MAPS}/bystander", copies(), content_type="application/json-patch+json"),
    "a wide role": send("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", role()),
    "long lists": merged_lists,
    "many terms": terms,
    "lists in YAML": lists_in_yaml,
    "nested rules": nested_rules,
    "many rules": many_rules,
    "costly policies": policies_with("costly", NESTED),
    "costly policies that ask": policies_with(
        "asking", f"{NESTED} && authorizer.requestResource.check('create').allowed()"
    ),
    "large writes": large_writes,
    "small changes of a large object": small_changes,
    "large protobuf": send("POST", MAPS, PAIRS, content_type="application/vnd.kubernetes.protobuf"),
    "changes of a large pod": changes_of_a_large_pod,
    "watches of the past": watches_of_the_past,
    "many owners": many_owners,
    "many controllers": send("POST", MAPS, controllers()),
    "all ports of the nodes": all_node_ports,
    "large heads": large_heads,
    "half requests": half_requests,
    "bodies byte by byte": trickled_bodies,
    "idle watchers": idle_watchers,
    "a binding to an object": send("POST", f"{PODS}/none/binding", b'{"target":{"name":{"a":1}}}'),
}
