"""Whatever is fed to `kilauea plan`, it answers: no traceback, no hang, no object lost, and no law broken.

Four sources of trouble: manifests that are spoiled part by part, bytes that are hardly manifests at all, configurations
beyond reason, and events in any order. What ever failed stands in `corpus/` and is tried again by `test_corpus`.
"""

from __future__ import annotations

import gzip
import json
import re
import resource
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz import confs
from fuzz.harness import DEFAULT_CONF, broken_laws, check_form, faults, lines_of, lost, run_bytes, within
from fuzz.world import Data, Manifests, cluster, nested, spoiled
from kilauea.api.decode import KINDS, decode
from kilauea.api.errors import object_label
from kilauea.api.meta import Object
from kilauea.cli.main import main
from kilauea.engine.actions import ACTIONS
from kilauea.engine.conf import QUEUE_PLUGINS, ConfError, SchedulerConf, parse_conf
from kilauea.engine.cycle import cycle
from kilauea.engine.events import Changed, Event, Gone, Relisted
from kilauea.engine.plugins import PLUGINS
from kilauea.engine.state import ClusterState
from kilauea.runtime.inputs.built_in import built_in_queue
from support.probes import fingerprint, slots

NOW = 1_767_225_600_000_000
MEMORY = 1 << 30
"""Bytes by which this process may grow."""
EVERYTHING = [parse_conf(confs.everything(queues), PLUGINS, ACTIONS) for queues in QUEUE_PLUGINS]
CONFS = (DEFAULT_CONF, *EVERYTHING)

unhurried = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def most_memory() -> int:
    """The most bytes that this process ever took."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


@pytest.fixture(scope="module", autouse=True)
def bounded_memory() -> Iterator[None]:
    before = most_memory()
    yield
    assert most_memory() - before < MEMORY


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


# --- spoiled manifests


@pytest.mark.slow
@given(spoiled(), st.sampled_from(CONFS), st.sampled_from([None, 0, 2**70]))
@unhurried
def test_spoiled_objects_are_planned_or_named(
    folder: Path, manifests: list[Data], conf: SchedulerConf, seed: int | None
) -> None:
    with within():
        run = run_bytes(lines_of(manifests), folder, conf=conf, seed=seed)
        assert run.result is not None
        assert lost(manifests, run) == []
        assert broken_laws(run.result.plan, run.result.state) == []
        assert faults(run.result.plan) == []


@pytest.mark.slow
@given(spoiled(), st.sampled_from(CONFS), st.integers(2, 4))
@unhurried
def test_spoiled_objects_over_several_cycles(
    folder: Path, manifests: list[Data], conf: SchedulerConf, cycles: int
) -> None:
    with within():
        run = run_bytes(lines_of(manifests), folder, conf=conf, cycles=cycles, explain=False)
        assert run.result is not None
        assert broken_laws(run.result.plan, run.result.state) == []


SURROGATES = re.compile(r"\\\\|\\u(d[89ab]..)\\u(d[c-f]..)")


def joined(found: re.Match[str]) -> str:
    """A character that JSON writes as two, as YAML writes it."""
    text: str = json.loads(f'"{found[0]}"')
    return f"\\U{ord(text):08x}" if found[1] else found[0]


@pytest.mark.slow
@given(st.lists(spoiled(most=3), min_size=2, max_size=2), st.booleans())
@unhurried
def test_json_and_yaml_of_the_same_objects_give_the_same_plan(
    folder: Path, both: list[list[Data]], as_list: bool
) -> None:
    manifests = Manifests(m for pair in zip(*both, strict=False) for m in pair)
    parts: list[Any] = [{"apiVersion": "v1", "kind": "List", "items": manifests}] if as_list else manifests
    as_yaml = "".join(f"--- {SURROGATES.sub(joined, json.dumps(part))}\n" for part in parts)
    with within():
        one, other = (run_bytes(data, folder, explain=False) for data in (lines_of(parts), as_yaml.encode()))
        assert one.result is not None
        assert other.result is not None
        assert one.result.plan == other.result.plan
        assert len(one.warnings) == len(other.warnings)


# --- the command


def invoke(*arguments: str) -> Result:
    """What the command does; a traceback fails the test."""
    outcome = CliRunner().invoke(main, ["plan", *arguments])
    if outcome.exception is not None and not isinstance(outcome.exception, SystemExit):
        raise outcome.exception
    assert outcome.exit_code in (0, 2), outcome.output
    return outcome


def check_command(source: Path, *more: str) -> None:
    """All forms of output, and an explanation; what the command says, it says in the form that was asked for."""
    outcome = invoke("-f", str(source), "-o", "json", *more)
    if outcome.exit_code and not outcome.stdout:
        assert outcome.stderr.startswith("Error: ")
        return
    assert not outcome.exit_code or "of the files cannot be used; the plan leaves" in outcome.stderr
    plan = json.loads(outcome.stdout)
    assert {"binds", "pending", "podGroups"} <= plan.keys()
    for output in ("table", "wide", "yaml"):
        check_form(invoke("-f", str(source), "-o", output, *more).stdout, output, {"binds"})
    for group in sorted(plan["podGroups"])[:1]:
        explained = invoke("-f", str(source), "-o", "json", f"--explain={group}", *more)
        assert json.loads(explained.stdout)["podGroup"] == group


@pytest.mark.slow
@given(spoiled())
@settings(unhurried, max_examples=20)
def test_the_command_takes_spoiled_objects(folder: Path, manifests: list[Data]) -> None:
    source = folder / "objects.json"
    source.write_bytes(lines_of(manifests))
    with within():
        check_command(source)


# --- bytes

FRAGMENTS = (
    *("{", "}", "[", "]", ",", ":", '"', "\n---\n", "\n...\n", "\n", " ", "- ", "? ", "| ", "> ", "# ", "%YAML 1.1\n"),
    *("&a ", "*a", "<<: *a\n", "<<: [*a, *b]\n", "&b {<<: *a}", "!!binary ", "!!python/object:os.system ", "!x "),
    *("kind: Pod\n", "kind: List\nitems:\n", "metadata: {name: a}\n", "spec: &a\n", '{"kind":"Node","metadata":'),
    *('{"name":"n"}}', "null", "~", "1e999", "-0", ".nan", ".inf", "0o17", "\x00", "\ufeff", "\u2028", "\t", "\r"),
    *("\\ud800", '"\\ud83d"', "'''", "\\", "\x85", "items: [*a, *a, *a]\n", '"items":[', "&a [*a]", "yes", "012"),
)
JSON_TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | st.sampled_from(sorted(KINDS)),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["kind", "metadata", "name", "spec", "items", "status"]), inner, max_size=4)
    ),
    max_leaves=12,
)


def valid_texts() -> list[bytes]:
    """The cluster as JSON lines, as a JSON list, and as YAML with anchors."""
    manifests = cluster()
    listed = {"apiVersion": "v1", "kind": "List", "items": manifests}
    shared = {"kind": "List", "items": [{"kind": "Pod", "metadata": {"name": f"p{i}"}, "spec": SPEC} for i in range(3)]}
    texts = [
        json.dumps(listed),
        yaml.dump_all(manifests),
        yaml.dump(shared),
        yaml.dump(listed, default_flow_style=True),
    ]
    return [lines_of(manifests), *(text.encode() for text in texts)]


SPEC = {"schedulerName": "volcano", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
VALID = valid_texts()


@st.composite
def torn(draw: st.DrawFn) -> bytes:
    """A valid text that is cut, or in which some bytes are something else."""
    data = bytearray(draw(st.sampled_from(VALID)))
    for _ in range(draw(st.integers(1, 5))):
        at, size = draw(st.integers(0, len(data))), draw(st.integers(0, 30))
        how = draw(st.sampled_from(["cut", "cut from", "put", "repeat", "flip"]))
        if how == "cut":
            del data[at : at + size]
        elif how == "cut from":
            del data[at:]
        elif how == "put":
            data[at:at] = draw(st.sampled_from(FRAGMENTS)).encode("utf-8", "surrogatepass")
        elif how == "repeat":
            data[at:at] = bytes(data[at : at + size]) * draw(st.sampled_from([1, 50]))
        elif at < len(data):
            data[at] ^= 1 << draw(st.integers(0, 7))
    return bytes(data)


@st.composite
def packed(draw: st.DrawFn) -> bytes:
    """Something gzipped, maybe damaged afterwards."""
    data = bytearray(gzip.compress(draw(st.binary(max_size=30) | st.sampled_from(VALID)), mtime=0))
    if draw(st.booleans()):
        at = draw(st.integers(2, len(data) - 1))
        data[at] ^= draw(st.integers(0, 255))
    return bytes(data[: draw(st.sampled_from([len(data), len(data) // 2, 3]))])


BYTES = (
    st.binary(max_size=200)
    | st.lists(st.sampled_from(FRAGMENTS), max_size=30).map(lambda parts: "".join(parts).encode())
    | JSON_TREES.map(lambda tree: json.dumps(tree).encode())
    | JSON_TREES.map(lambda tree: yaml.dump(tree, allow_unicode=True).encode("utf-8", "surrogatepass"))
    | torn()
    | torn()
    | packed()
)


@given(BYTES)
@unhurried
def test_any_bytes_are_planned_or_refused(folder: Path, data: bytes) -> None:
    with within():
        run = run_bytes(data, folder)
        if run.result is None:
            assert str(folder) in run.refused
        else:
            assert broken_laws(run.result.plan, run.result.state) == []
            assert faults(run.result.plan) == []


@given(BYTES)
@settings(unhurried, max_examples=20)
def test_the_command_takes_any_bytes(folder: Path, data: bytes) -> None:
    source = folder / "bytes"
    source.write_bytes(data)
    with within():
        check_command(source)


@pytest.mark.slow
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(json.dumps(nested(900)).encode(), id="deep JSON"),
        pytest.param(b'{"kind":"Pod","metadata":{"name":"a"},"spec":' + b'{"a":' * 50_000, id="deeper JSON"),
        pytest.param(b"a: " * 20_000, id="colons"),
        pytest.param(b"? " * 20_000, id="complex keys"),
        pytest.param(b"&a " * 20_000, id="anchors"),
        pytest.param(b"- &a [*a]\n" * 20_000, id="lists in themselves"),
        pytest.param(b"---\n" * 200_000, id="empty documents"),
        pytest.param(b"{}" * 100_000, id="objects without a kind"),
        pytest.param(b"[" + b"{}," * 100_000 + b"{}]", id="a list of objects without a kind"),
        pytest.param(b'"' + b"\\" * 200_000, id="a text of escapes"),
        pytest.param(b"%" * 200_000, id="directives"),
        pytest.param(b"kind: |\n" + b" x\n" * 100_000, id="a long block"),
        pytest.param(b"\n".join(b"k%d: v" % i for i in range(100_000)), id="many keys"),
        pytest.param(b"{" + b",".join(b'"k%d":1' % i for i in range(100_000)) + b"}", id="many keys of JSON"),
    ],
)
def test_long_texts_take_no_longer_than_their_length(folder: Path, data: bytes) -> None:
    with within():
        run_bytes(data, folder)


# --- configurations


def state_of(objects: Sequence[Object]) -> ClusterState:
    state = ClusterState()
    for obj in objects:
        state.apply(Changed(obj))
    return state


STATE = state_of([built_in_queue("root"), *decode(lines_of(cluster()), "the cluster").objects])
BEFORE = fingerprint(STATE)


@pytest.mark.slow
@given(confs.spoiled() | confs.sound(), st.sampled_from([None, 5]))
@unhurried
def test_any_configuration_is_used_or_refused(document: Any, seed: int | None) -> None:
    with within():
        conf = usable(document)
        if conf is None:
            return
        plan = cycle(STATE, conf, NOW, seed)
        assert fingerprint(STATE) == BEFORE
        assert broken_laws(plan, STATE, gangs=keeps_gangs(conf)) == []
        assert faults(plan) == []


def usable(document: object) -> SchedulerConf | None:
    """The configuration, if it is not refused."""
    try:
        return parse_conf(document, PLUGINS, ACTIONS)
    except ConfError as refused:
        if not str(refused):
            raise
        return None


def keeps_gangs(conf: SchedulerConf) -> bool:
    """Whether the plugin that keeps gangs whole has its say."""
    gang = [entry for tier in conf.tiers for entry in tier if entry.name == "gang"]
    return bool(gang) and all(entry.is_enabled("jobready") and entry.is_enabled("jobpipelined") for entry in gang)


@given(
    confs.spoiled().filter(lambda document: "\ud800" not in repr(document)), st.sampled_from(["json", "yaml", "torn"])
)
@settings(unhurried, max_examples=30)
def test_the_command_takes_any_configuration(folder: Path, document: Any, form: str) -> None:
    source, conf = folder / "objects.json", folder / "scheduler.conf"
    source.write_bytes(VALID[0])
    text = json.dumps(document) if form == "json" else yaml.dump(document, allow_unicode=True)
    conf.write_text(text[: len(text) // 2] if form == "torn" else text)
    with within():
        outcome = invoke("-f", str(source), "-o", "json", "--scheduler-conf", str(conf))
        assert outcome.exit_code == 2 or json.loads(outcome.stdout)["podGroups"]


@pytest.mark.parametrize("number", [3, 30])
def test_tiers_that_say_the_same_again_and_again(number: int) -> None:
    document = confs.everything()
    document["tiers"] = document["tiers"] * number
    with within():
        plan = cycle(STATE, parse_conf(document, PLUGINS, ACTIONS), NOW)
        assert broken_laws(plan, STATE) == []


# --- events


def readable(manifests: list[Data]) -> list[Object]:
    """What can be read of spoiled manifests, without versions, so that every event counts."""
    objects = decode(lines_of(manifests), "the manifests").objects
    for obj in objects:
        if (obj.metadata.resource_version or "0").isascii():
            obj.metadata.resource_version = None
    return objects


class History(NamedTuple):
    """Events, and the objects that are there at their end."""

    events: list[Event]
    known: dict[tuple[str, str], Object]

    def __repr__(self) -> str:
        told = [
            f"Relisted({e.kind}, {[shown(o) for o in e.objects]})" if isinstance(e, Relisted) else ""
            for e in self.events
        ]
        return "; ".join(text or shown(e) for text, e in zip(told, self.events, strict=True))[:20_000]


def shown(thing: object) -> str:
    """What an event is about, or an object, in short."""
    if isinstance(thing, Changed):
        return f"Changed({shown(thing.obj)})"
    return repr(msgspec.to_builtins(thing))[:2000] if isinstance(thing, Object) else repr(thing)


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Events about the objects of some spoiled clusters, one at a time or all together."""
    known: dict[tuple[str, str], Object] = {}
    versions = [readable(draw(spoiled(most=8))) for _ in range(draw(st.integers(1, 3)))]
    objects = [obj for version in versions for obj in version]
    events: list[Event] = []
    for _ in range(draw(st.integers(1, 60)) if objects else 0):
        obj = draw(st.sampled_from(objects))
        key = (obj.kind, object_label(obj))
        how = draw(st.sampled_from(["changed"] * 6 + ["gone", "listed", "all"]))
        if how == "changed":
            events.append(Changed(obj))
            known[key] = obj
        elif how == "gone":
            events.append(Gone(*key))
            known.pop(key, None)
        elif how == "listed":
            same = [o for o in objects if o.kind == obj.kind]
            listed = draw(st.lists(st.sampled_from(same), max_size=4))
            events.append(Relisted(obj.kind, listed))
            known = {k: o for k, o in known.items() if k[0] != obj.kind}
            known |= {(o.kind, object_label(o)): o for o in listed}
        else:
            version = draw(st.sampled_from(versions))
            events.extend(map(Changed, version))
            known |= {(o.kind, object_label(o)): o for o in version}
    return History(events, known)


def whole(state: ClusterState) -> dict[str, Any]:
    """Everything that a state knows, by name."""
    storage, figures = state.storage, fingerprint(state)
    for key, job in state.jobs.items():
        parts = {name: (sorted(part.tasks), slots(part, "tasks")) for name, part in sorted(job.sub_jobs.items())}
        figures["jobs"][key]["sub_jobs"] = parts
    return figures | {
        "domains": {name: repr(domain) for name, domain in state.domains.items()},
        "quotas": state.quotas,
        "budgets": state.budgets,
        "classes": {name: repr(of) for name, of in state.priority_classes.items()},
        "storage": [storage.volumes, storage.claims, storage.classes, storage.drivers, storage.tracking],
        "room": [storage.capacities, storage.attachments],
    }


@pytest.mark.slow
@given(histories(), st.sampled_from(CONFS), st.lists(st.integers(0, 200), max_size=2))
@unhurried
def test_a_state_is_that_of_the_objects_seen_last(history: History, conf: SchedulerConf, pauses: list[int]) -> None:
    events, known = history
    with within():
        state = ClusterState()
        for number, event in enumerate(events):
            state.apply(event)
            if number in pauses:
                cycle(state, conf, NOW)
        fresh = state_of(list(known.values()))
        assert whole(state) == whole(fresh)
        plan = cycle(state, conf, NOW)
        assert plan == cycle(fresh, conf, NOW)
        assert whole(state) == whole(fresh)
        assert broken_laws(plan, state) == []
        assert faults(plan) == []
