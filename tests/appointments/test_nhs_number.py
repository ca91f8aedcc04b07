"""NHS numbers: the check digit, and the search for a number where none may be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appointments.nhs_number import check_digit, contains_one, is_valid

nine_digits = st.integers(0, 10**9 - 1).map(lambda number: f"{number:09d}")


def test_check_digit_matches_nhs_example() -> None:
    assert check_digit("943476591") == 9  # 943 476 5919 is the example in NHS England's documentation
    assert is_valid("9434765919")


@given(nine_digits)
def test_at_most_one_last_digit_is_valid(nine: str) -> None:
    valid = [last for last in range(10) if is_valid(f"{nine}{last}")]
    assert valid == ([] if check_digit(nine) is None else [check_digit(nine)])


@given(nine_digits.filter(lambda nine: check_digit(nine) is not None), st.integers(0, 9), st.integers(1, 9))
def test_number_is_invalid_when_one_digit_is_wrong(nine: str, position: int, shift: int) -> None:
    number = f"{nine}{check_digit(nine)}"
    wrong = str((int(number[position]) + shift) % 10)
    assert not is_valid(number[:position] + wrong + number[position + 1 :])


@pytest.mark.parametrize("text", ["", "943476591", "94347659190", "943476591x", "943 476 5919", "٩434765919"])
def test_number_is_invalid_unless_it_has_ten_digits(text: str) -> None:
    assert not is_valid(text)


@pytest.mark.parametrize(
    "text",
    [
        *("9434765919", "943 476 5919", "943-476-5919", "943--476--5919", "a-943 - 476 - 5919", "943/476/5919"),
        *("patient:9434765919", "a.9434765919.b", "patient9434765919", "NHS9434765919", "9434765919T0800"),
        *("9434765919cancel", "943-476-5919book", "case9434765919", "made9434765919add2you", "x9434765919a"),
        *("a9434765919cancel", "created1a then case9434765919"),
    ],
)
def test_number_is_found_in_text(text: str) -> None:
    assert contains_one(text)


@pytest.mark.parametrize(
    "text",
    [
        *("9434765918", "a9434765919", "9434765919F", "94347659190", "19434765919cancel", "case94347659190"),
        *("00000000-0000-4000-8000-000000000001", "0e9434765919-face"),
        "req9434765919c04e1a7d4b2e4f0b9a6d5e",
        "7d9434765919c04e1a7d4b2e4f0b9a6d5ereq",
        "7d4b2e4f0b9a6d5e9434765919creq",
        "9434765919c04e1a7d4b2e4f0b9a6d5ereq",
    ],
)
def test_other_digits_are_not_found(text: str) -> None:
    assert not contains_one(text)
