"""CEL: the values of expressions, their errors, and their cost."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pytest

from kilauea.api.cel import CelCostError, CelError, compiled
from support.garbage import large_garbage

SELF: dict[str, Any] = {
    "m": {"a": 1, "b": 2}, "l": [1, 2, 3], "s": "abc", "n": None, "t": datetime(2026, 1, 2, tzinfo=UTC), "d": 2.5,
    "nested": [{"n": str(number)} for number in range(400)],
}  # fmt: skip
VALUES: list[tuple[str, Any]] = [
    # the language
    ("self.m.a + 1 == 2 && self.s != 'x'", True),
    ("self.nope == 1 || true", True),
    ("true || self.nope == 1", True),
    ("false && 1 / 0 == 1", False),
    ("self.m.a < 2.5 && 1.0 == dyn(1)", True),
    ("1 == true", False),
    ("-7 / 2 == -3 && -7 % 2 == -1", True),
    ("self.l.size() == 3 ? 'yes' : 'no'", "yes"),
    ("has(self.n) && !has(self.m.c)", True),
    ("2 in self.l && 'a' in self.m && !('z' in self.m)", True),
    ("[1, 2] + [3] == self.l && {'a': [1]} == {'a': [1]}", True),
    (r"'\u00e9\n' + r'\d'", "é\n\\d"),
    (r"b'\xff' + b'a'", b"\xffa"),
    ("type(self.s) == string && type(self.t) == google.protobuf.Timestamp", True),
    ("self.t > timestamp('2026-01-01T00:00:00Z') && self.t.getDayOfWeek() == 5", True),
    ("duration('1h30m').getMinutes()", 90),
    ("self.t + duration('24h') == timestamp('2026-01-03T00:00:00Z')", True),
    ("string(1) + string(1.5) + string(true) + string(duration('90s'))", "11.5true90s"),
    ("int('12') + int(2.9) + int(3u)", 17),
    ("self.m.`a`", 1),
    # macros, with one variable and with two
    ("self.l.all(x, x > 0) && self.l.exists(x, x == 3) && self.l.exists_one(x, x == 3)", True),
    ("self.l.exists(x, x / 0 == 1 || x == 3)", True),
    ("self.l.filter(x, x > 1).map(x, x * 2)", [4, 6]),
    ("self.l.map(x, x > 1, x * 2)", [4, 6]),
    ("self.m.all(k, k in ['a', 'b']) && self.m.map(k, k) == ['a', 'b']", True),
    ("self.m.all(k, v, k != 'x' && v > 0)", True),
    ("self.l.exists(i, v, i == v)", False),
    ("self.l.existsOne(i, v, i == 0 && v == 1)", True),
    ("self.l.transformList(i, v, i * v)", [0, 2, 6]),
    ("self.m.transformList(k, v, v > 1, k)", ["b"]),
    ("self.m.transformMap(k, v, v * 2)", {"a": 2, "b": 4}),
    ("self.m.transformMapEntry(k, v, {v: k})", {1: "a", 2: "b"}),
    ("self.l.all(x, [1].exists(x, x == 1) && x > 0)", True),
    ("cel.bind(x, self.m.a, cel.bind(y, x + 1, x + y))", 3),
    # optionals
    ("self.?m.?a.orValue(0)", 1),
    ("self.?nope.?a.orValue(7)", 7),
    ("self.m[?'z'].hasValue() || self.l[?9].hasValue()", False),
    ("optional.of(2).optMap(x, x + 1).value()", 3),
    ("optional.none().or(optional.of(1)).orValue(0)", 1),
    ("optional.ofNonZeroValue('').hasValue()", False),
    ("[?optional.none(), 1, ?optional.of(2)]", [1, 2]),
    ("{?'a': self.?nope, 'b': 1}", {"b": 1}),
    # sets, lists, texts
    ("sets.contains(self.l, [1, 3]) && sets.equivalent([1, 2], [2, 1, 1]) && !sets.intersects([1], [2])", True),
    ("self.l.sum() + self.l.max() + self.l.min() + self.l.indexOf(2)", 11),
    ("self.l.isSorted() && !['b', 'a'].isSorted()", True),
    ("[3, 1, 2].sort() == self.l && [1, 1, 2].distinct() == [1, 2]", True),
    ("[[1], [2, [3]]].flatten(2) == self.l && self.l.slice(1, 3) == [2, 3] && self.l.reverse() == [3, 2, 1]", True),
    ("self.l.sortBy(x, -x) == lists.range(4).filter(x, x > 0).reverse()", True),
    ("'a,b'.split(',').join('-').upperAscii().replace('A', 'x') + 'abc'.substring(1, 2)", "x-Bb"),
    ("self.s.matches('^a[a-z]+$') && 'a1b22'.findAll('[0-9]+') == ['1', '22'] && 'a1'.find('[0-9]') == '1'", True),
    ("'%s is %d, %.2f, %x and %s'.format([self.s, 3, 1.5, 255, [1, true]])", "abc is 3, 1.50, ff and [1, true]"),
    ("strings.quote('a\"') + ' x '.trim() + 'abc'.charAt(1)", '"a\\""xb'),
    # math and base64
    ("math.greatest(1, 3, 2) + math.least([4, 5]) + math.abs(-1)", 8),
    ("math.ceil(1.2) + math.floor(1.8) + math.round(-2.5) + math.trunc(1.9)", 1.0),
    ("math.bitAnd(6, 3) + math.bitShiftLeft(1, 3)", 10),
    ("base64.encode(b'abc') == 'YWJj' && string(base64.decode('YWJj')) == 'abc'", True),
    # quantities, versions, addresses, URLs, formats
    ("quantity('1Gi').isGreaterThan(quantity('500Mi')) && quantity('1').add(1).asInteger() == 2", True),
    ("quantity('1.5').isInteger() || isQuantity('a lot')", False),
    ("semver('1.10.0').isGreaterThan(semver('1.9.9')) && semver('v1.2', true).minor() == 2", True),
    ("ip('fe80::1').isLinkLocalUnicast() && ip('10.0.0.1').family() == 4 && !isIP('1.2.3.400')", True),
    ("ip.isCanonical('2001:db8::1') && !ip.isCanonical('2001:DB8::1')", True),
    ("cidr('10.0.0.0/8').containsIP('10.1.2.3') && cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')", True),
    ("cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('10.1.2.3/8').prefixLength() == 8", True),
    ("url('https://example.com:80/a?q=1&q=2').getHost()", "example.com:80"),
    ("url('https://example.com:80/a?q=1&q=2').getQuery()", {"q": ["1", "2"]}),
    ("isURL('https://example.com') && !isURL('../x')", True),
    ("format.dns1123Label().validate('a-b').hasValue()", False),
    ("format.named('uuid').value().validate('x').hasValue()", True),
]
FAILURES = [
    ("self.nope", "no such key: nope"),
    ("self.l[7]", "index out of bounds: 7"),
    ("1 / 0", "division by zero"),
    ("9223372036854775807 + 1", "integer overflow"),
    ("self.s + 1", "no such overload"),
    ("self.s.map(x, x)", "no such overload"),
    ("[1, 2].all(x, x)", "no such overload"),
    ("optional.none().value()", r"optional.none\(\) dereference"),
    ("'abc'.substring(5)", "index out of range: 5"),
    ("ip('1.2.3')", "parse error"),
    ("[].max()", "max called on empty list"),
    ("self.s.matches('(')", "error parsing regexp"),
    ("'%d'.format(['x'])", "only integers can be formatted"),
]
INVALID = [
    ("self >", "1:7: Syntax error: mismatched input '<EOF>'"),
    ("self.foo(1)", "1:9: undeclared reference to 'foo'"),
    ("other == 1", "1:1: undeclared reference to 'other'"),
    ("self.l.all(x)", "found no matching overload for 'all'"),
    ("self.l.all(1, true)", "argument must be a simple name"),
    ("self.s.contains()", "found no matching overload for 'contains'"),
    ("has(self)", r"invalid argument to has\(\) macro"),
    ("if == 1", "reserved identifier: if"),
    ("Thing{a: 1}", "messages cannot be created"),
    ("(" * 300 + "1" + ")" * 300, "recursion limit exceeded"),
    ("-" * 99_999 + "x" * 2, "size exceeds limit"),
    ("99999999999999999999", "invalid int literal"),
    (r"'\q'", "invalid escape sequence"),
]


@pytest.mark.parametrize(("text", "value"), VALUES)
def test_an_expression_has_its_value(text: str, value: Any) -> None:
    found = compiled(text, frozenset({"self"}))({"self": SELF})
    assert found == value
    assert found.__class__ is value.__class__


@pytest.mark.parametrize(("text", "words"), FAILURES)
def test_an_expression_that_fails_says_why(text: str, words: str) -> None:
    with pytest.raises(CelError, match=words):
        compiled(text)({"self": SELF})


@pytest.mark.parametrize(("text", "words"), INVALID)
def test_an_invalid_expression_is_refused_with_its_place(text: str, words: str) -> None:
    with pytest.raises(CelError, match=f"compilation failed: .*{words}"):
        compiled(text, frozenset({"self"}))


BOMBS = [
    "self.nested.all(a, self.nested.all(b, self.nested.all(c, a.n != 'x')))",
    "cel.bind(a, [1, 1, 1, 1, 1, 1, 1, 1, 1, 1], " * 20 + "a == a" + ")" * 20,
    "lists.range(1000000000).size() == 0",
    "self.nested.map(a, self.nested.map(b, self.nested)).flatten(3).distinct().size() == 0",
    "self.nested.map(a, self.nested).flatten().map(a, self.nested).flatten().size() == 0",
    "self.nested.map(a, 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx').join('y').replace('x', '" + "x" * 5000 + "').size() == 0",
]
_DOUBLED = "cel.bind(a, a.map(x, a), "
BOMBS[1] = "cel.bind(a, [1, 1, 1, 1, 1, 1, 1, 1, 1, 1], " + _DOUBLED * 12 + "a == a" + ")" * 13


@pytest.mark.parametrize("text", BOMBS)
def test_an_expression_that_costs_too_much_is_cancelled(text: str) -> None:
    start = time.process_time()
    with pytest.raises(CelCostError, match="actual cost limit exceeded"):
        compiled(text)({"self": SELF})
    assert time.process_time() - start < 5.0


def test_a_cost_limit_ends_a_run_within_its_time() -> None:
    program = compiled(BOMBS[0])
    start = time.process_time()
    with pytest.raises(CelCostError):
        program({"self": SELF}, 40_000)
    assert time.process_time() - start < 0.5


def test_the_cost_grows_with_what_an_expression_goes_over() -> None:
    program = compiled("self.all(x, x > 0)")
    costs = [program.costed({"self": [1] * size})[1] for size in (10, 100, 1000)]
    assert costs[1] - costs[0] == 90 * (costs[2] - costs[1]) // 900 > 90


def test_variables_of_a_loop_that_fails_do_not_stay() -> None:
    text = "cel.bind(x, 5, ([1, 2].map(x, x / 0) == [1] || true) && x == 5)"
    assert compiled(text)({}) is True


@pytest.mark.parametrize(
    "text",
    ["self.x == 1", "1 / 0 == 1", "[1].all(x, self.x == x)", "self.x == 1 || self.y == 2", "int(self.text) == 1"],
)
def test_an_expression_that_fails_leaves_nothing_of_the_object_to_the_garbage_collector(text: str) -> None:
    def fail() -> None:
        with pytest.raises(CelError):
            compiled(text)({"self": {"text": "x"}, "other": "x" * 100_000})

    assert large_garbage(fail) == []
