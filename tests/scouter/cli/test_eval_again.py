"""Decisions of `scouter eval` where scenarios are asked again: words and exit codes."""

import json
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from tests.scouter.cli.conftest import Scouter
from tests.scouter.cli.test_asking_again import (
    ALL_WRONG,
    CHECK,
    JUDGED,
    RUN,
    messages,
    repeats,
    shop,
)

__all__ = ("shop",)  # the fixture

LIMIT = "fall of more than 13.9 points is ruled out"
"""The one-sided 95 % upper limit of 0 falls of 20 scenarios, 1 - 0.05 ** (1 / 20)."""


@pytest.fixture
def twenty(shop: Path, scouter: Scouter) -> Path:
    """Nineteen scenarios on Berlin and one on Paris, and a baseline in which all pass."""
    task = (
        "{task_type: Assertion, id: hours, context_path: response, operator: Contains, "
        "expected_value: ' to '}"
    )
    asks = [*(f"Berlin {number}?" for number in range(19)), "Paris?"]
    lines = [f"  - {{id: '{each}', initial_query: '{each}', tasks: [{task}]}}\n" for each in asks]
    (shop / "shop.yaml").write_text("scenarios:\n" + "".join(lines), encoding="utf-8")
    scouter(*RUN, "--save", "b.json", "--quiet")
    messages(shop)
    return shop


def test_broken_for_good_is_a_regression(twenty: Path, scouter: Scouter) -> None:
    """One of twenty, which no test of rates could tell from chance."""
    files = ("--json", "r.json", "--junit", "r.xml", "--markdown", "r.md", "--html", "r.html")
    done = scouter(*CHECK, *files, WRONG=ALL_WRONG)
    assert done.returncode == 1, done.stdout
    assert messages(twenty) == {"berlin": 19, "paris": 8}
    assert "Regressed." in done.stdout
    assert "Paris?" in done.stdout.split("Regressed.")[1]
    report = json.loads((twenty / "r.json").read_text(encoding="utf-8"))
    assert report["exit_code"] == 1
    assert any("'Paris?' is broken" in reason for reason in report["reasons"])
    root = Xml.parse(twenty / "r.xml").getroot()  # noqa: S314 our own file
    assert any(each.get("value") == "regressed" for each in root.iter("property"))
    assert (twenty / "r.md").read_text(encoding="utf-8").startswith("## ❌ Regressed")
    assert "<title>Regressed" in (twenty / "r.html").read_text(encoding="utf-8")


def test_an_unlucky_one_is_cleared(twenty: Path, scouter: Scouter) -> None:
    done = scouter(*CHECK, WRONG="paris:1")
    assert done.returncode == 0, done.stdout
    assert messages(twenty) == {"berlin": 19, "paris": 2}
    assert "No regression seen." in done.stdout
    assert "is ruled out" in done.stdout


def test_nothing_changed(twenty: Path, scouter: Scouter) -> None:
    done = scouter(*CHECK)
    assert done.returncode == 0, done.stdout
    assert messages(twenty) == {"berlin": 19, "paris": 1}
    assert "No regression seen." in done.stdout
    assert LIMIT in done.stdout


def test_nothing_runs_again_and_a_flip_alone_stops_nothing(twenty: Path, scouter: Scouter) -> None:
    done = scouter(*CHECK, "--confirm", "0", WRONG=ALL_WRONG)
    assert done.returncode == 0, done.stdout
    assert "No regression seen." in done.stdout


def test_half_of_two_scenarios_cleared_is_no_doubt(shop: Path, scouter: Scouter) -> None:
    """A fall of 50 points: nobody can tell, unless the scenario was repeated."""
    done = scouter(*CHECK, "--confirm", "0", WRONG="paris:1")
    assert done.returncode == 3, done.stdout
    assert "Inconclusive." in done.stdout
    messages(shop)
    done = scouter(*CHECK, WRONG="paris:1")
    assert done.returncode == 0, done.stdout
    assert "No regression seen." in done.stdout


def test_interleaved_versions(twenty: Path, scouter: Scouter) -> None:
    done = scouter(*RUN, "--interleave", "again:earlier", WRONG=ALL_WRONG)
    assert done.returncode == 1, done.stdout
    assert "Regressed." in done.stdout
    assert messages(twenty) == {"berlin": 19, "paris": 8, "earlier": 20}
    done = scouter(*RUN, "--interleave", "again:earlier")
    assert done.returncode == 0, done.stdout
    assert LIMIT in done.stdout


def test_the_exit_code_after_ctrl_c_is_that_of_shells(twenty: Path, scouter: Scouter) -> None:
    """The comparison makes no difference: somebody stopped the run."""
    done = scouter(*CHECK, WRONG=ALL_WRONG, SIGNAL_AT="21", SIGNAL="2")
    assert done.returncode == 130, done.stdout
    assert "not confirmed" in done.stdout


def test_what_nobody_could_judge_clears_nothing(shop: Path, scouter: Scouter) -> None:
    """The only scenario fails, and the budget is spent by the first further attempt."""
    (shop / "shop.yaml").write_text(JUDGED, encoding="utf-8")
    judge = ("--judge", "again:judge", "--judge-cache", "none")
    scouter(*RUN, *judge, "--save", "j.json")
    messages(shop)
    check = (*RUN, *judge, "--baseline", "j.json", "--save", "r.json")
    done = scouter(*check, WRONG=ALL_WRONG, SPENT_AT="3")
    assert repeats(shop) == {"paris": (0, 0)}
    assert "as the budget left too little" in done.stdout
    assert done.returncode == 1, done.stdout
    assert "Not judged." in done.stdout


def test_a_saved_run_is_compared_with_another_baseline(shop: Path, scouter: Scouter) -> None:
    """Paris failed there as well, so that it did not pass before and fail now."""
    scouter(*RUN, "--save", "worse.json", WRONG=ALL_WRONG)
    messages(shop)
    scouter(*CHECK, "--save", "r.json", WRONG=ALL_WRONG)
    assert repeats(shop) == {"paris": (4, 0)}
    assert scouter("compare", "b.json", "r.json").returncode == 1
    done = scouter("compare", "worse.json", "r.json")
    assert done.returncode == 0, done.stdout
