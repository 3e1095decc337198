"""Values as the page writes them."""

import pytest

from collector.web.render import indented, took


@pytest.mark.parametrize(
    ("milliseconds", "words"),
    [
        (0, "0 µs"),
        (0.5, "500 µs"),
        (1, "1 ms"),
        (999, "999 ms"),
        (3_000, "3.0 s"),
        (119_900, "119.9 s"),
        (120_000, "2.0 min"),
        (71_616_000, "19.9 h"),
        (172_800_000, "2.0 d"),
        (1e12, "11574.1 d"),
    ],
)
def test_a_length_of_time_is_said_in_a_fit_unit(milliseconds: float, words: str) -> None:
    assert took(milliseconds) == words


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('{"a":1.50,"b":[{"c":"x, {y}"},[]]}', """{
  "a": 1.50,
  "b": [
    {
      "c": "x, {y}"
    },
    []
  ]
}"""),
        ("[]", "[]"),
        ('{"a": 1', '{"a": 1'),
        ("[a](b)", "[a](b)"),
        ("[" * 31 + "]" * 31, "[" * 31 + "]" * 31),
    ],
)  # fmt: skip
def test_json_is_indented_and_nothing_else_is(text: str, lines: str) -> None:
    assert indented(text) == lines
