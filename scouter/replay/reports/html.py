"""A release check as one HTML file that needs nothing else: no network, no script."""

import base64
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from pydantic import JsonValue

from scouter.evaluate.compare.gate_checks import ALL_CHECKS, MEAN_RATE, count_checks
from scouter.evaluate.compare.gate_counts import scenarios_passed
from scouter.evaluate.files.versioned import write_whole
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.judge_rate import judge_text
from scouter.model.json_value import plain_text
from scouter.model.visible import some_of
from scouter.replay.reports.confirmations import flaky_table
from scouter.replay.reports.decision import Word
from scouter.replay.reports.html_scenario import Budget, scenario_rows
from scouter.replay.reports.report import SHOWN, Report
from scouter.replay.reports.texts import (
    clip,
    counted,
    duration,
    gate_cells,
    interval,
    moment,
    percent,
    points,
)
from scouter.replay.reports.view import TaskView

_REASONS: Final = 6
"""Reasons that are seen at once; others are folded away."""
_REASONS_IN_ALL: Final = 100
_REASON: Final = 300
_CHANGES: Final = 20
_MISSING: Final = 50
_RELIABILITY: Final = 200
_TONES: Final = {
    Word.REGRESSED: "bad",
    Word.BELOW_GATE: "bad",
    Word.ERRORED: "bad",
    Word.LOST: "bad",
    Word.NOT_JUDGED: "bad",
    Word.UNJUDGED: "bad",
    Word.INCONCLUSIVE: "warn",
    Word.RECORDED: "plain",
}
_OWN_TASKS: Final = "Scenarios' own tasks"

Row = dict[str, Any]
"""One line of a table, by the names that the template uses."""


def _page(report: Report) -> Row:
    """Everything that the template sets; what needs no work is read from the report there."""
    view = report.view
    shown = report.examples[:SHOWN]
    why = [*report.why(shown), *report.notes]
    reasons = [clip(reason, _REASON) for reason in why[:_REASONS_IN_ALL]]
    return {
        "report": report,
        "comparison": report.comparison,
        "word": report.decision.word.capitalize(),
        "tone": _TONES.get(report.decision.word, "good"),
        "changes": [clip(change, _REASON) for change in report.changes[:_CHANGES]],
        "changes_left_out": max(len(report.changes) - _CHANGES, 0),
        "reasons": reasons[:_REASONS],
        "more_reasons": reasons[_REASONS:],
        "reasons_left_out": len(why) - len(reasons),
        "examples": shown,
        "figures": list(_figures(report)),
        "task_groups": _task_groups(view.tasks),
        "judges": [judge_text(rate) for rate in report.results.judge_rates],
        "flaky": flaky_table(report.results, report.flips, _RELIABILITY),
        "missing": some_of(view.missing, _MISSING),
        "scenarios": scenario_rows(view.by_urgency, Budget()),
        "provenance": list(_provenance(report)),
        "counted": counted,
        "gate_cells": gate_cells,
    }


def _figures(report: Report) -> Iterable[Row]:
    metrics, scenarios = report.results.metrics, report.view.scenarios
    passed, of = scenarios_passed(report.results)
    if of:
        yield _figure("Scenarios passed", f"{passed:,}", f"of {of:,}")
    passed, total = count_checks(report.results)
    rate = percent(passed / total if total else None)
    yield _figure(ALL_CHECKS.capitalize(), rate, f"{passed:,} of {total:,}")
    if total:
        yield _figure(MEAN_RATE.capitalize(), percent(metrics.overall_pass_rate))
    if report.comparison is not None:
        limit = report.comparison.ruled_out
        if limit is not None and not report.decision.is_stopped:
            yield _figure("Largest fall not ruled out", f"{limit:.1f}", "points")
        changes = Counter(scenario.change for scenario in scenarios)
        better = f"{changes['improved']:,} better" if changes["improved"] else ""
        yield _figure("Scenarios worse", f"{changes['regressed']:,}", better)
    errored = sum(scenario.outcome is Outcome.ERRORED for scenario in scenarios)
    if errored:
        yield _figure("Scenarios errored", f"{errored:,}")
    found = report.results.dataset_results.values()
    records = sum(each.record_count for each in found)
    if records:
        sessions = sum(map(len, found)) - records
        yield _figure("Records", f"{records:,}", f"and {sessions:,} sessions" if sessions else "")
    if report.results.repeats > 1:
        flaky = sum(scenario.is_flaky for scenario in scenarios)
        yield _figure("Attempts each", str(report.results.repeats))
        yield _figure("Flaky scenarios", f"{flaky:,}", f"of {len(scenarios):,}")
    if (judges := report.judges) is not None:
        used = judges.usage
        cost = "" if used.cost_usd is None else f", ${used.cost_usd:,.4f}"
        if used.unpriced_calls:
            cost += f", cost of {used.unpriced_calls:,} not known"
        yield _figure("Judge calls", f"{used.calls:,}", f"{used.cached:,} cached{cost}")
        if judges.over_budget:
            yield _figure("Skipped for budget", f"{judges.over_budget:,}")
    origin = report.results.provenance
    if origin.ended_ns > origin.started_ns:
        yield _figure("Took", duration(origin.ended_ns - origin.started_ns))


def _figure(label: str, value: str, beside: str = "") -> Row:
    return {"label": label, "value": value, "beside": beside}


def _task_groups(tasks: Sequence[TaskView]) -> Mapping[str, Sequence[Row]]:
    groups: dict[str, list[Row]] = {}
    for task in tasks:
        groups.setdefault(task.alias or _OWN_TASKS, []).append(_task(task))
    return groups


def _task(task: TaskView) -> Row:
    bounds = task.difference_interval
    return {
        "task_id": task.task_id,
        "now": task.now.text,
        "baseline": "–" if task.baseline is None else task.baseline.text,
        "interval": interval(task.now.interval) if task.now.total and task.has_interval else "",
        "drawn": (task.now, task.baseline) if task.has_interval else (),
        "tone": "bad" if task.regressed else "plain",
        "difference": points(task.difference),
        "around": f"{points(bounds[0])} to {points(bounds[1])}" if bounds else "",
        "word": task.word,
        "reason": clip(task.reason, 600),
    }


def _provenance(report: Report) -> Iterable[Row]:
    origin = report.results.provenance
    digests = sorted(origin.profile_digests.items())
    profiles = ", ".join(f"{name} {digest[:12]}" for name, digest in digests)
    rows: list[tuple[str, JsonValue]] = [
        ("Started", moment(origin.started_ns)),
        ("Ended", moment(origin.ended_ns)),
        ("Collection", origin.collection_id),
        ("Profiles", profiles),
        ("Git revision", origin.git_revision),
        ("Scouter", origin.package_version),
        ("Python", origin.python_version),
        ("Scenarios", counted(len(report.view.scenarios), "scenario")),
        ("Stops a release", _policy(report)),
    ]
    return [{"label": label, "value": value} for label, value in rows if value]


def _policy(report: Report) -> str:
    parts: list[str] = []
    if report.comparison is not None:
        parts.append("a fall that is not chance, a broken scenario, anything that is gone")
        if report.policy.require_ruled_out is not None:
            parts.append(
                f"a fall of more than {report.policy.require_ruled_out:g} points that is not "
                "ruled out"
            )
    if report.gate_checks:
        parts.append("a gate that is not met")
    parts.append("not: errors" if report.policy.allow_errors else "any error")
    parts.append("not: what was lost" if report.policy.allow_lost else "anything that was lost")
    budget = "a judge task without a call for want of money"
    parts.append(f"not: {budget}" if report.policy.allow_unjudged else budget)
    return "; ".join(parts)


_TEMPLATE: Final = "report.html.j2"


def write(path: str | Path, report: Report) -> None:
    """Write the report, all of it or nothing.

    Raises:
        OSError: The file cannot be written.
    """
    write_whole(Path(path), render(report))


def render(report: Report) -> str:
    """Make the HTML text.

    Cost: linear in scenarios and checks; long values, many spans and many records are cut, and the
        text says so.
    """
    text = _environment().get_template(_TEMPLATE).render({**_page(report), **_assets()})
    return plain_text(text.replace("\x00", "\ufffd"))


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("scouter.replay", "reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


@cache
def stylesheet() -> Markup:
    """The style that all HTML reports share."""
    css = (Path(__file__).parent / "report.css").read_text(encoding="utf-8")
    return Markup(css)  # noqa: S704 our own file


@cache
def _assets() -> Mapping[str, Markup | str]:
    """The style and the script of this package, and the digest that lets that script run."""
    script = (Path(__file__).parent / "report.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return {
        "css": stylesheet(),
        "script": Markup(script),  # noqa: S704 our own file
        "script_hash": f"sha256-{digest}",
    }
