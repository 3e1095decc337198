"""A check from files and names to an exit code: what `scouter eval` and others share."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from math import isfinite, nan
from pathlib import Path

import typer

from scouter.cli.asking import connect
from scouter.cli.decision_text import print_check
from scouter.cli.outputs import Outputs
from scouter.errors import ConfigError, ScouterError
from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.compare.gate_checks import check_gates
from scouter.evaluate.compare.gates import Gates
from scouter.evaluate.results.pooling import join_baseline, pooled, save_run
from scouter.evaluate.scenario import EvalScenarios
from scouter.model.visible import one_line
from scouter.replay.named_run import BOTH_BASELINES, NamedRun, Ran, run_both
from scouter.replay.reports.decision import Policy
from scouter.replay.reports.report import Report
from scouter.replay.setup_check import unread_warning


def push_run(results: ScenarioEvalResults, url: str) -> None:
    """Send results, and say where they can be looked at.

    A failure is reported and raises nothing: the results decide about a release, and not whether
    somebody keeps them.
    """
    try:
        with connect(url, None) as client:
            stored = client.push_run(results)
    except ScouterError as error:
        typer.echo(f"scouter: warning: not pushed: {one_line(str(error))}", err=True)
        return
    address = f"{client.url}/compare?after=run:{stored.run_id}"
    typer.echo(f"pushed as {stored.run_id}: {address}", err=True)


INTERRUPTED = 130
"""Exit status that a shell reports for a program that Ctrl-C ended."""
_STORED = (
    "without --agent the answers of the file are scored, which are there once and have no records "
    "and spans; give --agent"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standard:
    """Demands on a run, from the arguments of `scouter eval`, where they are documented."""

    policy: Policy
    baseline: Sequence[Path] = ()
    regression_threshold: float = 0.05
    accept_changed: Sequence[str] = ()
    min_pass_rate: float | None = None
    min_scenario_pass_rate: float | None = None
    min_scores: Mapping[str, float] = field(default_factory=dict[str, float])
    push: str | None = None
    quiet: bool = False
    verbose: bool = False

    def check(self, *, has_other: bool = False) -> None:
        """Refuse arguments that mean nothing together.

        Args:
            has_other: The run brings its own baseline.

        Raises:
            ConfigError: Says which.
        """
        if self.accept_changed and not self.baseline:
            raise ConfigError("--accept-changed needs --baseline FILE, since which it changed")
        if self.policy.require_ruled_out is not None and not (self.baseline or has_other):
            raise ConfigError(
                "--require-ruled-out needs --baseline FILE, which it compares the run with"
            )

    def read_baseline(self) -> ScenarioEvalResults | None:
        """The earlier results, if there are any to compare with; those of all files together.

        Raises:
            FileFormatError: They cannot be read.
            ConfigError: Two files are of other scenarios or profiles.
        """
        if not self.baseline:
            return None
        runs = [ScenarioEvalResults.load(path) for path in self.baseline]
        return pooled(runs, [str(path) for path in self.baseline])


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The arguments of `scouter eval`, where they are documented."""

    scenarios: Path
    run: NamedRun
    standard: Standard
    file_format: str | None = None
    plan: bool = False

    @property
    def source(self) -> list[str]:
        """The words of a command that name the cases."""
        return [str(self.scenarios)]

    def with_baseline(self) -> NamedRun:
        """The run, with the earlier results and with what may have changed since them."""
        baseline, accepted = self.standard.read_baseline(), self.standard.accept_changed
        return replace(self.run, baseline=baseline, accept_changed=accepted)


def run_check(check: Check, outputs: Outputs) -> None:
    """Run, compare, report, and end with the exit code.

    Raises:
        typer.Exit: With the exit code, unless it is 0.
        ScouterError: A file, a name or an argument is wrong. All that can be known before the
            first scenario is looked at before it.
    """
    check_together(check, outputs)
    scenarios = EvalScenarios.from_path(check.scenarios)
    check.standard.policy.check(len(scenarios))
    if warning := unread_warning(scenarios):
        typer.echo(f"scouter: warning: {one_line(warning)}", err=True)
    gates = _gates(scenarios.gates, check.standard)
    scenarios = scenarios.model_copy(update={"gates": gates})  # names are looked at before the run
    run = check.with_baseline()
    with interruptible(run):
        ran = run_both(scenarios, run)
    finish(check, ran, outputs, f"Release check of {check.run.agent}", gates)


def finish(
    check: Check, ran: Ran, outputs: Outputs, title: str, gates: Gates | None = None
) -> None:
    """Do what `conclude` does, for a run that may have been interrupted.

    Raises:
        typer.Exit: With the exit code, unless it is 0.
        ConfigError: A file cannot be written.
    """
    if outputs.save_baseline is not None and ran.baseline is not None:
        _save(ran.baseline, outputs.save_baseline, "--save-baseline")
    concluding = ran.results, ran.baseline, check.standard, outputs, title, gates
    if not ran.is_interrupted:
        conclude(*concluding)
        return
    with suppress(typer.Exit):
        conclude(*concluding, is_whole=False)
    typer.echo(_interrupted_again(check), err=True)
    raise typer.Exit(INTERRUPTED)


def check_together(check: Check, outputs: Outputs) -> None:
    """Refuse arguments that mean nothing together, before anything is read.

    Raises:
        ConfigError: Says which.
    """
    run, baselines = check.run, check.standard.baseline
    if run.interleave is not None and baselines:
        raise ConfigError(BOTH_BASELINES)
    if run.confirm is not None and run.interleave is None and not baselines:
        raise ConfigError("--confirm needs --baseline FILE: what passed there is asked again")
    if run.sequential:
        _check_sequential(check)
    if outputs.save_baseline is not None and run.interleave is None:
        raise ConfigError("--save-baseline needs --interleave, whose results it keeps")


def refuse_without_agent(check: Check, why: str = _STORED) -> None:
    """Refuse what answers that are stored cannot do.

    Args:
        check: The check.
        why: The reason, and what to give in place of the option.

    Raises:
        ConfigError: Says which, and why.
    """
    run = check.run
    for option, is_given in (
        ("--plan", check.plan),
        ("--repeats", run.repeats > 1), ("--confirm", run.confirm is not None),
        ("--sequential", run.sequential), ("--interleave", run.interleave),
        ("--resume", run.resume), ("--retries", run.retries), ("--timeout", run.timeout_s),
        ("--simulated-user", run.simulated_user), ("--profile", run.profiles),
    ):  # fmt: skip
        if is_given:
            raise ConfigError(f"{option}: {why}, or leave it out")


def _check_sequential(check: Check) -> None:
    if check.run.interleave is None and not check.standard.baseline:
        raise ConfigError(
            "--sequential needs --baseline FILE or --interleave, against which a round decides"
        )
    if check.run.repeats == 1:
        raise ConfigError(
            "--sequential needs --repeats of 2 or more, which it makes only as far as it takes"
        )
    if check.standard.policy.require_ruled_out is not None:
        raise ConfigError(
            "--require-ruled-out takes all --repeats, so nothing stops early; leave --sequential "
            "out"
        )


def conclude(
    results: ScenarioEvalResults,
    baseline: ScenarioEvalResults | None,
    standard: Standard,
    outputs: Outputs,
    title: str,
    gates: Gates | None = None,
    *,
    is_whole: bool = True,
) -> None:
    """Compare, report, and end with the exit code.

    A file that is the baseline gets the attempts of a run only if nothing stops it. Otherwise a
    version that regressed would be compared with itself the next time.

    Args:
        results: The run.
        baseline: Result of `standard.read_baseline()` before the run.
        standard: Baseline and rules that the run is compared with.
        outputs: Paths of the reports.
        title: Title of the reports.
        gates: Gates of a scenario file.
        is_whole: False where the run was interrupted.

    Raises:
        typer.Exit: With the exit code, unless it is 0.
        ConfigError: A file cannot be written.
    """
    save = outputs.save
    is_baseline = save is not None and save.resolve() in map(Path.resolve, standard.baseline)
    if save is not None and not is_baseline:
        _save(results, save, "--save")
    if standard.push is not None and is_whole:
        push_run(results, standard.push)
    comparison = None
    if baseline is not None:
        comparison = results.compare_to(
            baseline, standard.regression_threshold, standard.accept_changed
        )
    report = Report(
        results=results,
        comparison=comparison,
        gate_checks=check_gates(results, _gates(gates, standard)),
        policy=standard.policy,
        title=title,
        saved="" if save is None else str(save),
    )
    if save is not None and is_baseline and is_whole:
        _join(results, save, is_good=not report.decision.exit_code)
    outputs.write(report)
    print_check(report, quiet=standard.quiet, verbose=standard.verbose, html=outputs.html)
    if report.decision.exit_code:
        raise typer.Exit(report.decision.exit_code)


def _join(results: ScenarioEvalResults, path: Path, *, is_good: bool) -> None:
    try:
        note = join_baseline(results, path, is_good=is_good)
    except OSError as error:
        raise ConfigError(f"--save {path}: {error.strerror or error}") from error
    typer.echo(note, err=True)


def _save(results: ScenarioEvalResults, path: Path, option: str) -> None:
    try:
        note = save_run(results, path)
    except OSError as error:
        raise ConfigError(f"{option} {path}: {error.strerror or error}") from error
    typer.echo(note or f"wrote {path}", err=True)


def _gates(gates: Gates | None, standard: Standard) -> Gates:
    """Merge the gates of a scenario file with those of the command line; the latter win."""
    given = {
        "min_pass_rate": standard.min_pass_rate,
        "min_scenario_pass_rate": standard.min_scenario_pass_rate,
    }
    update: dict[str, object] = {name: rate for name, rate in given.items() if rate is not None}
    found = gates or Gates()
    if standard.min_scores:
        update["min_scores"] = {**found.min_scores, **standard.min_scores}
    return found.model_copy(update=update)


def least_of(given: Sequence[str]) -> Mapping[str, float]:
    """Read the means to reach, by task, from `TASK=MEAN` texts.

    Raises:
        ConfigError: One of them is none.
    """
    found: dict[str, float] = {}
    for text in given:
        name, _, number = text.rpartition("=")
        try:
            least = float(number)
        except ValueError:
            least = nan
        if not name or not isfinite(least):
            raise ConfigError(f"--min-score {text}: expected TASK=MEAN, such as rouge_l=0.9")
        found[name] = max(least, found.get(name, least))
    return found


def note(*notes: str) -> None:
    """Say what somebody should know who reads the result, on the error stream."""
    for each in notes:
        typer.echo(f"scouter: note: {one_line(each)}", err=True)


@contextmanager
def interruptible(run: NamedRun) -> Generator[None]:
    """Have Ctrl-C say what becomes of a run, and end with its exit code."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(_interrupted(run), err=True)
        raise typer.Exit(INTERRUPTED) from None


def _interrupted(run: NamedRun) -> str:
    """Say what Ctrl-C left of a run."""
    if not run.agent:  # answers that are stored; --resume is refused
        return "scouter: interrupted; nothing was saved, and nothing has to be repeated"
    if run.resume is None:
        return "scouter: interrupted; nothing was saved. With --resume FILE a run can be continued"
    return f"scouter: interrupted; the same command goes on from {run.resume}"


def _interrupted_again(check: Check) -> str:
    lead = "scouter: interrupted while scenarios were asked again; what is left is not confirmed"
    resume = check.run.resume
    return lead if resume is None else f"{lead}. The same command goes on from {resume}"
