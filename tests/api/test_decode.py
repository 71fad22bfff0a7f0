"""Reading manifests: every form of file, what is left out, and what the messages say."""

from __future__ import annotations

import json
import pickle
import re
import time
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kilauea.api.core import Pod, Workload
from kilauea.api.decode import GROUPS, KINDS, Decoded, ObjectError, decode, encode_json
from kilauea.api.scheduling import PodGroup, Queue
from kilauea.api.yamltext import load_yaml


def listed(kind: str, *items: str) -> str:
    """A list of JSON objects."""
    return f'{{"items":[{",".join(items)}],"apiVersion":"v1","kind":"{kind}"}}'


POD = '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"%s"}}'


def read(text: str | bytes) -> Decoded:
    return decode(text.encode() if isinstance(text, str) else text, "f")


def names(text: str | bytes) -> list[str]:
    """The names that a source holds; it must hold nothing wrong."""
    decoded = read(text)
    assert decoded.errors == []
    return [obj.name for obj in decoded.objects]


def messages(text: str | bytes) -> list[str]:
    return [str(error) for error in read(text).errors]


def pod(name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, **fields}


# --- forms of files


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(POD % "a" + POD % "b", id="JSON objects with nothing between them"),
        pytest.param(POD % "a" + "\n" + POD % "b" + "\n", id="JSON objects on lines of their own"),
        pytest.param(json.dumps(pod("a"), indent=2) + "\n\n" + json.dumps(pod("b"), indent=2), id="indented JSON"),
        pytest.param(POD % "a" + "\n---\n" + POD % "b", id="JSON objects with a separator"),
        pytest.param("# made by hand\n" + POD % "a" + "\n# and\n" + POD % "b", id="JSON objects with comments"),
        pytest.param("\ufeff \r\n\t[" + POD % "a" + "," + POD % "b" + "]", id="a JSON array after a byte order mark"),
        pytest.param(listed("List", POD % "a", POD % "b"), id="a List"),
        pytest.param(listed("PodList", POD % "a", POD % "b"), id="a PodList"),
        pytest.param(listed("List", listed("List", POD % "a"), POD % "b"), id="a List in a List"),
        pytest.param(yaml.dump_all([pod("a"), pod("b")]), id="YAML documents"),
        pytest.param(
            "---\n---\n" + yaml.dump(pod("a")) + "---\n# nothing\n---\n" + yaml.dump(pod("b")), id="empty ones"
        ),
        pytest.param(yaml.dump([pod("a"), pod("b")]), id="a YAML list"),
        pytest.param(yaml.dump({"kind": "List", "items": [pod("a"), pod("b")]}), id="a YAML List"),
        pytest.param(POD % "a" + "\n---\n" + yaml.dump(pod("b")), id="YAML after JSON"),
        pytest.param(yaml.dump(pod("a")) + "---\n" + POD % "b", id="JSON after YAML"),
        pytest.param((yaml.dump_all([pod("a"), pod("b")])).encode("utf-16"), id="YAML in UTF-16"),
    ],
)
def test_two_pods_are_read_from(text: str | bytes) -> None:
    assert names(text) == ["a", "b"]


@pytest.mark.parametrize(
    "text", ["", " \n", "---\n", "# only a comment\n", "[]", '{"kind":"List"}', "kind: List\nitems:"]
)
def test_nothing_is_read_without_fault_from(text: str) -> None:
    assert names(text) == []


def test_a_memoryview_is_read_as_bytes_are() -> None:
    assert [obj.name for obj in decode(memoryview((POD % "a").encode()), "f").objects] == ["a"]


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", "ü"]), st.sampled_from(["", "\n", " \n\n", "\n---\n"])), max_size=6)
)
def test_any_stream_of_json_objects_is_read_in_order(parts: list[tuple[str, str]]) -> None:
    assert names("".join(POD % name + between for name, between in parts)) == [name for name, _ in parts]


# --- kinds


def test_every_kind_is_read_as_its_type_with_any_version_of_its_group_and_without_one() -> None:
    for kind, type_ in KINDS.items():
        for version in (f"{GROUPS[kind]}/v9" if GROUPS[kind] else "v9", ""):
            (obj,) = read(json.dumps({"apiVersion": version, "kind": kind, "metadata": {"name": "x"}})).objects
            assert (type(obj), obj.kind, obj.api_version) == (type_, kind, version)


def test_a_kind_of_another_group_and_an_unknown_kind_are_counted_and_skipped() -> None:
    decoded = read(
        '{"kind":"Service","apiVersion":"serving.knative.dev/v1","metadata":{"name":"x"}}'
        '{"kind":"Secret","apiVersion":"v1"}{"kind":"Secret","apiVersion":"v1"}'
        '{"kind":"ReplicaSet","apiVersion":"v1","metadata":{"name":"x"}}'
    )
    assert decoded.objects == []
    assert decoded.errors == []
    assert decoded.skipped == {"serving.knative.dev/Service": 1, "Secret": 2, "ReplicaSet": 1}


def test_items_of_a_typed_list_take_kind_and_version_from_it() -> None:
    (obj,) = read('{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"a"}}]}').objects
    assert (type(obj), obj.kind, obj.api_version) == (Pod, "Pod", "v1")
    (obj,) = read('{"kind":"StatefulSetList","apiVersion":"apps/v1","items":[{"metadata":{"name":"a"}}]}').objects
    assert (type(obj), obj.kind, obj.api_version) == (Workload, "StatefulSet", "apps/v1")


def test_items_of_a_list_of_a_skipped_kind_are_counted() -> None:
    assert read('{"kind":"DeploymentList","apiVersion":"apps/v1","items":[{},{}]}').skipped == {"apps/Deployment": 2}


def test_a_kind_that_ends_in_list_without_items_is_an_object() -> None:
    assert read('{"kind":"AllowList","apiVersion":"x.io/v1"}').skipped == {"x.io/AllowList": 1}


def test_fields_are_read_with_their_types() -> None:
    (group, queue) = read(
        "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {name: g, namespace: ns}\n"
        "spec: {minMember: 3, minTaskMember: {master: 1}, minResources: {cpu: 500m, memory: 1e3, pods: 2}, x: {y: 1}}\n"
        "---\napiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: q}\n"
        "spec: {weight: 0x10, reclaimable: false, capability: {cpu: 1.5}}\n"
    ).objects
    assert isinstance(group, PodGroup)
    assert group.key == "ns/g"
    assert group.spec.min_member == 3
    assert group.spec.min_task_member == {"master": 1}
    assert group.spec.min_resources == {"cpu": "500m", "memory": 1000.0, "pods": 2}
    assert isinstance(queue, Queue)
    assert queue.spec is not None
    assert (queue.spec.weight, queue.spec.reclaimable, queue.spec.capability) == (16, False, {"cpu": 1.5})


# --- what YAML means


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("true", True),
        ("True", True),
        ("TRUE", True),
        ("false", False),
        ("False", False),
        ("FALSE", False),
        ("yes", "yes"),
        ("on", "on"),
        ("n", "n"),
        ("12", 12),
        ("-3", -3),
        ("+3", 3),
        ("0x1F", 31),
        ("012", 10),
        ("0o17", 15),
        ("08", "08"),
        ("1_000", 1000),
        ("1:30", "1:30"),
        ("0b11", 3),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e3", 1000),
        ("80.0", 80),
        ("1e30", 1e30),
        ("1e999", "1e999"),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("2024-01-01", "2024-01-01"),
        ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z"),
        ("500m", "500m"),
        ("~", None),
        ("null", None),
        ('"12"', "12"),
        ("'true'", "true"),
        ("!!str 12", "12"),
        ('!!int "12"', 12),
        ("!!timestamp 2024-01-01", "2024-01-01"),
        ("! 12", "12"),
        ("=", "="),
    ],
)
def test_yaml_scalar(scalar: str, value: object) -> None:
    found = load_yaml(f"a: {scalar}\n".encode())["a"]
    assert found == value
    assert type(found) is type(value)


def test_yaml_keys_are_text_however_they_are_written() -> None:
    assert load_yaml(b"1: a\ntrue: b\n2024-01-01: c\n") == {"1": "a", "true": "b", "2024-01-01": "c"}


def test_yaml_aliases_and_merges_are_followed() -> None:
    text = b"""
base: &base {a: 1, b: 2}
other: &other {b: 3, c: 4}
one: *base
merged: {<<: *base, b: 5}
several: {<<: [*base, *other], d: 6}
list: [&x k, *x]
*x : key
inline: {<<: {a: 7}}
quoted: {"<<": 8}
&k anchored: *k
"""
    value = load_yaml(text)
    assert value["one"] == {"a": 1, "b": 2}
    assert value["merged"] == {"a": 1, "b": 5}
    assert value["several"] == {"a": 1, "b": 2, "c": 4, "d": 6}
    assert value["list"] == ["k", "k"]
    assert value["k"] == "key"
    assert value["inline"] == {"a": 7}
    assert value["quoted"] == {"<<": 8}
    assert value["anchored"] == "anchored"


TREES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False, allow_infinity=False, width=32)
    | st.text(st.characters(exclude_categories=["Cs", "Cc", "Cf", "Cn", "Zl", "Zp"]), max_size=8),
    lambda children: (
        st.lists(children, max_size=3) | st.dictionaries(st.text("abc<", max_size=3), children, max_size=3)
    ),
    max_leaves=12,
)


@given(TREES)
def test_yaml_that_is_json_means_the_same(tree: Any) -> None:
    assert load_yaml(json.dumps({"a": tree}, ensure_ascii=False).encode()) == {"a": tree}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", "line 3, column 1: a: is given twice: keep one of them"),
        ("a: {b: [{c: 1, c: 2}]}\n", "line 1, column 16: a.b.0.c: is given twice: keep one of them"),
        ("a: !Ref x\n", "line 1, column 4: a: the tag !Ref is not known: leave it out"),
        ("a: !Ref [x]\n", "line 1, column 4: a: the tag !Ref is not known: leave it out"),
        ("a: *b\n", "line 1, column 4: a: the alias *b has no anchor before it: write &b at the value"),
        ("a: &a [*a]\n", "line 1, column 8: a.0: the alias *a has no anchor before it: write &a at the value"),
        ("a: {<<: 5}\n", "line 1, column 9: a.<<: only mappings can be merged: use an alias of a mapping"),
        ("? [a]\n: b\n", "line 1, column 3: a list or a mapping stands where a key is expected: use text"),
        ("x: &a [1]\n*a : b\n", "line 2, column 1: the alias *a stands where a key is expected: use text"),
        ("a: [\n", "line 2, column 1: not valid YAML: did not find expected node content"),
        ("a: b\x00c\n", "line 1, column 5: not valid YAML: a character that texts in UTF-8 do not have"),
        ("a: 1\n---\nb: 2\n", "holds several documents: keep one of them"),
    ],
)
def test_yaml_that_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        load_yaml(text.encode())


# --- what is wrong with objects


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param({"spec": {"priority": "high"}}, 'spec.priority: expected an integer, got "high"', id="text"),
        pytest.param({"spec": {"priority": 1.5}}, "spec.priority: expected an integer, got 1.5", id="a fraction"),
        pytest.param({"spec": []}, "spec: expected an object, got a list", id="a list for an object"),
        pytest.param(
            {"spec": {"containers": {"a": 1}}},
            "spec.containers: expected a list, got an object",
            id="an object for a list",
        ),
        pytest.param(
            {"spec": {"containers": [{}, {"name": 7}]}},
            "spec.containers[1].name: expected text, got 7: put it in quotes",
            id="a number for text",
        ),
        pytest.param(
            {"spec": {"overhead": {"cpu": "1", "nvidia.com/gpu": True}}},
            "spec.overhead[nvidia.com/gpu]: expected a number or text, got true",
            id="a quantity that is a boolean",
        ),
        pytest.param(
            {"spec": {"nodeSelector": {"a": "x", "b": False}}},
            "spec.nodeSelector.b: expected text, got false: put it in quotes",
            id="a label that is a boolean",
        ),
        pytest.param(
            {"spec": {"containers": [{"ports": [{"hostPort": "http"}]}]}},
            'spec.containers[0].ports[0].hostPort: expected an integer, got "http"',
            id="a port by name",
        ),
        pytest.param(
            {"spec": {"priority": "x" * 81}},
            f'spec.priority: expected an integer, got "{"x" * 59}..."',
            id="a long text",
        ),
        pytest.param(
            {"spec": {"priority": "x" * 78}},
            f'spec.priority: expected an integer, got "{"x" * 78}"',
            id="a text that is just short enough",
        ),
        pytest.param(
            {"spec": {"containers": [None]}}, "spec.containers[0]: expected an object, got null", id="a null in a list"
        ),
    ],
)
def test_a_wrong_field_is_named_with_its_value_in_json_and_in_yaml(fields: dict[str, Any], message: str) -> None:
    broken = pod("web-1", **fields)
    broken["metadata"]["namespace"] = "ns"
    for text in (json.dumps(broken), yaml.dump(broken)):
        decoded = read(text)
        assert decoded.objects == []
        assert [str(error) for error in decoded.errors] == [f"f: Pod ns/web-1: {message}"]


def test_a_json_number_that_no_float_holds_is_named_by_its_field() -> None:
    text = '{"kind":"Pod","metadata":{"name":"a"},"spec":{"overhead":{"cpu":1e999}}}'
    assert messages(text) == ["f: Pod default/a: spec.overhead[...]: number out of range"]


def test_an_error_has_its_parts() -> None:
    (error,) = read(POD % "a" + '{"kind":"Queue","metadata":{"name":"q"},"spec":{"weight":"x"}}').errors
    assert error == ObjectError("f", 1, "Queue", "q", "spec.weight", 'expected an integer, got "x"')
    assert pickle.loads(pickle.dumps(error)) == error


def test_a_broken_object_does_not_keep_the_others_out() -> None:
    items = [pod("a"), pod("b", spec=5), pod("c")]
    for text in (json.dumps({"kind": "List", "items": items}), json.dumps(items), yaml.dump_all(items)):
        decoded = read(text)
        assert [obj.name for obj in decoded.objects] == ["a", "c"]
        assert [str(error) for error in decoded.errors] == ["f: Pod default/b: spec: expected an object, got 5"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"kind":"Pod"}', "f: document 1 (Pod): metadata.name: missing: every object needs a name"),
        (
            '{"kind":"PodList","items":[{"metadata":{"name":"a"}},{}]}',
            "f: document 1 (Pod): items[1].metadata.name: missing: every object needs a name",
        ),
        (
            '{"kind":"List","items":[{"kind":"Pod","spec":1}]}',
            "f: document 1 (Pod): items[0].spec: expected an object, got 1",
        ),
        ("{}", "f: document 1: kind: missing: every object needs apiVersion, kind and metadata.name"),
        ('{"kind":5}', "f: document 1: kind: expected text, got 5: put it in quotes"),
        ('{"kind":"List","items":{}}', "f: document 1 (List): items: expected a list, got an object"),
        ("[5]", "f: document 1: [0]: expected an object, got 5"),
        ("---\n---\nhello\n", 'f: document 1: expected an object, got "hello"'),
    ],
)
def test_objects_without_a_name_are_found_by_their_place(text: str, message: str) -> None:
    assert messages(text) == [message]


def test_a_null_is_an_absent_field() -> None:
    text = (
        '{"kind":"Pod","metadata":{"name":"a","labels":{"x":null}},"spec":{"containers":[{"name":null,"image":"i"}]}}'
    )
    for form in (text, yaml.dump(json.loads(text))):
        (obj,) = read(form).objects
        assert isinstance(obj, Pod)
        assert obj.labels == {"x": ""}
        assert obj.spec.containers is not None
        assert (obj.spec.containers[0].name, obj.spec.containers[0].image) == ("", "i")
    assert names('{"kind":"Pod","metadata":{"name":"a"},"spec":null}') == ["a"]


# --- what is wrong with texts


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"kind":\n "Pod",\n x}', "f: line 3, column 2: not valid JSON: "),
        ('{"kind":"Pod"', "f: line 1, column 14: not valid JSON: the text ends in the middle of a value"),
        (POD % "ü" + " x", f"f: line 1, column {len(POD % 'ü') + 2}: something other than another object follows"),
        ("a: [b\nc: d\n", "f: line 2, column 2: not valid YAML: "),
        ("kind: Pod\n\tx: y\n", "f: line 2, column 1: not valid YAML: "),
        ("ü: \x07", "f: line 1, column 4: not valid YAML: a character that texts in UTF-8 do not have"),
        (b"kind: Pod\nname: \xff", "f: line 2, column 7: not valid YAML: a character that texts in UTF-8 do not have"),
        (b"\x00\x01\x02", "f: line 1, column 1: not valid YAML: a character that texts in UTF-8 do not have"),
        (b"\xff\xfe\x00", "f: line 1, column 1: not UTF-16 text, although it begins like it"),
    ],
)
def test_a_text_that_is_neither_json_nor_yaml_is_one_error_with_line_and_column(
    text: str | bytes, message: str
) -> None:
    (found,) = messages(text)
    assert found.startswith(message)


def test_text_that_is_not_utf_8_inside_json_is_an_error_of_its_object() -> None:
    decoded = read(b'[{"kind":"Pod","metadata":{"name":"\xff"}},' + (POD % "b").encode() + b"]")
    assert [obj.name for obj in decoded.objects] == ["b"]
    assert [str(error) for error in decoded.errors] == [
        "f: document 1 (Pod): [0]: holds text that is not UTF-8: save the file as UTF-8"
    ]


def test_text_that_is_not_utf_8_beside_the_name_is_an_error_with_the_name() -> None:
    text = b'{"kind":"Pod","metadata":{"name":"a"},"spec":{"nodeName":"\xff"}}'
    assert messages(text) == ["f: Pod default/a: holds text that is not UTF-8: save the file as UTF-8"]


def test_after_a_broken_yaml_document_reading_goes_on_at_the_next() -> None:
    text = (
        "kind: Pod\nmetadata: {name: a}\n---\nx: [\n---\nkind: Pod\nmetadata: {name: b}\n---\nx: \x07\n---\n"
        + POD % "c"
    )
    decoded = read(text)
    assert [obj.name for obj in decoded.objects] == ["a", "b", "c"]
    assert [(error.line, error.column) for error in decoded.errors] == [(5, 1), (9, 4)]


def test_after_a_broken_json_line_reading_goes_on_at_the_next() -> None:
    text = "\n".join([POD % "a", '{"kind":', POD % "b", '{"kind" "Pod"}', POD % "c", "rest", POD % "d"])
    decoded = read(text)
    assert [obj.name for obj in decoded.objects] == ["a", "b", "c", "d"]
    assert len(decoded.errors) == 3


def test_after_broken_json_reading_goes_on_behind_a_separator() -> None:
    decoded = read('{"kind": x\n}\n---\nkind: Pod\nmetadata: {name: a}\n')
    assert [obj.name for obj in decoded.objects] == ["a"]
    assert [(error.line, error.column) for error in decoded.errors] == [(1, 10)]


def test_a_fault_in_a_document_without_a_kind_is_reported_with_it() -> None:
    assert messages("a: 1\na: 2\n") == [
        "f: document 1: kind: missing: every object needs apiVersion, kind and metadata.name",
        "f: line 2, column 1: a: is given twice: keep one of them",
    ]


def test_a_repeated_yaml_key_leaves_its_object_out_and_no_other() -> None:
    text = (
        "kind: List\nitems:\n- kind: Pod\n  metadata:\n    name: a\n    name: b\n- kind: Pod\n  metadata: {name: c}\n"
    )
    decoded = read("x: 1\n---\n" + text)
    assert [obj.name for obj in decoded.objects] == ["c"]
    assert (
        str(decoded.errors[-1]) == "f: line 8, column 5: Pod default/b: metadata.name: is given twice: keep one of them"
    )


def test_a_fault_in_a_list_itself_leaves_the_list_out() -> None:
    decoded = read("kind: List\nitems: []\nitems: [{kind: Pod, metadata: {name: a}}]\n")
    assert decoded.objects == []
    assert [str(error) for error in decoded.errors] == ["f: line 3, column 1: items: is given twice: keep one of them"]


def test_no_more_than_a_hundred_errors_of_text_are_reported() -> None:
    assert len(messages("x: [\n---\n" * 1000)) == 100


# --- what must not hang or fail


def billion_laughs(levels: int, width: int) -> bytes:
    lines = [b"a0: &a0 [x]"]
    lines += [b"a%d: &a%d [%s]" % (i, i, b",".join([b"*a%d" % (i - 1)] * width)) for i in range(1, levels)]
    return b"\n".join(lines)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(b"[" * 200_000, "nested too deep", id="deep JSON arrays"),
        pytest.param(b'{"a":' * 200_000, "nested too deep", id="deep JSON objects"),
        pytest.param(
            b'{"kind":"Pod","x":' + b"[" * 200_000 + b"]" * 200_000 + b"}", "nested too deep", id="deep parts"
        ),
        pytest.param(b"a: " + b"[" * 200_000, "nested too deep", id="deep YAML in flow style"),
        pytest.param(b"- " * 200_000, "nested too deep", id="deep YAML in block style"),
        pytest.param(b'{"kind":"List","items":[' * 50 + b"]}" * 50, "lists in lists", id="lists in lists"),
        pytest.param(billion_laughs(30, 10), "aliases stand for more than", id="a billion laughs"),
        pytest.param(billion_laughs(4, 2000), "aliases stand for more than", id="wide laughs"),
        pytest.param(b"kind: List\nitems: &a\n- kind: List\n  items: *a\n", "has no anchor", id="a list in itself"),
        pytest.param(b'{"kind":"Pod","metadata":{"name":"\\ud800"}}', "", id="half a surrogate pair"),
        pytest.param(b'{"kind":"Pod","spec":{"priority":' + b"1" * 5000 + b"}}", "", id="a number without end"),
    ],
)
def test_hostile_bytes_are_an_error_at_once(text: bytes, message: str) -> None:
    started = time.monotonic()
    decoded = read(text)
    assert time.monotonic() - started < 2
    assert decoded.objects == []
    assert len(decoded.errors) == 1
    assert message in str(decoded.errors[0])


def test_many_small_aliases_are_fine() -> None:
    text = "kind: List\nitems:\n- &a {kind: Pod, metadata: {name: a}}\n" + "- *a\n" * 2000
    assert len(names(text)) == 2001


def flow(tree: object) -> str:
    """JSON that is read as YAML, because a document marker stands on its first line."""
    return "--- " + json.dumps(tree, ensure_ascii=False) + "\n"


FRAGMENTS = st.sampled_from(
    [
        b"{",
        b"}",
        b"[",
        b"]",
        b'"kind"',
        b":",
        b",",
        b'"Pod"',
        b'"List"',
        b'"items"',
        b'"metadata"',
        b'"name"',
        b'"spec"',
        b"\n---\n",
        b"\n",
        b" ",
        b"- ",
        b"kind: Pod\n",
        b"kind: List\n",
        b"items:\n",
        b"metadata: {name: a}\n",
        b"spec:\n  priority: x\n",
        b"&a ",
        b"*a",
        b"<<: ",
        b"? ",
        b"!x ",
        b"|\n",
        b"%YAML 1.1\n",
        b"...\n",
        b"null",
        b"1e999",
        b"\x00",
        b"\xff",
        b"\xef\xbb\xbf",
        b"\xff\xfe",
        b"\r",
        b"\t",
        b"#",
        b"\xc2\x85",
        b"\xe2\x80\xa8",
        (POD % "p").encode(),
    ]
)


@given(st.binary(max_size=40) | st.lists(FRAGMENTS, max_size=25).map(b"".join))
def test_no_bytes_raise_an_exception(data: bytes) -> None:
    decoded = decode(data, "f")
    for error in decoded.errors:
        assert str(error).startswith("f: ")
        assert error.message
    assert all(obj.name for obj in decoded.objects)


@given(
    st.fixed_dictionaries(
        {"kind": st.sampled_from([*sorted(KINDS), "List", "PodList", 5, None])},
        optional={
            "metadata": TREES,
            "spec": TREES,
            "status": TREES,
            "items": TREES,
            "value": TREES,
            "apiVersion": TREES,
        },
    )
)
def test_no_values_raise_an_exception_and_json_and_yaml_agree(tree: dict[str, Any]) -> None:
    as_json, as_yaml = read(json.dumps(tree)), read(flow(tree))
    assert as_json.objects == as_yaml.objects
    assert [error.field for error in as_json.errors] == [error.field for error in as_yaml.errors]
    assert as_json.skipped == as_yaml.skipped


# --- writing


def test_written_json_is_sorted_and_reads_back() -> None:
    (obj,) = read('{"kind":"Pod","metadata":{"name":"a","labels":{"z":"1","b":"2"}},"apiVersion":"v1"}').objects
    text = encode_json(obj)
    assert text == b'{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"b":"2","z":"1"},"name":"a"},"spec":{}}'
    assert read(text).objects == [obj]
    assert encode_json({"b": 1, "a": [obj.metadata]}, indent=2).startswith(b'{\n  "a": [\n    {\n      "labels"')


@given(st.dictionaries(st.text(max_size=3), st.integers(), max_size=5))
def test_written_json_does_not_depend_on_the_order_of_insertion(value: dict[str, int]) -> None:
    assert encode_json(value) == encode_json(dict(reversed(value.items())))


@pytest.mark.slow
def test_fifteen_thousand_small_objects_take_little_more_than_the_parser_of_json() -> None:
    items = [
        pod(f"web-{i}", spec={"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]})
        for i in range(15_000)
    ]
    data = json.dumps({"kind": "List", "items": items}).encode()
    ratios = []
    for _ in range(3):
        begin = time.process_time()
        json.loads(data)
        middle = time.process_time()
        count = len(decode(data, "f").objects)
        ratios.append((time.process_time() - middle) / (middle - begin))
        assert count == 15_000
    assert min(ratios) < 50, "seconds would be more than a hundred times as long"
