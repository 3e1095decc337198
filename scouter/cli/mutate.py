"""The command `scouter profile mutate`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scouter.cli.asking import (
    JsonOfOne,
    Since,
    TokenFile,
    moment_ns,
    print_lines,
    print_table,
)
from scouter.cli.check_options import Checks
from scouter.errors import FileFormatError
from scouter.model.visible import some_of

if TYPE_CHECKING:
    from scouter.evaluate.mutate.score import FaultScore, MutationScore


def mutate(
    profile: Annotated[
        str,
        typer.Argument(metavar="PROFILE", help="Profile file, or the name of a ready-made one."),
    ],
    traces: Annotated[
        list[str],
        typer.Argument(
            metavar="TRACES…",
            help="Files of traces, as of `scouter eval --traces`, or a collector's address.",
        ),
    ],
    min_score: Annotated[
        float | None,
        typer.Option(min=0, max=1, metavar="SHARE", help="Part of the faults that has to be seen."),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the profile with the proposed checks, as JSON."),
    ] = None,
    since: Since = None,
    token_file: TokenFile = None,
    checks: Checks = None,
    json: JsonOfOne = False,
) -> None:
    """Put faults into good traces, and show which of them the profile's tasks see.

    Good are the traces that pass the profile, of those that its watch selects. Into each one fault
    is put at a time, such as a call that is missing, an argument that is another one, or an act
    that the answer claims and no call did. A fault is seen if at least half of the traces with it
    do not pass. For the others, checks are proposed that see the fault and fail no good trace, as
    far as there are any that need no reference.

    No model is called: tasks that ask a judge are left out, and so are those of sessions. The same
    traces give the same answer every time.

    The exit code is 1 if the score is below --min-score, or if there was no good trace to put a
    fault into; 2 if the command is wrong or nothing could be read.

    **Examples**

        scouter profile mutate desk.yaml traces.jsonl
        scouter profile mutate desk.yaml traces.jsonl --min-score 0.7
        scouter profile mutate agent_health traces.jsonl --save better.json
        scouter profile mutate desk.yaml http://127.0.0.1:4318 --since 7d
    """
    from scouter.cli.eval_traces import spans_of
    from scouter.drift.profile import AgentEvalProfile  # the engine takes most of the start
    from scouter.evaluate.mutate.score import mutation_score
    from scouter.evaluate.spans.files import SpanFilesError
    from scouter.replay.collected import trace_test

    found = AgentEvalProfile.from_file(profile)
    faults: list[FileFormatError] = []
    spans = spans_of(traces, faults, moment_ns(since, "--since"), token_file, is_quiet=json)
    if faults and not spans:
        raise SpanFilesError(tuple(faults))
    is_judged = trace_test(found) if found.watch else None
    score = mutation_score(found.tasks, spans, is_judged)
    if json:
        print_lines([{"profile": found.alias, **score.to_json()}])
    else:
        _print(score, found.alias)
    if save is not None:
        AgentEvalProfile(
            [*found.tasks, *score.proposed()], found.config, found.alias, found.watch,
            description=found.description, calls_told_by=found.calls_told_by,
        ).save_to_json(save)  # fmt: skip
        typer.echo(f"wrote {save}", err=True)
    if score.score is None:
        typer.echo(f"scouter: {_why_nothing(score)}", err=True)
        raise typer.Exit(1)
    if min_score is not None and score.score < min_score:
        typer.echo(f"scouter: {score.score:.0%} is below --min-score {min_score:.0%}", err=True)
        raise typer.Exit(1)


def _why_nothing(score: "MutationScore") -> str:
    if score.good:
        return "no fault could be put into the traces; do their spans tell of calls or answers?"
    failing = some_of([f"{id} ({count})" for id, count in score.failing.items()])
    return f"no trace passes the profile, so none is good; what they fail: {failing}"


def _print(score: "MutationScore", alias: str) -> None:
    typer.echo(f"{score.good} of {score.traces} traces pass {alias!r} as they are, and are good.")
    if score.left_out:
        typer.echo(f"Not run, as they ask a judge or read a session: {some_of(score.left_out)}.")
    if not score.good:
        return
    print_table(
        ("fault", "mutants", "stopped", "seen", "by, or what would see it"),
        (
            (each.fault.sentence, each.mutants, each.stopped, _seen(each), _by(each))
            for each in score.faults
        ),
    )
    unreadable = sum(each.unreadable for each in score.faults)
    if unreadable:
        typer.echo(
            f"{unreadable} mutants were left out: their spans do not read as with the fault."
        )
    if score.score is not None:
        typer.echo(f"Score: {score.seen} of {score.tried} faults are seen ({score.score:.0%}).")
    if score.proposed():
        typer.echo(
            f"\nProposed tasks, which fail none of the good traces:\n\n{score.proposed_yaml()}"
        )


def _seen(each: "FaultScore") -> str:
    return "" if not each.mutants else "yes" if each.is_seen else "no"


def _by(each: "FaultScore") -> str:
    if not each.mutants:
        return "no trace has a place for it"
    if each.is_seen:
        return some_of([*each.by_task])
    if not each.proposed:
        return "no check without a reference"
    names = some_of([task.id for task in each.proposed])
    return f"proposed: {names} ({each.stopped_then} of {each.mutants})"
