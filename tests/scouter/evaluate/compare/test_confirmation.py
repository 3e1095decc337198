"""Asking again: which scenarios, and how often."""

from pathlib import Path
from typing import Final

import pytest

from scouter.evaluate.compare.attempts import Attempt, flipped
from scouter.evaluate.compare.candidates import wanted_for
from scouter.evaluate.results.confirmation import Confirmation

_CASES: Final = Path(__file__).parents[3] / "cases" / "asked_again.txt"
_PASSED: Final = {"+": True, "-": False, "?": None}


def rows(table: str) -> list[list[str]]:
    """The lines below a table's name, up to the next empty line."""
    text = _CASES.read_text(encoding="utf-8").split(f"\n{table}\n")[1].split("\n\n")[0]
    return [line.partition("#")[0].split() for line in text.splitlines()]


def attempts(signs: str) -> list[Attempt]:
    return [
        Attempt(scenario_id="s", attempt=at, passed=_PASSED[sign], is_errored=False)
        for at, sign in enumerate(signs.strip("."))
    ]


@pytest.mark.parametrize(("before", "now", "is_asked"), rows("candidates"))
def test_candidates(before: str, now: str, is_asked: str) -> None:
    found = flipped({"s": attempts(before)}, {"s": attempts(now)})
    assert found == (["s"] if is_asked == "yes" else [])


@pytest.mark.parametrize(("scenarios", "pass_rate", "wanted"), rows("wanted"))
def test_attempts_that_have_to_fail(scenarios: str, pass_rate: str, wanted: str) -> None:
    assert wanted_for(int(scenarios), float(pass_rate)) == int(wanted)


@pytest.mark.parametrize(
    ("asked", "passed", "is_broken"),
    [
        pytest.param(4, 0, True, id="all-failed"),
        pytest.param(3, 1, False, id="third-passed"),
        pytest.param(4, 1, False, id="last-passed"),
        pytest.param(3, 0, False, id="not-all-made"),
        pytest.param(0, 0, False, id="none-made"),
    ],
)
def test_broken(asked: int, passed: int, is_broken: bool) -> None:
    found = Confirmation(scenario_id="s", asked=asked, passed=passed, wanted=4)
    assert found.is_broken is is_broken
