"""The commands `scouter judge …`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scouter.cli.check_options import (
    JudgeBudget,
    JudgeProfile,
    JudgeTask,
    JudgeTimeout,
    Providers,
    group,
)
from scouter.cli.outputs import check_writable
from scouter.errors import ConfigError

if TYPE_CHECKING:
    from scouter.agent.calibration.calibration import Rate

_BOUNDS = "Bounds: the exit code is 1 below one of them"
_BELOW = 1
_Bound = Annotated[
    float | None, typer.Option(min=0, max=1, metavar="RATE", rich_help_panel=_BOUNDS)
]

judge = group("judge", "Find out how far a judge can be trusted.")


@judge.command()
def calibrate(
    labels: Annotated[
        str,
        typer.Argument(
            metavar="LABELS",
            help="Labels of people: .jsonl or .csv, or the address of a collector.",
        ),
    ],
    profile: JudgeProfile,
    task: JudgeTask = None,
    judge: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:NAME",
            help="Judge to ask about records with a context, instead of the provider that the "
            "task names.",
        ),
    ] = None,
    providers: Providers = None,
    judge_budget: JudgeBudget = None,
    judge_timeout: JudgeTimeout = None,
    results: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Results with the judge's answers, from scouter eval --save."
        ),
    ] = None,
    repeats: Annotated[
        int,
        typer.Option(min=1, metavar="N", help="How often the judge is called about each record."),
    ] = 1,
    swap: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="For tasks that pass where the first of two answers is better: ask once more "
            "with these fields of the context exchanged.",
        ),
    ] = None,
    length_of: Annotated[
        str,
        typer.Option(metavar="PATH", help="Text whose length may sway the judge; else all."),
    ] = "",
    concurrency: Annotated[int, typer.Option(min=1, metavar="N", help="Questions at once.")] = 8,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The calibration, for scouter judge correct."),
    ] = None,
    min_kappa: Annotated[
        float | None,
        typer.Option(min=-1, max=1, metavar="KAPPA", rich_help_panel=_BOUNDS),
    ] = None,
    min_accuracy: _Bound = None,
    min_sensitivity: _Bound = None,
    min_specificity: _Bound = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the last line.")] = False,
) -> None:
    """Hold a judge against what people say.

    Each line of LABELS is about one record: `uid`, `record_id` or its `context`; `label` (pass or
    fail) or `score` (a number on the judge's scale, which the task compares); and, if wanted,
    `task`, `rater`, `judge` (an earlier answer of the judge, or `judge_score`), `length`, `notes`.
    A collector gives the labels that were made on its page; the token is SCOUTER_AUTH_TOKEN.
    Of several raters the majority counts; ties are left out. A bad line is named and costs only
    itself.

    `order`, `stratum` and `size` say how the record was chosen; `scouter judge sample` writes them.
    Labels without `order`, or given with the judge's outcome in view (`is_blind: false`), count for
    the agreement and correct no pass rate.

    The judge's answers come from the first of these: `--judge`, which is called about all records
    with a context; `--results`; the lines, if one holds an answer; the provider entry that the
    task's prompt names. With `--providers`, `--repeats` or `--swap` the entry is called even if
    lines hold answers. No answer comes from a cache.

    An option that would change nothing is refused: `--providers` and `--judge-budget` beside
    `--judge`; beside `--results` without `--judge` these two, `--repeats` and `--swap`; and where
    no line has a context to ask about, all that asks.

    The exit code is 0; 1 if a bound is missed or its figure is not known; 2 if the command or a
    file is wrong.

    **Examples**

        scouter judge calibrate labels.csv --profile desk.yaml --save judge.json
        scouter judge calibrate labels.csv --profile desk.yaml --judge desk:judge
        scouter judge calibrate labels.jsonl --profile desk.yaml --results today.json
        scouter judge calibrate labels.csv --profile desk.yaml --repeats 3 --judge-budget 0.50
        scouter judge calibrate labels.csv --profile desk.yaml --judge desk:judge --min-kappa 0.6

    A line of `labels.jsonl`:

        {"context": {"question": "Open?", "answer": "9 to 18"}, "label": "pass", "rater": "ann"}
    """
    if save is not None:
        check_writable("--save", save)
    from scouter.cli.calibrating import Wanted, run  # the engine takes most of the start

    wanted = Wanted(
        labels=labels,
        profile=profile,
        task=task,
        judge=judge,
        providers=providers,
        judge_budget_usd=judge_budget,
        judge_timeout_s=judge_timeout,
        results=results,
        repeats=repeats,
        swap=_pair(swap),
        length_of=length_of,
        concurrency=concurrency,
    )
    found = run(wanted, is_quiet=quiet)
    if save is not None:
        try:
            found.save(save)
        except OSError as error:
            raise ConfigError(f"--save {save}: {error.strerror or error}") from error
        typer.echo(f"wrote {save}", err=True)
    from scouter.cli.judge_tables import over_budget_text, print_calibration

    if not quiet:
        print_calibration(found)
    elif found.over_budget:
        typer.echo(over_budget_text(found))
    missed = [
        f"{name} is {_figure(rate)}, below {bound:g}"
        for name, rate, bound in (
            ("kappa", found.kappa, min_kappa),
            ("accuracy", found.accuracy, min_accuracy),
            ("sensitivity", found.sensitivity, min_sensitivity),
            ("specificity", found.specificity, min_specificity),
        )
        if bound is not None and (rate.value is None or rate.value < bound)
    ]
    if missed:
        typer.echo(f"missed: {'; '.join(missed)}")
        raise typer.Exit(_BELOW)
    if quiet:
        names = ("kappa", "sensitivity", "specificity")
        typer.echo(", ".join(f"{name} {_figure(getattr(found, name))}" for name in names))


@judge.command()
def sample(
    source: Annotated[
        str,
        typer.Argument(
            metavar="RESULTS",
            help="From scouter eval --save or results.save(), or the address of a collector.",
        ),
    ],
    profile: JudgeProfile,
    save: Annotated[
        Path,
        typer.Option(metavar="FILE", help="Lines to be filled in: .jsonl or .csv; a new file."),
    ],
    task: JudgeTask = None,
    labels: Annotated[int, typer.Option(min=2, max=500, metavar="N", help="Records to draw.")] = 50,
) -> None:
    """Draw records for people to label, so that a pass rate can be corrected.

    Half are drawn at random from what the judge passed, and half from what it failed. Of a
    collector they come from the newest 500 results of the task; the token is SCOUTER_AUTH_TOKEN.

    Give each line a `label` (pass or fail) and a `rater`. Do it before you read `stratum`, which
    says the judge's outcome. Lines without a label are left out.

    **Examples**

        scouter judge sample today.json --profile desk.yaml --labels 50 --save labels.jsonl
        scouter judge sample http://127.0.0.1:4318 --profile desk.yaml --save labels.csv
        scouter judge calibrate labels.jsonl --profile desk.yaml --save judge.json
    """
    from scouter.cli.calibrating import draw_lines, write_lines
    from scouter.cli.judge_tables import sample_text

    if save.exists():
        raise ConfigError(f"--save {save}: the file is there, maybe with labels; name another one")
    check_writable("--save", save)
    lines, traffic = draw_lines(source, profile, task, labels)
    write_lines(save, lines)
    typer.echo(f"wrote {save}", err=True)
    typer.echo(sample_text(lines, traffic))


@judge.command()
def correct(
    results: Annotated[
        Path, typer.Argument(metavar="RESULTS", help="From scouter eval --save, or results.save().")
    ],
    calibration: Annotated[
        Path, typer.Option(metavar="FILE", help="From scouter judge calibrate --save.")
    ],
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|NAME",
            help="Profile that judged, where it is another version than the calibrated one.",
        ),
    ] = None,
    min_pass_rate: Annotated[
        float | None,
        typer.Option(min=0, max=1, metavar="RATE", help="For the corrected pass rate."),
    ] = None,
) -> None:
    """Show a pass rate as people would see it, not as the judge does.

    The judge passes some bad answers and fails some good ones. The calibration says how many, with
    its own error; the interval includes both. With too few labels the answer is "cannot say".

    The exit code is 0; 1 if nothing can be said, or the corrected rate is below
    `--min-pass-rate`; 2 if a file is wrong, or if the question differs from the calibrated one
    (task, model, settings, prompt).

    **Examples**

        scouter judge correct today.json --calibration judge.json
        scouter judge correct today.json --calibration judge.json --profile desk_v2.yaml
    """
    from scouter.agent.calibration.calibration import Calibration
    from scouter.agent.calibration.correction import correct as apply
    from scouter.cli.judge_tables import print_corrected
    from scouter.drift.profile import AgentEvalProfile
    from scouter.evaluate.statistics.corrected_rate import CannotSay

    known = Calibration.load(calibration)
    given = None if profile is None else AgentEvalProfile.from_file(profile)
    found = apply(results, known, given)
    print_corrected(known, found)
    if isinstance(found.correction, CannotSay):
        raise typer.Exit(_BELOW)
    if min_pass_rate is not None and found.correction.estimate < min_pass_rate:
        typer.echo(f"missed: pass rate {found.correction.estimate:.3f}, below {min_pass_rate:g}")
        raise typer.Exit(_BELOW)


def _pair(swap: str | None) -> tuple[str, str] | None:
    if swap is None:
        return None
    first, comma, second = (part.strip() for part in swap.partition(","))
    if not (first and comma and second) or first == second:
        raise ConfigError(f"--swap {swap!r}: expected two fields of the context, such as a,b")
    return first, second


def _figure(rate: "Rate") -> str:
    return "not known" if rate.value is None else f"{rate.value:.3f}"
