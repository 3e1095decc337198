"""Healthy rates that a profile states, and those that it takes from a saved run."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from scouter.drift.config import AgentEvalConfig, Healthy, SavedRun
from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError
from scouter.evaluate.api.saved import RECORDS, load_one
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.model.genai.setup import KINDS
from scouter.model.record import EvalRecord

TASK = AssertionTask("right", "answer", 42, ComparisonOperator.Equals)


def test_units_are_sessions_and_errors_are_in_none(tmp_path: Path) -> None:
    """Of three records alone one failed; an answer that is a text cannot be compared."""
    path = tmp_path / "run.json"
    records = [EvalRecord({"answer": answer}) for answer in (42, 41, 42)]
    records += [EvalRecord({}, session_id="errs")]
    records += [EvalRecord({"answer": answer}, session_id="s") for answer in (42, 41, 41)]
    EvalDataset(records, [TASK]).evaluate().save(path)
    run = SavedRun.of(load_one(path), RECORDS, "run.json")
    assert run.tasks == {"": {0: 1, 333: 1, 1_000: 2}, "right": {0: 1, 333: 1, 1_000: 2}}


def test_a_profile_keeps_what_it_states(tmp_path: Path) -> None:
    said = Healthy(rates={"right": 0.9}, run=SavedRun(tasks={"": {1_000: 3}}), version="stable")
    profile = AgentEvalProfile([TASK], AgentEvalConfig(healthy=said), "desk")
    path = profile.save_to_json(tmp_path / "desk.json")
    assert AgentEvalProfile.from_file(path).config.healthy == said
    assert profile.digest == AgentEvalProfile([TASK], alias="desk").digest
    assert (
        "healthy" not in json.loads(AgentEvalProfile([TASK], alias="d").model_dump_json())["config"]
    )


def test_slices_are_kinds_and_keys() -> None:
    """By default all tags, tools and models; they are no part of the digest."""
    assert AgentEvalConfig().slices == ("tag", "tool", "model")
    named = AgentEvalConfig(slices=("tag tier", "attribute http.route", "tool search"))
    profile = AgentEvalProfile([TASK], named, "desk")
    assert AgentEvalProfile.model_validate_json(profile.model_dump_json()).config.slices[0] == (
        "tag tier"
    )
    assert profile.digest == AgentEvalProfile([TASK], alias="desk").digest
    assert "slices" not in json.loads(AgentEvalConfig().model_dump_json())
    assert AgentEvalConfig(slices=()).slices == ()
    assert AgentEvalConfig(slices=KINDS).slices == KINDS


@pytest.mark.parametrize("slice_", ["tags", "attribute", "attribute ", "tag ", "", "tier=free"])
def test_what_is_no_slice_is_refused(slice_: str) -> None:
    with pytest.raises(ValidationError, match=r"slices\.0"):
        AgentEvalConfig(slices=(slice_,))


def test_a_task_that_the_profile_lacks_is_named() -> None:
    said = Healthy(rates={"wrong": 0.9})
    with pytest.raises(ConfigError, match=r"healthy names 'wrong', which no task is called.*right"):
        AgentEvalProfile([TASK], AgentEvalConfig(healthy=said), "desk")
