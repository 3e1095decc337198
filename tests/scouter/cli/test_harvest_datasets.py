"""`scouter scenarios harvest --format watsonx`: stored records that passed become datasets."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scouter.client.models.evaluations import Evaluation
from scouter.client.models.records import Record
from scouter.formats.watsonx.recorded import read_dataset
from tests.scouter.cli.conftest import Scouter
from tests.support.answers import whole
from tests.support.served import Say, Script, run_script

AT = "2026-01-02T03:04:05Z"
ORDER = ("scenarios", "harvest", "sets", "--format", "watsonx")


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    with run_script() as running:
        monkeypatch.setenv("SCOUTER_URL", running.url)
        monkeypatch.delenv("SCOUTER_AUTH_TOKEN", raising=False)
        yield running


def verdict(uid: str, outcome: str) -> dict[str, Any]:
    return whole(Evaluation, **{
        "evaluation_id": f"e{uid}", "scope": "record", "record_id": "", "uid": uid, "profile": "a",
        "profile_version": "d", "revision": 1, "outcome": outcome, "completeness": "complete",
        "created_at": AT, "evaluated_at": AT, "tasks": [],
    })  # fmt: skip


def record(uid: str) -> dict[str, Any]:
    return whole(Record, **{
        "uid": uid, "record_id": "", "session_id": "", "trace_id": None, "profile": "a",
        "state": "evaluated", "created_at": AT, "received_at": AT, "evaluations": [],
        "context": {"question": "Where to?", "answer": f"To Lyon, {uid}."},
    })  # fmt: skip


def test_only_what_passed_is_an_example(project: Path, script: Script, scouter: Scouter) -> None:
    listed = [verdict("u1", "passed"), verdict("u2", "failed")]
    script.answers = [
        Say(body={"items": listed, "next_cursor": None}), Say(body=record("u1")),
        Say(body={"items": [], "next_cursor": None}), Say(body=record("u2")),
    ]  # fmt: skip
    done = scouter(*ORDER)
    assert done.returncode == 0, done.stderr
    assert "wrote sets: 1 datasets" in done.stdout
    assert "left out 1 records" in done.stderr
    (file,) = (project / "sets").iterdir()
    case = read_dataset(file)
    assert (case.name, case.starting_sentence, case.user_prompts) == ("u1", "Where to?", ())
    assert [goal.response for goal in case.goals] == ["To Lyon, u1."]


def test_datasets_as_the_original_records_them(
    project: Path, script: Script, scouter: Scouter
) -> None:
    script.answers = [
        Say(body={"items": [verdict("u1", "passed")], "next_cursor": None}), Say(body=record("u1")),
        Say(body={"items": [], "next_cursor": None}),
    ]  # fmt: skip
    done = scouter(*ORDER, "--compat", "wxo-1.6.9")
    assert done.returncode == 0, done.stderr
    case = read_dataset(project / "sets" / "u1.json")
    assert (case.story, case.user_prompts, dict(case.edges)) == ("N/A", None, {"summarize": ()})
    alone = scouter("scenarios", "harvest", "a.yaml", "--compat", "wxo-1.6.9")
    assert (alone.returncode, "belongs to --format watsonx" in alone.stderr) == (2, True)


def test_failures_are_no_examples(script: Script, scouter: Scouter) -> None:
    done = scouter(*ORDER, "--failed")
    assert done.returncode == 2
    assert "what failed is no example" in done.stderr
