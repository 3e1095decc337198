"""Calibrations and corrected rates as tables for people."""

from collections import Counter
from collections.abc import Mapping, Sequence

from pydantic import JsonValue
from rich.table import Table
from rich.text import Text

from scouter.agent.calibration.calibration import Calibration, Rate
from scouter.agent.calibration.correction import Corrected
from scouter.evaluate.intervals import Interval
from scouter.evaluate.show.console import emit, table_of
from scouter.evaluate.statistics.confusion import Confusion
from scouter.evaluate.statistics.corrected_rate import (
    CannotSay,
    DrawnLabels,
    JudgeCounts,
    planned_width,
    rate_of_traffic,
)
from scouter.evaluate.statistics.scores import Estimate
from scouter.replay.reports.texts import counted


def print_calibration(found: Calibration) -> None:
    """Print what a calibration found."""
    emit(_rates(found), _confusion(found), _biases(found), *_notes(found))


def print_corrected(calibration: Calibration, found: Corrected) -> None:
    """Print a pass rate as the judge sees it, and as people would."""
    table = table_of(f"Pass rate of {calibration.identity.task_id}", "", "Rate", "95 % interval")
    naive = found.naive_rate
    table.add_row(
        f"as the judge says ({found.passed}/{found.judged})", _figure(naive), _between(found.naive)
    )
    correction = found.correction
    if isinstance(correction, CannotSay):
        table.add_row("as people would say", Text("cannot say", style="yellow"), "")
        notes = [f"Cannot say: {correction.reason}."]
    else:
        table.add_row(
            "as people would say", _figure(correction.estimate), _between(correction.interval)
        )
        notes = []
    counts = (calibration.drawn or calibration).counts
    if found.is_of_traffic:
        notes.append("The labels were drawn from these very records.")
    notes.append(
        f"Calibrated on {counts.total} labels ({counts.good} good, {counts.bad} bad) on "
        f"{calibration.created_at:%Y-%m-%d}: sensitivity {_whole(calibration.sensitivity)}, "
        f"specificity {_whole(calibration.specificity)}, kappa {_number(calibration.kappa)}."
    )
    if found.left_out:
        parts = ", ".join(f"{count} {name}" for name, count in sorted(found.left_out.items()))
        notes.append(f"Records without an outcome are left out: {parts}.")
    emit(table, *map(Text, notes))


def over_budget_text(found: Calibration) -> str:
    """Say which calls a budget prevented, and what that leaves."""
    skipped = counted(found.over_budget, "outcome")
    return (
        f"{skipped} skipped, as the budget left too little; the calibration rests on "
        f"{found.counts.total} of {counted(found.items, 'labelled record')}."
    )


def _rates(found: Calibration) -> Table:
    identity = found.identity
    table = table_of(f"{identity.alias} / {identity.task_id}", "Judge and people", "", "95 %")
    drawn, counts = found.drawn, found.counts
    known = (drawn or found).counts
    is_weighted = drawn is not None and drawn.order == "outcome"
    for name, rate, of in (
        ("accuracy", found.accuracy, f"of {counts.total}"),
        ("sensitivity: passes good ones", found.sensitivity, f"of {known.good}"),
        ("specificity: fails bad ones", found.specificity, f"of {known.bad}"),
    ):
        of_what = "of the traffic" if is_weighted and rate is not found.accuracy else of
        shown = f"{_figure(rate.value)} {of_what}" if rate.value is not None else "not known"
        table.add_row(name, shown, _between(rate.interval))
    table.add_row("kappa: agreement beyond chance", *_kappa(found.kappa))
    if found.score_kappa is not None:
        table.add_row("kappa of the scores, weighted", *_kappa(found.score_kappa))
    if found.score_errors is not None:
        errors = found.score_errors
        for name, figure in (
            (f"mean distance of the scores, of {errors.items}", errors.mean_absolute_error),
            ("bias: judge's score less people's", errors.bias),
            ("correlation of the scores", errors.correlation),
        ):
            table.add_row(name, *_score(figure))
    if found.rater_alpha is not None:
        table.add_row("alpha of people's scores", *_kappa(found.rater_alpha))
    if found.rater_kappa is not None:
        table.add_row("kappa of people with each other", *_kappa(found.rater_kappa))
    if found.raters_agree is not None:
        agree = found.raters_agree
        table.add_row("people all say the same", _figure(agree.value), _between(agree.interval))
    return table


def _confusion(found: Calibration) -> Table:
    table = table_of("Outcomes", "", "judge passes", "judge fails")
    for name, row in zip(("people pass", "people fail"), found.counts.table, strict=True):
        table.add_row(name, *map(str, row))
    return table


def _biases(found: Calibration) -> Table:
    table = table_of("Biases", "Check", "Finding")
    for each in found.biases:
        style = "yellow" if each.p_value is not None and each.p_value <= 0.05 else ""
        table.add_row(each.check, Text(each.sentence, style=style))
    return table


def _notes(found: Calibration) -> list[Text]:
    notes = [
        f"Labels: {found.labels}; raters: {found.raters}; records: {found.items}; ties, left out: "
        f"{found.tied}."
    ]
    if found.bad_lines:
        notes.append(f"Lines that could not be used: {found.bad_lines}.")
    if found.without_verdict:
        parts = ", ".join(f"{count} {why}" for why, count in sorted(found.without_verdict.items()))
        notes.append(f"Left out, as the judge did not decide: {parts}.")
    if found.over_budget:
        notes.append(over_budget_text(found))
    notes += _origin(found)
    low, _ = found.counts.youden_interval()
    if low <= 0:
        notes.append("These labels do not distinguish the judge from one that does not look.")
    return [Text(note) for note in notes]


def _origin(found: Calibration) -> list[str]:
    """Say what the labels tell of the traffic that they were drawn from, and what they do not."""
    drawn = found.drawn
    if drawn is None:
        return [f"No pass rate can be corrected: {found.why_not_drawn}."]
    notes: list[str] = []
    counts, traffic = drawn.counts, drawn.traffic
    if drawn.order != "gold":
        rate = rate_of_traffic(drawn.labels, traffic)
        which = f"the {drawn.judged:,} records" if drawn.judged else "the traffic"
        which += f" that {counts.total} labels were drawn from"
        notes.append(
            f"Cannot say what people would pass of {which}: {rate.reason}."
            if isinstance(rate, CannotSay)
            else f"Of {which}, people would pass {rate.estimate:.1%} ({_between(rate.interval)})."
        )
        notes.append(width_text(drawn.labels, traffic))
    if found.not_drawn:
        notes.append(f"Count for the agreement alone: {found.not_drawn_text}.")
    if not drawn.pairs:
        notes.append(
            "Labels are taken for the truth, as no record has those of two people: if people err, "
            "intervals are too narrow. Let a second person label 30 of the records."
        )
    elif drawn.differ:
        notes.append(
            f"People differ on {drawn.differ} of {counted(drawn.pairs, 'pair')} of labels. "
            "Intervals include that the labels are wrong as often as this shows."
        )
    return notes


def sample_text(lines: Sequence[Mapping[str, JsonValue]], traffic: JudgeCounts) -> str:
    """Say what was drawn, what to do with it, and what the labels will tell."""
    strata = Counter(str(each["stratum"]) for each in lines)
    sizes = {str(each["stratum"]): each["size"] for each in lines}
    words = {"passed": "that the judge passed", "failed": "that it failed", "all": "in all"}
    drawn = ", ".join(
        f"{strata[each]} of {sizes[each]} {words[each]}" for each in words if strata[each]
    )
    none = DrawnLabels(
        counts=Confusion(good_passed=0, good_failed=0, bad_passed=0, bad_failed=0), traffic=traffic
    )
    counts = sorted({20, 50, 100, len(lines)} if len(lines) >= 20 else {20, 50, 100})
    widths = ", ".join(
        f"{100 * planned_width(none, traffic, count):.0f} points with {count}" for count in counts
    )
    return (
        f"Drawn: {drawn}. Fill in label (pass or fail) and rater in each line, then run scouter "
        "judge calibrate with the file.\n"
        f"Width of the interval of the corrected pass rate, if the judge is right on 85 % of each "
        f"kind: {widths} labels."
    )


def width_text(labels: DrawnLabels, traffic: JudgeCounts) -> str:
    """Say how wide the interval is about to be, and what more labels would change."""
    now, some, many = (100 * planned_width(labels, traffic, more) for more in (0, 20, 50))
    have = f"The interval is about {now:.0f} points wide; " if labels.counts.total else ""
    text = f"{have}20 more labels would make it {some:.0f}, 50 more {many:.0f}."
    return text[0].upper() + text[1:]


def _kappa(rate: Rate) -> tuple[str, str]:
    return _number(rate), f"{rate.interval[0]:.2f} to {rate.interval[1]:.2f}"


def _score(figure: Estimate) -> tuple[str, str]:
    value = "not known" if figure.value is None else f"{figure.value:.2f}"
    if figure.interval is None:
        return value, "not known"
    return value, f"{figure.interval[0]:.2f} to {figure.interval[1]:.2f}"


def _number(rate: Rate) -> str:
    return "not known" if rate.value is None else f"{rate.value:.2f}"


def _whole(rate: Rate) -> str:
    low, high = rate.interval
    return f"{_figure(rate.value)} ({low:.0%} to {high:.0%})"


def _figure(value: float | None) -> str:
    return "not known" if value is None else f"{value:.1%}"


def _between(interval: Interval) -> str:
    return f"{interval[0]:.1%} to {interval[1]:.1%}"
