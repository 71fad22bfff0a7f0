"""Quantities: what texts mean, how they are rounded, refused and written."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.api.meta import ResourceMap
from kilauea.api.quantity import (
    LARGEST,
    QuantityError,
    Unit,
    amount,
    format_amount,
    format_resources,
    is_countable,
    parse_milli,
    parse_units,
    resource_amounts,
    unit_of,
)

SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}
NAMES = ["cpu", "memory", "pods", "ephemeral-storage", "hugepages-2Mi", "nvidia.com/gpu", "attachable-volumes-csi"]
amounts = st.integers(min_value=-LARGEST, max_value=LARGEST)


def away_from_zero(number: Fraction) -> int:
    size = -(-abs(number).numerator // abs(number).denominator)
    return size if number >= 0 else -size


@pytest.mark.parametrize(
    ("text", "milli", "units"),
    [
        pytest.param("500m", 500, 1, id="half a core rounds up to one piece"),
        pytest.param("4", 4000, 4, id="a plain number"),
        pytest.param("+4", 4000, 4, id="a plus sign"),
        pytest.param("2Ki", 2048000, 2048, id="a binary suffix"),
        pytest.param("2k", 2000000, 2000, id="a decimal suffix"),
        pytest.param("1.5Gi", 1610612736000, 1610612736, id="a fraction of a binary suffix"),
        pytest.param(".5", 500, 1, id="no digit before the point"),
        pytest.param("1.", 1000, 1, id="no digit behind the point"),
        pytest.param("1e3", 1000000, 1000, id="a small e is an exponent"),
        pytest.param("1E3", 1000000, 1000, id="a capital E with digits is an exponent"),
        pytest.param("12e-1", 1200, 2, id="a negative exponent"),
        pytest.param("0.000001E", 10**15, 10**12, id="a capital E without digits is exa"),
        pytest.param("1u", 1, 1, id="a millionth is rounded up"),
        pytest.param("1001u", 2, 1, id="a bit more than a thousandth is two of them"),
        pytest.param("-1u", -1, -1, id="negative amounts are rounded away from zero"),
        pytest.param("-1500m", -1500, -2, id="minus one and a half is minus two"),
        pytest.param("1e-999999999999", 1, 1, id="what is next to nothing is rounded up"),
        pytest.param("0e999999999999", 0, 0, id="zero stays zero under any exponent"),
        pytest.param(2, 2000, 2, id="a bare integer"),
        pytest.param(0.1, 100, 1, id="a float is read by its decimal text"),
        pytest.param(1e-07, 1, 1, id="a float in scientific notation"),
        pytest.param(0.29, 290, 1, id="a float whose thousandfold is not exact"),
    ],
)
def test_quantity_means(text: str | int | float, milli: int, units: int) -> None:
    assert parse_milli(text) == milli
    assert parse_units(text) == units


@pytest.mark.parametrize(
    "text",
    ["", "-", ".", "m", "Ki", "12xyz", " 1", "1 ", "1\n", "1e", "1E+", "1K", "1Mi5", "1.2.3", "0x10", "1_000", "٣"],
)
def test_text_that_is_no_quantity_is_refused_by_name_with_the_right_form(text: str) -> None:
    with pytest.raises(QuantityError) as caught:
        parse_milli(text)
    assert (
        str(caught.value) == f'"{text}" is not a quantity: use a number with an optional suffix such as 500m, 2, 1.5Gi'
    )


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True])
def test_values_that_are_no_numbers_are_refused(value: float) -> None:
    with pytest.raises(QuantityError, match="is not a quantity"):
        parse_units(value)


@pytest.mark.parametrize("parse", [parse_milli, parse_units])
def test_a_boolean_is_refused_even_after_the_equal_number_was_parsed(parse: Callable[[float], int]) -> None:
    assert parse(1) == parse(1.0)
    with pytest.raises(QuantityError):
        parse(True)


def test_the_largest_amount_passes_and_the_next_does_not() -> None:
    assert parse_units(str(LARGEST)) == LARGEST
    assert parse_units(str(-LARGEST)) == -LARGEST
    with pytest.raises(QuantityError) as caught:
        parse_units("9007199254740993")
    assert str(caught.value) == (
        '"9007199254740993" is larger than 9007199254740992, the largest amount that can be counted exactly'
    )
    with pytest.raises(QuantityError, match='"-9Pi" is less than -9007199254740992'):
        parse_units("-9Pi")


def test_the_limit_counts_in_the_unit_asked_for() -> None:
    assert parse_units("9T") == 9 * 10**12
    with pytest.raises(QuantityError, match='"10T" in thousandths is larger than 9007199254740992'):
        parse_milli("10T")


@pytest.mark.parametrize(
    "value",
    ["1e999999999999", 10**5000, 1e300, "9" * 128],
    ids=["an exponent", "an integer", "a float", "many digits"],
)
def test_giant_numbers_are_refused_at_once(value: str | int | float) -> None:
    with pytest.raises(QuantityError, match="larger than"):
        parse_units(value)


def test_giant_texts_are_refused_and_not_shown_whole() -> None:
    with pytest.raises(QuantityError) as caught:
        parse_units("1" * 100_000)
    assert len(str(caught.value)) < 200


@given(
    whole=st.integers(0, 10**20),
    fraction=st.text("0123456789", max_size=12),
    suffix=st.sampled_from(sorted(SUFFIXES)),
    sign=st.sampled_from(["", "+", "-"]),
)
def test_every_quantity_is_its_exact_value_rounded_away_from_zero(
    whole: int, fraction: str, suffix: str, sign: str
) -> None:
    text = f"{sign}{whole}.{fraction}{suffix}"
    exact = (whole + (Fraction(int(fraction), 10 ** len(fraction)) if fraction else 0)) * SUFFIXES[suffix]
    exact = -exact if sign == "-" else exact
    for parse, factor in ((parse_milli, 1000), (parse_units, 1)):
        expected = away_from_zero(exact * factor)
        if abs(expected) > LARGEST:
            with pytest.raises(QuantityError):
                parse(text)
        else:
            assert parse(text) == expected


@given(st.integers(-(10**6), 10**6), st.integers(0, 6))
def test_a_float_of_few_digits_has_no_binary_error(number: int, places: int) -> None:
    value = number / 10**places
    assert parse_milli(value) == away_from_zero(Fraction(number, 10**places) * 1000)


@given(st.text(max_size=12) | st.text("0123456789.eEmKi+-", max_size=12))
def test_any_text_is_an_integer_or_a_quantity_error(text: str) -> None:
    try:
        assert type(parse_milli(text)) is int
    except QuantityError:
        with pytest.raises(QuantityError, match=re.escape(f'"{text}x" is not a quantity')):
            parse_units(text + "x")


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("cpu", Unit.MILLI),
        ("memory", Unit.BYTES),
        ("ephemeral-storage", Unit.BYTES),
        ("hugepages-1Gi", Unit.BYTES),
        ("pods", Unit.COUNT),
        ("count/jobs.batch", Unit.COUNT),
        ("attachable-volumes-aws-ebs", Unit.COUNT),
        ("nvidia.com/gpu", Unit.MILLI),
        ("requests.cpu", Unit.MILLI),
        ("requests.memory", Unit.BYTES),
        ("limits.memory", Unit.BYTES),
        ("requests.storage", Unit.BYTES),
        ("gold.storageclass.storage.k8s.io/requests.storage", Unit.BYTES),
        ("requests.nvidia.com/gpu", Unit.MILLI),
    ],
)
def test_unit_of_a_resource(name: str, unit: Unit) -> None:
    assert unit_of(name) is unit


@pytest.mark.parametrize(
    ("name", "countable"),
    [
        ("cpu", True),
        ("pods", True),
        ("hugepages-2Mi", True),
        ("attachable-volumes-csi", True),
        ("nvidia.com/gpu", True),
        ("node.kubernetes.io/thing", True),
        ("requests.kubernetes.io/thing", True),
        ("count/pods", False),
        ("storage", False),
        ("gpu", False),
        ("requests.nvidia.com/gpu", False),
        ("a/b/c", False),
        ("UPPER.com/x", False),
        ("example.com/-x", False),
        ("example.com/" + "x" * 63, True),
        ("example.com/" + "x" * 64, False),
        ("x" * 245 + "/gpu", False),
    ],
)
def test_which_resources_take_part_in_scheduling(name: str, countable: bool) -> None:
    assert is_countable(name) is countable


def test_a_resource_list_becomes_integers_without_what_is_not_counted() -> None:
    resources: ResourceMap = {
        "cpu": "500m",
        "memory": "1Gi",
        "pods": 110,
        "nvidia.com/gpu": 2,
        "count/jobs": 3,
        "storage": "1Gi",
    }
    assert resource_amounts(resources) == {"cpu": 500, "memory": 2**30, "pods": 110, "nvidia.com/gpu": 2000}


def test_amounts_of_zero_are_kept() -> None:
    assert resource_amounts({"cpu": 0, "memory": "0Gi"}) == {"cpu": 0, "memory": 0}


def test_no_resource_list_is_an_empty_one() -> None:
    assert resource_amounts(None) == resource_amounts({}) == {}


def test_equal_resource_lists_share_one_read_only_result() -> None:
    first, second = resource_amounts({"cpu": "1"}), resource_amounts({"cpu": "1"})
    assert first is second
    with pytest.raises(TypeError):
        first["cpu"] = 2  # type: ignore[index]


@pytest.mark.parametrize(
    ("quantity", "message"),
    [
        ("12xyz", 'spec.overhead[cpu]: "12xyz" is not a quantity: use a number with'),
        ("-1", 'spec.overhead[cpu]: "-1" is negative: use 0 or more'),
    ],
)
def test_a_bad_amount_in_a_list_is_named_with_its_place(quantity: str, message: str) -> None:
    for _ in range(2):  # the second time from the cache
        with pytest.raises(QuantityError) as caught:
            resource_amounts({"memory": "1Gi", "cpu": quantity}, where="spec.overhead")
        assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("name", "number", "text"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 2000, "2"),
        ("cpu", -500, "-500m"),
        ("memory", 3 * 2**30, "3Gi"),
        ("memory", 1536 * 2**20, "1536Mi"),
        ("memory", 1000, "1000"),
        ("memory", 1024, "1Ki"),
        ("memory", -2048, "-2Ki"),
        ("memory", 0, "0"),
        ("pods", 110, "110"),
        ("nvidia.com/gpu", 4000, "4"),
        ("nvidia.com/gpu", 500, "500m"),
        ("cpu", 1499.5, "1500m"),
        ("cpu", 1499.4, "1499m"),
        ("cpu", 0.49999999999999994, "0"),
        ("cpu", -1.5, "-1m"),
    ],
)
def test_canonical_text_of_an_amount(name: str, number: int | float, text: str) -> None:
    assert format_amount(name, number) == text


@pytest.mark.parametrize("number", [float("inf"), float("nan")])
def test_infinite_amounts_have_no_text(number: float) -> None:
    with pytest.raises(QuantityError):
        format_amount("cpu", number)


@given(name=st.sampled_from(NAMES), number=amounts)
def test_text_of_an_amount_reads_back_to_it(name: str, number: int) -> None:
    assert amount(name, format_amount(name, number)) == number


@given(name=st.sampled_from(NAMES), number=amounts)
def test_canonical_text_stays_as_it_is(name: str, number: int) -> None:
    text = format_amount(name, number)
    assert format_amount(name, amount(name, text)) == text


@given(st.integers(1, LARGEST))
def test_no_larger_binary_suffix_divides_a_canonical_byte_amount(number: int) -> None:
    text = format_amount("memory", number)
    digits = text.rstrip("KMGTPEi")
    assert int(digits) % 1024 != 0 or text.endswith("Ei")


def test_resources_are_written_cpu_first_then_memory_then_by_name() -> None:
    texts = format_resources({"nvidia.com/gpu": 1000, "memory": 2**30, "pods": 3.0, "a.com/x": 1, "cpu": 250})
    assert list(texts.items()) == [
        ("cpu", "250m"),
        ("memory", "1Gi"),
        ("a.com/x", "1m"),
        ("nvidia.com/gpu", "1"),
        ("pods", "3"),
    ]
