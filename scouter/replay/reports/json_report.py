"""A release check as one JSON file for programs: decision, gates, rates, comparison, results."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from scouter.evaluate.api.comparison import ScenarioComparisonResults
from scouter.evaluate.compare.gate_checks import count_checks
from scouter.evaluate.compare.gate_counts import scenarios_passed
from scouter.evaluate.files.versioned import write_whole
from scouter.evaluate.results.judge_rate import JudgeRate
from scouter.model.json_value import plain_text
from scouter.replay.reports.report import SHOWN, Report
from scouter.replay.reports.view import RateView, TaskView

SCHEMA_VERSION: Final = 2
"""Raised when a reader of the old number would misread the new form."""


def write(path: str | Path, report: Report) -> None:
    """Write the report, all of it or nothing.

    Raises:
        OSError: The file cannot be written.
    """
    write_whole(Path(path), plain_text(render(report)) + "\n")


def render(report: Report) -> str:
    """Make the JSON text."""
    decision = report.decision
    body: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "changes": _changes(report.comparison),
        "decision": str(decision.word),
        "headline": decision.headline,
        "reasons": decision.reasons,
        "notes": report.notes,
        "advice": decision.advice,
        "exit_code": decision.exit_code,
        "policy": asdict(report.policy),
        "examples": [asdict(example) for example in report.examples[:SHOWN]],
        "provenance": report.results.provenance.model_dump(mode="json", exclude={"profile_tasks"}),
        "scenarios_passed": _rate(RateView(*scenarios_passed(report.results))),
        "checks": _rate(RateView(*count_checks(report.results))),
        "gates": [asdict(gate) for gate in report.gate_checks],
        "lost": [
            {**each.model_dump(), "kind": each.kind, "text": each.text, "remedy": each.remedy}
            for each in report.results.lost
        ],
        "judges": None if report.judges is None else report.judges.to_json(),
        "asked_again": None if report.reasked is None else report.reasked.to_json(),
        "judge_rates": [_judge_rate(each) for each in report.results.judge_rates],
        "tasks": [_task(task) for task in report.view.tasks],
        "scenarios": [
            {
                "scenario_id": scenario.scenario_id,
                "outcome": str(scenario.outcome),
                "change": scenario.change,
                "attempts": len(scenario.attempts),
                "passed": scenario.passed,
                "is_flaky": scenario.is_flaky,
            }
            for scenario in report.view.scenarios
        ],
        "flips": [{**each.model_dump(), "text": each.text} for each in report.flips],
        "comparison": None if report.comparison is None else report.comparison.model_dump(),
        "results": report.results.model_dump(),
    }
    return json.dumps(body, ensure_ascii=False, indent=1)


def _changes(comparison: ScenarioComparisonResults | None) -> list[dict[str, Any]]:
    found = () if comparison is None else comparison.changes
    return [{**each.model_dump(mode="json"), "text": each.text} for each in found]


def _judge_rate(found: JudgeRate) -> dict[str, Any]:
    own = {"judge_rate": found.judge_rate, "judge_interval": found.judge_interval}
    return {**found.model_dump(mode="json"), "alias": found.alias or None, **own}


def _task(task: TaskView) -> dict[str, Any]:
    return {
        "alias": task.alias or None,
        "task_id": task.task_id,
        "now": _rate(task.now),
        "baseline": _rate(task.baseline) if task.baseline else None,
        "difference": task.difference,
        "difference_interval": task.difference_interval,
        "is_cleared": task.is_cleared,
        "regressed": task.regressed,
        "reason": task.reason or None,
    }


def _rate(rate: RateView) -> dict[str, Any]:
    return {**asdict(rate), "rate": rate.rate, "interval": rate.interval}
