"""`scouter compare A.eval B.eval`: samples are paired by id, epochs are attempts."""

import json
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from scouter.formats.exports.inspect_runs import runs_of
from tests.scouter.cli.conftest import Scouter


def sample(number: int, value: object, *, epoch: int = 1, scorer: str = "match") -> dict[str, Any]:
    return {
        "id": f"q{number}",
        "epoch": epoch,
        "input": f"Question {number}?",
        "output": {"completion": "An answer."},
        "scores": {scorer: {"value": value}},
    }


def log(path: Path, samples: Iterable[dict[str, Any]]) -> Path:
    """A log as Inspect writes it: a zip with a header and a file for each sample."""
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(
            "header.json", json.dumps({"version": 2, "eval": {"task": "t", "model": "m"}})
        )
        for each in samples:
            name = f"samples/{each.get('id')}_epoch_{each.get('epoch')}.json"
            file.writestr(name, json.dumps(each))
    return path


@pytest.mark.parametrize(
    ("fallen", "code", "said"),
    [
        pytest.param(0, 0, "No regression seen", id="equal"),
        # mid-p of 3 to 0 is 1/16 > 0.035, and 15 of 100 points are no large fall
        pytest.param(3, 0, "No regression seen", id="chance"),
        # mid-p of 8 to 0 is 1/512
        pytest.param(8, 1, "Regressed", id="worse"),
    ],
)
def test_correct_and_incorrect(
    fallen: int, code: int, said: str, tmp_path: Path, scouter: Scouter
) -> None:
    """Each letter is a pass or a failure; twenty samples in both logs."""
    before = log(tmp_path / "a.eval", (sample(at, "C") for at in range(20)))
    after = log(tmp_path / "b.eval", (sample(at, "I" if at < fallen else "C") for at in range(20)))
    done = scouter("compare", before, after)
    assert (done.returncode, done.stderr) == (code, ""), done.stdout
    assert said in done.stdout


def test_numbers_are_scores(tmp_path: Path) -> None:
    """A scale has no threshold: all pass, and the means 0.8 and 0.4 are compared."""
    logs = [
        log(tmp_path / f"{value}.eval", (sample(at, value, scorer="rating") for at in range(20)))
        for value in (0.8, 0.4)
    ]
    before, after = runs_of(*logs)
    assert before.metrics.overall_pass_rate == after.metrics.overall_pass_rate == 1
    comparison = after.compare_to(before)
    assert (comparison.exit_code, comparison.decision) == (1, "regressed")


def test_a_missing_score_is_no_pass(tmp_path: Path) -> None:
    """Epochs are attempts; a sample that died, or has no score, is errored."""
    died = {"id": "q1", "epoch": 1, "input": "Question 1?", "error": {"message": "out of memory"}}
    other = sample(2, "C", scorer="other")
    path = log(
        tmp_path / "a.eval", [sample(0, "C"), sample(0, "I", epoch=2), died, other, {"epoch": 1}]
    )
    [run] = runs_of(path)
    assert run.repeats == 2
    found = {
        (each.scenario_id, each.attempt): (each.passed, each.error_line)
        for each in run.scenario_results
    }
    assert found[("q0", 0)][0] is False  # the score of another scorer is missing
    assert "out of memory" in found[("q1", 0)][1]
    assert [each.count for each in run.lost] == [1]


def test_what_is_no_log(tmp_path: Path, scouter: Scouter) -> None:
    good, other = log(tmp_path / "a.eval", [sample(0, "C")]), tmp_path / "b.eval"
    with zipfile.ZipFile(other, "w") as file:
        file.writestr("x.txt", "x")
    done = scouter("compare", good, other)
    assert done.returncode == 2
    assert "it holds x.txt; expected a log of Inspect, with header.json" in done.stderr
    log(other, [])
    assert "the log has no samples" in scouter("compare", good, other).stderr
