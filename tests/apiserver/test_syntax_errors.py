"""What is said of bytes that are not JSON or YAML; the words were heard from the real server."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.apiserver.syntax_errors import json_syntax_error, yaml_syntax_error


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "unexpected end of JSON input"),
        (b'{"a"', "unexpected end of JSON input"),
        (b'"abc', "unexpected end of JSON input"),
        (b'{"a":1} x', "invalid character 'x' after top-level value"),
        (b"not", "invalid character 'o' in literal null (expecting 'u')"),
        (b"nu", "invalid character ' ' in literal null (expecting 'l')"),
        (b"1.", "invalid character ' ' after decimal point in numeric literal"),
        (b"1e", "invalid character ' ' in exponent of numeric literal"),
        (b"-x", "invalid character 'x' in numeric literal"),
        (b'{"a":01}', "invalid character '1' after object key:value pair"),
        (b"[1,]", "invalid character ']' looking for beginning of value"),
        (b"[1 2]", "invalid character '2' after array element"),
        (b"{,}", "invalid character ',' looking for beginning of object key string"),
        (b'{"a" 1}', "invalid character '1' after object key"),
        (b'"\n"', "invalid character '\\n' in string literal"),
        (b'"\\x"', "invalid character 'x' in string escape code"),
        (b'"\\u12G4"', "invalid character 'G' in \\u hexadecimal character escape"),
        (b"\xcf", "invalid character '\u00cf' looking for beginning of value"),
        (b"'", "invalid character '\\'' looking for beginning of value"),
    ],
)
def test_the_first_fault_of_json_is_told_as_go_tells_it(body: bytes, words: str) -> None:
    assert json_syntax_error(body, "fine") == words


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"a: [", "yaml: line 1: did not find expected node content"),
        (b"a: 'x", "yaml: found unexpected end of stream"),
        (b"- a\n  b:\n c: [d", "yaml: line 2: mapping values are not allowed in this context"),
        (b"a: *x", "yaml: unknown anchor 'x' referenced"),
        (b"a: b", "fine"),
    ],
)
def test_the_first_fault_of_yaml_is_told_as_go_tells_it(body: bytes, words: str) -> None:
    assert yaml_syntax_error(body, "fine") == words


PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
DOCUMENTS = st.recursive(PLAIN, lambda below: st.lists(below) | st.dictionaries(st.text(), below))


@given(DOCUMENTS, st.data())
def test_json_has_no_fault_and_each_of_its_beginnings_has_one_at_its_end(value: object, data: st.DataObject) -> None:
    body = json.dumps(value).encode()
    assert json_syntax_error(body, "fine") == "fine"
    cut = body[: data.draw(st.integers(0, len(body) - 1))]
    if not isinstance(value, int | float) or isinstance(value, bool):  # half a number is a number
        words = json_syntax_error(cut, "fine")
        assert words == "unexpected end of JSON input" or words.startswith("invalid character ' ' ")
