"""A release check as one JSON file for programs: decision, gates, rates, comparison, results."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from scouter.evaluate.api.comparison import ScenarioComparisonResults
from scouter.evaluate.compare.gate_checks import count_checks
from scouter.evaluate.compare.gate_counts import scenarios_passed
from scouter.evaluate.files.versioned import write_whole
from scouter.evaluate.results.judge_rate import JudgeRate
from scouter.evaluate.results.run import Lost
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
    passed, total = count_checks(report.results)
    body: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "changes": _changes(report.comparison),
        "decision": str(decision.word),
        "headline": decision.headline,
        "reasons": decision.reasons,
        "notes": report.notes,
        "advice": decision.advice,
        "exit_code": decision.exit_code,
        "policy": {
            "require_ruled_out": report.policy.require_ruled_out,
            "allow_errors": report.policy.allow_errors,
            "allow_lost": report.policy.allow_lost,
            "allow_unjudged": report.policy.allow_unjudged,
        },
        "examples": [asdict(example) for example in report.examples[:SHOWN]],
        "provenance": report.results.provenance.model_dump(mode="json", exclude={"profile_tasks"}),
        "scenarios_passed": _scenarios_passed(report),
        "checks": _rate(RateView(passed=passed, total=total)),
        "gates": [
            {
                "name": gate.name,
                "met": gate.met,
                "wanted": gate.wanted,
                "found": gate.found,
                "passed": gate.passed,
                "total": gate.total,
                "is_mean": gate.is_mean,
                "reason": gate.reason,
            }
            for gate in report.gate_checks
        ],
        "lost": [_lost(each) for each in report.results.lost],
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
        "comparison": _stored(report.comparison),
        "results": _stored(report.results),
    }
    return json.dumps(body, ensure_ascii=False, indent=1)


def _scenarios_passed(report: Report) -> dict[str, Any]:
    passed, total = scenarios_passed(report.results)
    return _rate(RateView(passed=passed, total=total))


def _stored(model: BaseModel | None) -> dict[str, Any] | None:
    return None if model is None else model.model_dump()


def _changes(comparison: ScenarioComparisonResults | None) -> list[dict[str, Any]]:
    found = () if comparison is None else comparison.changes
    return [{**each.model_dump(mode="json"), "text": each.text} for each in found]


def _lost(found: Lost) -> dict[str, Any]:
    return {
        "reason": str(found.reason),
        "kind": found.kind,
        "count": found.count,
        "text": found.text,
        "remedy": found.remedy,
    }


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
    return {
        "passed": rate.passed,
        "total": rate.total,
        "mean": rate.mean,
        "rate": rate.rate,
        "interval": rate.interval,
    }
