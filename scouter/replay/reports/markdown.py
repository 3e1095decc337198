"""A release check as Markdown that fits into a comment on a pull request.

The decision comes first. Nothing in it becomes a link, a mention or a reference to an issue,
whatever an agent said.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from scouter.evaluate.files.versioned import write_whole
from scouter.evaluate.results.flips import Flips, Owner
from scouter.evaluate.results.judge_rate import COLUMNS, JudgeRate, judge_text
from scouter.model.json_value import plain_text
from scouter.replay.reports.confirmations import Reasked
from scouter.replay.reports.decision import Word
from scouter.replay.reports.report import FIELDS, SHOWN, Example, Report
from scouter.replay.reports.texts import (
    clip,
    counted,
    duration,
    gate_cells,
    interval,
    moment,
    points,
)
from scouter.replay.reports.view import BAD, ScenarioView, TaskView

MAX_CHARS: Final = 60_000
"""A comment on GitHub holds 65,536 characters."""

_REASONS: Final = 10
_TASKS: Final = 60
_SCENARIOS: Final = 20
_MESSAGE: Final = 160
_ID: Final = 80

_MARKS: Final = {Word.RECORDED: "📝", Word.INCONCLUSIVE: "❔"}

_ZERO_WIDTH: Final = "\u200b"
_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>()#+!|~&$^=-])")
_LINKING: Final = re.compile(r"(@|#|://|www\.)", re.IGNORECASE)
_LONG_HEX: Final = re.compile(r"([0-9a-f]{6})(?=[0-9a-f])", re.IGNORECASE)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]+")


def write(path: str | Path, report: Report) -> None:
    """Write the report, all of it or nothing.

    Raises:
        OSError: The file cannot be written.
    """
    write_whole(Path(path), render(report))


def render(report: Report) -> str:
    """Make the Markdown text, at most `MAX_CHARS` long."""
    parts = ["\n".join(part) for part in _parts(report)]
    text = ""
    for part in parts:
        if len(text) + len(part) > MAX_CHARS:
            return f"{text}… shortened: the whole did not fit into a comment.\n"
        text += f"{part}\n\n"
    return text.rstrip("\n") + "\n"


def _parts(report: Report) -> Iterator[list[str]]:
    yield from _first(report)
    yield from _tables(report)
    yield [_foot(report)]


def _first(report: Report) -> Iterator[list[str]]:
    """What everybody reads: the decision, what broke, and what to do next."""
    decision = report.decision
    mark = _MARKS.get(decision.word, "❌" if decision.is_stopped else "✅")
    yield [f"## {mark} {decision.word.capitalize()}"]
    if report.changes:
        yield ["**Changed since the baseline**\n", *_bullets(report.changes)]
    yield [escape(decision.headline)]
    shown = report.examples[:SHOWN]
    if reasons := [*report.why(shown), *report.notes]:
        yield [*_bullets(reasons)]
    if shown:
        yield [f"### {report.failures_title}"]
    for example in shown:
        yield [*_example(example)]
    if more := len(report.examples) - len(shown):
        yield [f"and {more} more"]
    if decision.advice:
        yield ["### Next"]
        yield [*_bullets(decision.advice)]


def _tables(report: Report) -> Iterator[list[str]]:
    if report.results.lost:
        yield ["**Lost**, and in no result:\n", *_bullets([e.text for e in report.results.lost])]
    if report.reasked is not None and report.reasked.rows:
        yield [*_again_rows(report.reasked)]
    if report.gate_checks:
        yield [*_gates(report)]
    if report.view.tasks:
        few = report.view.too_few
        yield [*_tasks(report.view.tasks), *([f"\n{escape(few)}"] if few else [])]
    if report.results.judge_rates:
        yield [*_judges(report.results.judge_rates)]
    changed = report.view.flips if report.comparison is not None else _not_passed(report)
    if changed:
        yield [*_scenarios(changed, is_change=report.comparison is not None)]
    flaky = [scenario for scenario in report.view.scenarios if scenario.is_flaky]
    if flaky:
        yield [_flaky(flaky, report.flips)]
    if notes := report.comparison.notes if report.comparison is not None else ():
        yield [f"> {escape(clip(note, 4 * _MESSAGE))}" for note in notes]


def _flaky(scenarios: Sequence[ScenarioView], flips: Sequence[Flips]) -> str:
    owners: dict[str, list[str]] = {}
    for each in flips:
        owners.setdefault(each.scenario_id, []).append(each.text)
    shown = ", ".join(
        f"{code(s.scenario_id, _ID)} ({s.passed} of {len(s.attempts)}, "
        f"{'; '.join(dict.fromkeys(owners.get(s.scenario_id, [str(Owner.UNKNOWN)])))})"
        for s in scenarios[:_SCENARIOS]
    )
    return f"**Flaky**, passed in some attempts only: {shown}{_more(scenarios)}"


def _example(example: Example) -> Iterator[str]:
    """Question, expected, got and trace of one scenario."""
    others = "".join(f", {code(name, _ID)}" for name in example.others[:SHOWN])
    more = f" and {len(example.others) - SHOWN} more" if len(example.others) > SHOWN else ""
    beside = f": {escape(text)}" if (text := example.why or example.passed) else ""
    yield f"**{code(example.scenario_id, _ID)}**{others}{more}{beside}\n"
    for name in FIELDS:
        if text := getattr(example, name):
            yield f"- {name}: {code(text, 2 * _MESSAGE)}"


def _bullets(reasons: Sequence[str]) -> Iterator[str]:
    for reason in reasons[:_REASONS]:
        yield f"- {escape(clip(reason, 3 * _MESSAGE))}"
    if len(reasons) > _REASONS:
        yield f"- and {len(reasons) - _REASONS} more"


def _again_rows(found: Reasked) -> Iterator[str]:
    yield "| Asked again | |"
    yield "| :-- | :-- |"
    for row in found.rows[:_SCENARIOS]:
        text = escape(clip(row.text, 3 * _MESSAGE))
        yield f"| {code(row.confirmation.scenario_id, _ID)} | {text} |"
    if len(found.rows) > _SCENARIOS:
        yield f"\n… and {len(found.rows) - _SCENARIOS} more scenarios"


def _gates(report: Report) -> Iterator[str]:
    yield "| Gate | Wanted | Found | |"
    yield "| :-- | --: | --: | :-- |"
    for gate in report.gate_checks:
        met = "met" if gate.met else "**not met**"
        yield f"| {code(gate.name, _ID)} | {' | '.join(gate_cells(gate))} | {met} |"


def _tasks(tasks: Sequence[TaskView]) -> Iterator[str]:
    compared = any(task.baseline for task in tasks)
    if compared:
        yield "| Rate | Baseline | Now | Difference, points | |"
        yield "| :-- | --: | --: | --: | :-- |"
    else:
        yield "| Task | Passed | 95% interval |"
        yield "| :-- | --: | --: |"
    for task in tasks[:_TASKS]:
        name = code(f"{task.alias or '(scenario)'} · {task.task_id}", _ID)
        if compared:
            bounds = task.difference_interval
            around = f" ({points(bounds[0])} to {points(bounds[1])})" if bounds else ""
            word = f"**{task.word}**" if task.regressed else task.word
            difference = f"{points(task.difference)}{around}"
            was = "–" if task.baseline is None else task.baseline.text
            yield f"| {name} | {was} | {task.now.text} | {difference} | {word} |"
        else:
            around = interval(task.now.interval) if task.has_interval else "–"
            yield f"| {name} | {task.now.text} | {around} |"
    if len(tasks) > _TASKS:
        yield f"\n… and {len(tasks) - _TASKS} more tasks"


def _judges(rates: Sequence[JudgeRate]) -> Iterator[str]:
    yield f"| {' | '.join(COLUMNS)} |"
    yield f"| :-- |{' --: |' * (len(COLUMNS) - 1)}"
    texts = [judge_text(rate) for rate in rates[:_TASKS]]
    for text in texts:
        name, *cells = text.cells
        yield f"| {code(name, _ID)} | {' | '.join(map(escape, cells))} |"
    if len(rates) > _TASKS:
        yield f"\n… and {len(rates) - _TASKS} more tasks"
    for text in texts:
        if text.note:
            yield f"\n> {escape(clip(text.note, 4 * _MESSAGE))}"


def _not_passed(report: Report) -> Sequence[ScenarioView]:
    return [scenario for scenario in report.view.by_urgency if scenario.outcome in BAD]


def _scenarios(scenarios: Sequence[ScenarioView], *, is_change: bool) -> Iterator[str]:
    yield "| Scenario | Before | Now | Why |" if is_change else "| Scenario | Outcome | Why |"
    yield "| :-- | :-- | :-- | :-- |" if is_change else "| :-- | :-- | :-- |"
    for scenario in scenarios[:_SCENARIOS]:
        before = f" {scenario.baseline_outcome or '–'} |" if is_change else ""
        now = str(scenario.outcome)
        if len(scenario.attempts) > 1:
            now += f"; {scenario.passed} of {len(scenario.attempts)} attempts passed"
        why = code(scenario.first_fault, _MESSAGE)
        yield f"| {code(scenario.scenario_id, _ID)} |{before} {now} | {why} |"
    if len(scenarios) > _SCENARIOS:
        yield f"\n… and {len(scenarios) - _SCENARIOS} more scenarios"


def _more(items: Sequence[object]) -> str:
    return f" and {len(items) - _SCENARIOS} more" if len(items) > _SCENARIOS else ""


def _foot(report: Report) -> str:
    origin = report.results.provenance
    parts = [counted(len(report.view.scenarios), "scenario")]
    if report.results.repeats > 1:
        parts.append(counted(report.results.repeats, "attempt") + " each")
    if origin.ended_ns:
        parts += [duration(origin.ended_ns - origin.started_ns), moment(origin.ended_ns)]
    if origin.package_version:
        parts.append(f"Scouter {origin.package_version}")
    if origin.git_revision:
        parts.append(f"revision {code(origin.git_revision[:12], 12)}")
    return f"<sub>{' · '.join(parts)}</sub>"


def escape(text: str) -> str:
    """Write foreign text so that it stays text: no markup, no link, no mention."""
    line = " ".join(_CONTROL.sub(" ", plain_text(text)).split())
    line = _LINKING.sub(rf"\1{_ZERO_WIDTH}", line)
    line = _LONG_HEX.sub(rf"\1{_ZERO_WIDTH}", line)  # seven hex digits and more name a commit
    return _SPECIAL.sub(r"\\\1", line)


def code(text: str, limit: int) -> str:
    """Write foreign text as a code span that also stands in a table; empty for no text."""
    line = " ".join(_CONTROL.sub(" ", plain_text(text)).split())
    if not line:
        return ""
    line = clip(line, limit).replace("|", "\\|")
    ticks = "`" * (1 + max((len(run) for run in re.findall(r"`+", line)), default=0))
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{space}{line}{space}{ticks}"
