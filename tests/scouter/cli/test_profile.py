"""`scouter profile`: what was healthy becomes what a collector checks against, and the schema."""

import json
from pathlib import Path

import pytest

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.model.record import EvalRecord
from tests.scouter.cli.conftest import Scouter

TASK = AssertionTask("right", "answer", 42, ComparisonOperator.Equals)


@pytest.fixture
def saved(project: Path) -> Path:
    """300 records of which 270 passed."""
    answers = ([42] * 9 + [41]) * 30
    records = [EvalRecord({"answer": answer}) for answer in answers]
    EvalDataset(records, [TASK]).evaluate().save(project / "run.json")
    AgentEvalProfile([TASK], alias="desk").save_to_json(project / "desk.json")
    return project / "run.json"


def test_a_saved_run_becomes_healthy(scouter: Scouter, saved: Path) -> None:
    """At 300 records the lower bound is 84.7 %, five points below 90 % are 85 %."""
    done = scouter("profile", "healthy", "desk.json", saved, "--save", "out.json")
    assert (done.returncode, done.stderr) == (0, "")
    first = done.stdout.splitlines()[0]
    assert first.startswith(
        "(record): the saved run run.json (90.0%, of which 5.0% less is healthy"
    )
    assert first.endswith("smaller ones by 1,000")
    found = AgentEvalProfile.from_file("out.json")
    assert found.digest == AgentEvalProfile.from_file("desk.json").digest
    healthy = found.config.healthy
    assert healthy is not None
    assert healthy.run is not None
    assert healthy.run.tasks["right"] == {0: 30, 1_000: 270}


def test_results_of_other_tasks_are_refused(scouter: Scouter, saved: Path) -> None:
    other = AssertionTask("other", "answer", 42, ComparisonOperator.Equals)
    AgentEvalProfile([other], alias="desk").save_to_json("desk.json")
    done = scouter("profile", "healthy", "desk.json", saved, "--save", "out.json")
    assert done.returncode == 2
    assert "config.healthy names 'right', which no task is called" in done.stderr
    assert not Path("out.json").exists()


def test_the_schema_is_that_of_profiles(scouter: Scouter) -> None:
    printed = scouter("profile", "schema")
    assert printed.returncode == 0, printed.stderr
    assert json.loads(printed.stdout) == AgentEvalProfile.model_json_schema()
