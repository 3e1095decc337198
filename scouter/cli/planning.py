"""`scouter eval --plan`: what a check would see and take, on one screen."""

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from scouter.cli.outputs import Outputs
from scouter.cli.release_check import Check
from scouter.errors import ConfigError
from scouter.evaluate.compare.plan import RELEASES, SEEN, Design, Outlook, Plan, plan_of
from scouter.evaluate.show.console import emit, table_of
from scouter.model.visible import some_of
from scouter.replay.progress import progress_bar
from scouter.replay.reports.texts import clip, counted, duration

_LONG = 40
_OTHERS = ("junit", "markdown", "html", "save", "save_baseline")


def print_plan(check: Check, outputs: Outputs, names: Sequence[str]) -> None:
    """Simulate checks by what the baseline stores, and print what they would see; run nothing.

    Args:
        check: The check.
        outputs: Only JSON can be written.
        names: Ids of the scenarios.

    Raises:
        ConfigError: There are no stored runs; says how to make some. Or a file is wrong.
    """
    for name in _OTHERS:
        if getattr(outputs, name) is not None:
            option = f"--{name.replace('_', '-')}"
            raise ConfigError(
                f"--plan runs nothing, so {option} has nothing to write; leave it out"
            )
    missing = [path for path in check.standard.baseline if not path.exists()]
    baseline = None if missing else check.standard.read_baseline()
    if baseline is None:
        _refuse(check, missing)
    repeats = check.run.repeats
    with progress_bar(6 + 2 * (repeats not in {1, 3, 5}) + 1, 0, check.run.progress) as progress:

        def started(design: Design) -> None:
            progress.started(_design_text(design, 0))
            progress.ended(passed=True)

        plan = plan_of(baseline, names, repeats, started)
    shown = Screen(plan=plan, check=check)
    if outputs.json is not None:
        outputs.json.write_text(json.dumps(plan.to_json(), indent=2) + "\n", encoding="utf-8")
        typer.echo(f"wrote {outputs.json}", err=True)
    emit(*shown.parts())


def _refuse(check: Check, missing: list[Path]) -> NoReturn:
    file = missing[0] if missing else Path("baseline.json")
    lack = f"there is no {file}" if missing else "there is no --baseline FILE"
    raise ConfigError(
        f"--plan reads the pass rates and prices of stored runs, and {lack}. Run this on the "
        f"version before, three times: {_command(check, save=file)}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """A plan in words."""

    plan: Plan
    check: Check

    def parts(self) -> list[RenderableType]:
        """All lines."""
        plan = self.plan
        files = ", ".join(map(str, self.check.standard.baseline))
        rate = f"{plan.passed} of {counted(plan.made, 'attempt')} passed"
        text = f"Plan for {counted(plan.scenarios, 'scenario')}; in {files} {rate}."
        parts: list[RenderableType] = [Text(text), Text("")]
        if plan.outlooks:
            parts += [self._table(), *map(Text, self._notes()), Text("")]
        parts += [Text(line) for line in (*self._scenarios(), *self._advice())]
        return parts

    def _table(self) -> Table:
        price = self.plan.price
        is_judged = price.judge_calls is not None
        table = table_of(
            "", "Repeats", "Baseline", "Fall of all", "One broken", "A fifth broken",
            "Calls", "In rounds", "Time", *(["Judges"] if is_judged else []),
        )  # fmt: skip
        for row in self.plan.outlooks:
            at = row.design
            rounds = row.calls_in_rounds
            seconds = row.calls * price.seconds / max(self.check.run.concurrency, 1)
            table.add_row(
                str(at.repeats),
                "as stored" if at.runs is None else counted(at.runs, "run"),
                "none" if row.fall is None else f"{100 * row.fall:.0f} points",
                f"{row.one_broken:.0%}", f"{row.fifth_broken:.0%}",
                f"{row.calls:,.0f}", "–" if rounds is None else f"{rounds:,.0f}",
                duration(round(seconds * 1e9)),
                *([self._judges(row)] if is_judged else []),
            )  # fmt: skip
        return table

    def _judges(self, row: Outlook) -> str:
        price = self.plan.price
        if price.judge_usd is not None:
            return f"${row.calls * price.judge_usd:,.2f}"
        return f"{row.calls * (price.judge_calls or 0):,.0f} calls"

    def _notes(self) -> list[str]:
        tokens = self.plan.price.agent_tokens
        per_call = "" if tokens is None else f" A call of the agent takes {tokens:,.0f} tokens."
        return [
            f"Fall of all: if every scenario falls by so much, {SEEN:.0%} of releases are stopped.",
            "Broken: share of releases that are stopped if scenarios never pass any more.",
            "Calls, time and judges: if nothing changed, with asking again; in rounds: with "
            f"--sequential.{per_call}",
            f"Simulated by the rule of the check with a fixed seed, {RELEASES} releases a figure: "
            "good to 10 % and 3 points.",
        ]

    def _scenarios(self) -> list[str]:
        noisy, silent = self.plan.noisy, self.plan.silent
        lines: list[str] = []
        if noisy:
            shares = [f"{clip(name, _LONG)} {share:.0%}" for name, share in noisy.items()]
            lines.append(
                f"Repeats pay most where a scenario passes now and then: {some_of(shares)}."
            )
        elif self.plan.outlooks:
            lines.append(
                "No scenario passed in some attempts and failed in others, so more scenarios show "
                "more than repeats."
            )
        by_reason: dict[str, list[str]] = {}
        for name, why in silent.items():
            by_reason.setdefault(why, []).append(clip(name, _LONG))
        lines += [f"Tells nothing: {some_of(names)} ({why})." for why, names in by_reason.items()]
        return [*lines, ""] if lines else []

    def _advice(self) -> list[str]:
        plan = self.plan
        if not plan.outlooks:
            return ["No scenario of the file is in the baseline. Save a new one:", self._save(1)]
        best = plan.recommended
        lead = "Recommended: " if best.suffices else "None sees a fall of 20 points; the best is "
        lines = [f"{lead}{_design_text(best.design, plan.attempts)}."]
        if not best.suffices:
            lines[0] += " More scenarios would see more."
        runs = _missing_runs(plan, best.design)
        if runs:
            times = "once" if runs == 1 else f"{runs} times"
            lines += [f"On the version before, {times} more:", self._save(best.design.repeats)]
            lines.append("For each release:")
        return [*lines, f"  {_command(self.check, repeats=best.design.repeats)}"]

    def _save(self, repeats: int) -> str:
        return f"  {_command(self.check, save=self.check.standard.baseline[0], repeats=repeats)}"


def _design_text(design: Design, attempts: int) -> str:
    repeats = counted(design.repeats, "repeat")
    if design.runs is None:
        return f"{repeats}, the baseline as stored ({attempts} each)"
    each = "" if design.repeats == 1 else f" of {design.repeats}"
    return f"{repeats}, a baseline of {counted(design.runs, 'run')}{each}"


def _missing_runs(plan: Plan, design: Design) -> int:
    """Further runs of the version before that the baseline of a design takes."""
    if design.runs is None:
        return 0
    return max(math.ceil((design.runs * design.repeats - plan.attempts) / design.repeats), 0)


def _command(check: Check, *, save: Path | None = None, repeats: int = 1) -> str:
    """The command to type; a run for a baseline where there is a file to save it to."""
    run = check.run
    words = ["scouter", "eval", *check.source, "--agent", str(run.agent)]
    options: Mapping[str, object] = {
        "--format": check.file_format, "--simulated-user": run.simulated_user,
        "--judge": run.judge, "--providers": run.providers, "--timeout": run.timeout_s,
        "--agent-version": run.agent_version if save is not None and run.agent_version else None,
        "--concurrency": run.concurrency if run.concurrency > 1 else None,
        "--repeats": repeats if repeats > 1 else None,
    }  # fmt: skip
    for name in run.profiles:
        words += ["--profile", str(name)]
    for option, value in options.items():
        if value is not None:
            words += [option, f"{value:g}" if isinstance(value, float) else str(value)]
    if save is not None:
        words += ["--save", str(save)]
    else:
        for path in check.standard.baseline:
            words += ["--baseline", str(path)]
        words += ["--sequential"] if repeats > 1 else []
    return shlex.join(words)
