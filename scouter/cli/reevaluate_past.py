"""`scouter reevaluate --past`: past days of a fleet, judged by a profile in many processes."""

import datetime
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import typer

from scouter.cli.asking import for_output, print_table
from scouter.cli.outputs import check_writable
from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError
from scouter.evaluate.outcome import Outcome
from scouter.replay.named_run import NamedJudging, answering_judge
from scouter.replay.past import Counts, all_results, past_tasks, run_local, run_ray
from scouter.replay.progress import progress_bar

_SHOWN: Final = tuple(each.value for each in Outcome if each is not Outcome.PENDING)


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """What was wanted; see `scouter reevaluate`."""

    past: Path
    engine: str
    workers: int | None
    out: Path | None
    save: Path | None
    since: str | None
    judging: NamedJudging


def reevaluate_past(profile: AgentEvalProfile, run: PastRun) -> bool:
    """Judge past days, and print what came of it.

    Returns:
        False if no record was judged.

    Raises:
        ConfigError: A folder, the profile or an option is wrong.
    """
    if run.engine not in ("local", "ray"):
        raise ConfigError(f"--engine {run.engine}: expected local or ray")
    if run.workers is not None and run.workers < 1:
        raise ConfigError(f"--workers {run.workers}: expected 1 or more")
    if profile.plan.asks and (run.engine != "local" or (run.workers or 1) > 1):
        raise ConfigError(
            "a profile that calls judges is evaluated in one process, which waits for many answers "
            "at a time and has one budget: leave out --engine and --workers"
        )
    if run.save is not None:
        check_writable("--save", run.save)
    since = None if run.since is None else _day(run.since)
    out = run.out or Path("reevaluated") / f"{profile.alias or 'profile'}-{profile.digest[:12]}"
    sums, workers = Counts(), run.workers or os.cpu_count() or 1
    own = run.judging.own_judge()
    with answering_judge(run.judging, {profile.alias: profile}, (), own) as judge:
        tasks = past_tasks(run.past, profile, out, since, run.judging.judge_name)
        done = sum(each.results.is_file() for each in tasks)
        if done:
            typer.echo(f"{done} of {len(tasks)} files were judged before, see {out}", err=True)
        needed = judge if profile.plan.asks else None
        is_local = run.engine == "local"
        found = run_local(tasks, workers, needed) if is_local else run_ray(tasks, workers)
        with progress_bar(len(tasks), what="Files") as progress:
            for counts in found:
                sums.add(counts)
                progress.ended(True)
    _tell(sums)
    typer.echo(for_output(f"results of each file: {out}"), err=True)
    if run.save is not None:
        all_results(tasks).save(run.save)
        typer.echo(f"wrote {run.save}", err=True)
    return bool(sums.records)


def _day(text: str) -> datetime.date:
    """The day, in UTC, of a time that `moment` has read."""
    try:
        number = float(text)
    except ValueError:
        at = datetime.datetime.fromisoformat(text)
    else:
        at = datetime.datetime.fromtimestamp(number, datetime.UTC)
    return (at if at.tzinfo else at.replace(tzinfo=datetime.UTC)).astimezone(datetime.UTC).date()


def _tell(sums: Counts) -> None:
    shown = [each for each in _SHOWN if any(counts[each] for counts in sums.tasks.values())]
    rows = (
        (task, *(f"{counts[each]:,}" for each in shown), _rate(counts["passed"], counts["failed"]))
        for task, counts in sums.tasks.items()
    )
    if sums.tasks:
        print_table(("task", *shown, "pass rate"), rows)
    ends = ", ".join(f"{sums.outcomes[each]:,} {each}" for each in _SHOWN if sums.outcomes[each])
    sessions = f", and {sums.sessions:,} sessions" if sums.sessions else ""
    typer.echo(f"{sums.records:,} records judged{f': {ends}' if ends else ''}{sessions}")


def _rate(passed: int, failed: int) -> str:
    return f"{passed / (passed + failed):.1%}" if passed + failed else ""
