"""The command `scouter eval --traces`: files or a collector's traces, judged; nothing is stored."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from glob import glob
from pathlib import Path

import typer

from scouter.cli.asking import connect, moment_ns
from scouter.cli.outputs import Outputs
from scouter.cli.release_check import Check, check_together, conclude, refuse_without_agent
from scouter.client.stored_traces import read_traces, trace_ids_since
from scouter.errors import ConfigError, FileFormatError
from scouter.evaluate.spans.files import read_spans
from scouter.model.span import Span
from scouter.model.visible import one_line
from scouter.replay.named_run import NamedJudging
from scouter.replay.progress import progress_bar
from scouter.replay.recorded import RecordedRun, judge_recorded

_URLS = ("http://", "https://")
_CONCURRENCY = 8
"""Questions to the judge at a time, where nothing else is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceCheck(Check):
    """The arguments of `scouter eval --traces`, where they are documented."""

    traces: Sequence[str]
    since: str | None
    every_trace: bool
    concurrency: int | None
    token_file: Path | None


def check_traces(check: TraceCheck, outputs: Outputs) -> None:
    """Read traces, judge them, report, and end with the exit code.

    Raises:
        typer.Exit: With the exit code, unless it is 0.
        ScouterError: A file, a name or an argument is wrong, or the collector cannot be reached.
    """
    refuse_without_agent(
        replace(check, run=replace(check.run, profiles=())),
        "traces were recorded once, and no agent is called; give --agent in place of --traces",
    )
    check_together(check, outputs)
    baseline, since_ns = check.standard.read_baseline(), moment_ns(check.since, "--since")
    faults: list[FileFormatError] = []
    spans = spans_of(
        check.traces, faults, since_ns, check.token_file, is_quiet=check.standard.quiet
    )
    judging = {each.name: getattr(check.run, each.name) for each in fields(NamedJudging)}
    run = RecordedRun(
        **judging, spans=spans, faults=faults, since_ns=since_ns or 0,
        every_trace=check.every_trace, concurrency=check.concurrency or _CONCURRENCY,
        agent_version=check.run.agent_version, baseline=baseline,
        accept_changed=check.standard.accept_changed,
    )  # fmt: skip
    recorded = judge_recorded(run)
    if recorded.left_out:
        typer.echo(
            f"scouter: left out {recorded.left_out} traces that no profile judges: without a "
            "question, an answer and a call of an agent's own, or not selected by its watch; "
            "--every-trace judges them, too",
            err=True,
        )
    names = [each if each.startswith(_URLS) else Path(each).name for each in check.traces]
    title = f"Traces of {', '.join(names[:3])}{', …' * (len(names) > 3)}"
    conclude(recorded.results, baseline, check.standard, outputs, title)


def spans_of(
    traces: Sequence[str],
    faults: list[FileFormatError],
    since_ns: int | None,
    token_file: Path | None,
    *,
    is_quiet: bool = False,
) -> list[Span]:
    """Read files, folders, patterns of files, and the traces of collectors.

    Args:
        traces: As they were typed.
        faults: Takes the places that could not be read; each is a warning, too.
        since_ns: Only traces of collectors that began, or went on, at this time or later.
        token_file: Of the collectors' token.
        is_quiet: Shows no progress.
    """
    spans: list[Span] = list(read_spans(*_paths(traces), on_error=faults.append))
    for url in traces:
        if url.startswith(_URLS):
            spans += _of_collector(url, token_file, since_ns, faults.append, is_quiet=is_quiet)
    for fault in faults if spans else ():  # else all of them are in the error
        typer.echo(f"scouter: warning: {one_line(str(fault))}", err=True)
    return spans


def _paths(traces: Sequence[str]) -> list[str]:
    """The files; of a folder those in it, of a pattern those that it means."""
    found: list[str] = []
    for each in traces:
        if each.startswith(_URLS):
            continue
        if Path(each).is_dir():
            files = sorted(str(path) for path in Path(each).rglob("*") if path.is_file())
        else:
            files = sorted(glob(each)) or [each]
        if not files:
            raise ConfigError(f"--traces {each}: the folder is empty; expected files of spans")
        found += files
    return found


def _of_collector(
    url: str,
    token_file: Path | None,
    since_ns: int | None,
    on_error: Callable[[FileFormatError], None],
    *,
    is_quiet: bool,
) -> Iterable[Span]:
    """The spans of a collector's traces."""
    with connect(url, token_file) as client:
        trace_ids = trace_ids_since(client, since_ns)
        with progress_bar(len(trace_ids), is_wanted=False if is_quiet else None) as progress:
            for trace_id, spans in zip(
                trace_ids, read_traces(client, trace_ids, on_error), strict=True
            ):
                yield from spans
                progress.started(trace_id)
                progress.ended(bool(spans))
