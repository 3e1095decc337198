"""`scouter canary` against a scripted collector."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.scouter.cli.conftest import Scouter
from tests.support.served import Say, Script, run_script


def answer(decision: str) -> dict[str, Any]:
    one = {"version": "1", "conversations": 1200, "records": 4000, "pass_rate": 0.95,
           "error_rate": 0.0, "result_rate": 0.75}  # fmt: skip
    return {
        "decision": decision, "reason": "so it is", "profile": "bot", "profile_version": "d" * 64,
        "task": "", "stable": one, "candidate": {**one, "version": "2", "pass_rate": None},
        "pass_rate": {"lower": -0.021, "upper": 0.013},
        "decided_rate": {"lower": -0.01, "upper": 0.01},
        "result_rate": {"lower": -0.3, "upper": -0.06}, "is_cut": False,
        "margin": 0.05, "alpha": 0.05, "split_chance": 0.25,
    }  # fmt: skip


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    with run_script() as running:
        monkeypatch.setenv("SCOUTER_URL", running.url)
        monkeypatch.delenv("SCOUTER_AUTH_TOKEN", raising=False)
        yield running


@pytest.mark.parametrize(("decision", "code"), [("promote", 0), ("roll_back", 1), ("hold", 3)])
def test_the_exit_code_is_the_decision(
    script: Script, scouter: Scouter, decision: str, code: int
) -> None:
    script.answers = [Say(body=answer(decision)), Say(body=answer(decision))]
    done = scouter("canary", "--stable", "1", "--candidate", "2")
    assert (done.returncode, done.stderr) == (code, "")
    assert done.stdout.startswith(f"{decision.replace('_', ' ')}: so it is\n")
    assert "pass rate, candidate minus stable: -2.1 to +1.3 points with 0.95 at" in done.stdout
    assert "1,200" in done.stdout
    assert "75.0%" in done.stdout
    assert "share with a result, the same:     -30.0 to -6.0 points" in done.stdout
    found = scouter("canary", "--stable", "1", "--candidate", "2", "--json")
    assert (found.returncode, json.loads(found.stdout)) == (code, answer(decision))


def test_the_plan_is_sent(script: Script, scouter: Scouter) -> None:
    script.answers = [Say(body=answer("hold"))]
    scouter(
        "canary", "--stable", "1", "--candidate", "2", "--margin", "0.02", "--share", "0.1",
        "--alpha", "0.01", "--task", "right", "--profile", "bot",
    )  # fmt: skip
    (request,) = script.asked
    for part in ("stable=1", "candidate=2", "margin=0.02", "share=0.1", "alpha=0.01", "task=right",
                 "profile=bot"):  # fmt: skip
        assert part in request.path


def test_a_version_is_requested(scouter: Scouter) -> None:
    assert scouter("canary", "--stable", "1").returncode == 2
