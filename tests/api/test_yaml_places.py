"""Where the parts of a YAML document stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from kilauea.api.yamltext import YamlError, load_yaml, load_yaml_with_lines

TEXT = b"""\
# a comment
actions: "a, b"
tiers:
- plugins:
  - name: gang
  -   name: drf
      arguments: {weight: 2,
        other: [1, 2]}
- - deep
base: &base {x: 1}
merged:
  <<: *base
  y: 2
again: *base
"""


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ((), (2, 1)),
        (("actions",), (2, 1)),
        (("tiers", 0), (4, 3)),
        (("tiers", 0, "plugins", 0), (5, 5)),
        (("tiers", 0, "plugins", 1, "name"), (6, 7)),
        (("tiers", 0, "plugins", 1, "arguments", "weight"), (7, 19)),
        (("tiers", 0, "plugins", 1, "arguments", "other"), (8, 9)),
        (("tiers", 0, "plugins", 1, "arguments", "other", 1), (8, 20)),
        (("tiers", 1, 0), (9, 5)),
        (("base", "x"), (10, 14)),
        (("merged", "y"), (13, 3)),
        (("again",), (14, 1)),
    ],
)
def test_place(path: tuple[str | int, ...], place: tuple[int, int]) -> None:
    assert load_yaml_with_lines(TEXT)[1][path] == place


def test_what_comes_by_alias_or_merge_has_no_place_of_its_own() -> None:
    places = load_yaml_with_lines(TEXT)[1]
    assert ("merged", "x") not in places
    assert ("again", "x") not in places


def test_the_value_is_the_same(pytestconfig: pytest.Config) -> None:
    for path in sorted(Path(pytestconfig.rootpath).glob("examples/**/*.conf")):
        assert load_yaml_with_lines(path.read_bytes())[0] == load_yaml(path.read_bytes())
    assert load_yaml_with_lines(TEXT)[0] == load_yaml(TEXT)


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        (b"a: 1\na: 2\n", 2, 1),
        (b"a: [1\n", 2, 1),
        (b"a: 1\n---\nb: 2\n", 0, 0),
        (b"\xef\xbb\xbfa: 1\n\tb: 2\n", 2, 1),
    ],
)
def test_an_error_has_its_place(text: bytes, line: int, column: int) -> None:
    with pytest.raises(YamlError) as error:
        load_yaml_with_lines(text)
    assert (error.value.line, error.value.column) == (line, column)


def test_an_empty_text() -> None:
    assert load_yaml_with_lines(b"") == (None, {})
