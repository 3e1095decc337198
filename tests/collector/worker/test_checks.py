"""Checks in Python in the collector: entry points of what is installed beside it."""

from pathlib import Path

import pytest

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.engine.checks import use_checks
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.function import CodeTask
from tests.collector.worker.process_support import Process
from tests.contracts.store_data import record

CHECKS = """
def even(context, spans):
    return context["answer"] % 2 == 0, "divided by two"


def broken(context, spans):
    raise RuntimeError("no luck")
"""


def test_a_check_of_an_installed_package_runs_on_live_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its fault is that of its own task, and is stored with its message."""
    (tmp_path / "live_checks.py").write_text(CHECKS, encoding="utf-8")
    info = tmp_path / "live-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: live\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[scouter.checks]\neven = live_checks:even\nbroken = live_checks:broken\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    use_checks("")  # a process that starts now has the path
    tasks = [
        CodeTask("even", "even"),
        CodeTask("broken", "broken"),
        AssertionTask("known", "answer", True, "IsNumeric"),
    ]
    process = Process(tmp_path / "data", AgentEvalProfile(tasks, alias="answers"))
    try:
        rows = [
            record(f"u{n}", profile_uid=process.profile_uid, context={"answer": n}) for n in (1, 2)
        ]
        process.records(*rows)
        process.after(1)
        found = process.evaluations()
    finally:
        process.last.close()
        use_checks("")

    results = {uid: {task.task_id: task for task in row.tasks} for uid, row in found.items()}
    assert [results[uid]["even"].outcome for uid in ("u1", "u2")] == ["failed", "passed"]
    assert [found[uid].outcome for uid in ("u1", "u2")] == [Outcome.FAILED, Outcome.ERRORED]
    assert (results["u1"]["broken"].outcome, results["u1"]["broken"].reason) == ("errored", "check")
    assert "RuntimeError: no luck" in results["u1"]["broken"].message
    assert results["u2"]["known"].outcome is Outcome.PASSED
