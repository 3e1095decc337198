"""The command `scouter reevaluate`."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from scouter.cli.asking import (
    Json,
    RecordId,
    Since,
    TokenFile,
    Url,
    connect,
    for_output,
    moment,
    print_lines,
    print_table,
)
from scouter.cli.check_options import (
    AnswerCache,
    JudgeBudget,
    JudgeTimeout,
    OwnJudge,
    Providers,
)
from scouter.cli.profile import line_of
from scouter.errors import ConfigError, ScouterError

if TYPE_CHECKING:
    from scouter.client.models.evaluations import Flip, Reevaluation, TaskCount
    from scouter.drift.profile import AgentEvalProfile

_PAGE: Final = 100
_MISSING: Final = 500
"""Of what has no evaluation: to find a page takes a look at all spans."""
_SHOWN: Final = 50
_FILES: Final = (".json", ".yaml", ".yml")


def reevaluate(
    profile: Annotated[
        str,
        typer.Option(
            metavar="PROFILE",
            help="A profile file; the uid or digest of a registered version; or an alias or name, "
            "for the active version.",
            show_default=False,
        ),
    ],
    apply: Annotated[
        bool,
        typer.Option(
            "--apply",
            help="Register the file, and store each new evaluation: as the next revision, or as a "
            "first one that is marked backfill.",
        ),
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="End with 1 if any evaluation flips.")
    ] = False,
    outcome: Annotated[
        str | None,
        typer.Option(
            metavar="OUTCOME",
            help="Only evaluations with this outcome: passed, failed, errored or skipped.",
        ),
    ] = None,
    record: RecordId = None,
    session: Annotated[str | None, typer.Option(metavar="SESSION_ID")] = None,
    trace: Annotated[str | None, typer.Option(metavar="TRACE_ID")] = None,
    since: Since = None,
    past: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Judge the past days of a fleet, Parquet files, instead of a collector's records.",
        ),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            metavar="local|ray", help="With --past: processes of this machine, or tasks of Ray."
        ),
    ] = "local",
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="With --past: processes; by default one for each processor."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="With --past: gets the results of each file; those that are there are not made "
            "again. By default reevaluated/ALIAS-DIGEST.",
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="With --past: all results in one file, for `scouter compare`."
        ),
    ] = None,
    judge: OwnJudge = None,
    providers: Providers = None,
    judge_cache: AnswerCache = None,
    judge_budget: JudgeBudget = None,
    judge_timeout: JudgeTimeout = None,
    url: Url = None,
    token_file: TokenFile = None,
    *,
    json: Json = False,
) -> None:
    """Evaluate what is stored by a profile: again, and for the first time what has no evaluation.

    An evaluation flips if a task of both versions ends differently. New and removed tasks are
    counted apart, because there is nothing to compare them with.

    Traces that the `watch` of the profile selects, records that came before their profile, and
    sessions get a first evaluation if they have none, marked backfill: a reference for drift, and
    no news. A filter other than --since leaves these out. What may still go on is left out.

    Without --apply nothing changes, and a file is not registered. With --apply it is registered
    as by `scouter profile push` without --activate. Needs the scope admin, and for a file the scope
    profile too. The exit code is 0, also if evaluations flip, unless --check is given. It is 1 if
    nothing was evaluated.

    With --json the standard output has one line for each flip, and the counts go to the standard
    error.

    With --past the profile is a file, and judges the records of its space and alias in that folder
    as they are, each file in a process. Nothing is compared with what was found before: save two
    runs for that. If it is interrupted, the same command goes on with the files that are left. A
    profile that calls judges is evaluated in one process; --judge and the options behind it are as
    those of `scouter eval`.

        scouter reevaluate --profile geographer.json --since 7d
        scouter reevaluate --profile geographer.json --outcome failed --check
        scouter reevaluate --profile geographer.json --apply
        scouter reevaluate --profile geographer.json --past /srv/past --workers 8 --save new.json
    """
    judging = {
        "judge": judge, "providers": providers, "judge_cache": judge_cache,
        "judge_budget_usd": judge_budget, "judge_timeout_s": judge_timeout,
    }  # fmt: skip
    if past is not None:
        others = {
            "--apply": apply, "--check": check, "--outcome": outcome, "--record": record,
            "--session": session, "--trace": trace, "--json": json,
        }  # fmt: skip
        began = moment(since, "--since")
        _past(profile, past, engine, workers, out, save, began, judging, others)
        return
    if engine != "local" or any(
        each is not None for each in (workers, out, save, *judging.values())
    ):
        raise ConfigError(
            "--engine, --workers, --out, --save and the options of judges need --past"
        )
    sums, missing = _Sums(is_json=json), _Sums(is_json=json, what="for the first time")
    found, began = _read(profile), moment(since, "--since")
    filters = {"outcome": outcome, "record_id": record, "session_id": session, "trace_id": trace}
    is_whole = not any(filters.values())
    with connect(url, token_file) as client:
        if apply and not isinstance(found, str):
            known = client.register_profile(found)
            taken = "; its alert and sampling are now the file's" if known.is_active else ""
            typer.echo(f"registered {line_of(known)}{taken}", err=json)
            found = known.uid
        ask = partial(client.reevaluate, found, since=began, dry_run=not apply, limit=_PAGE)
        _read_pages(partial(ask, **filters), sums, is_applied=apply)
        if is_whole:
            _read_pages(partial(ask, missing=True, limit=_MISSING), missing, is_applied=apply)
    sums.tell("nothing was changed" if not apply else f"{sums.stored} revisions stored")
    if missing.checked or missing.still_open:
        missing.tell_missing(is_applied=apply)
    if not (sums.checked or missing.checked):
        why = (
            "nothing that is stored fits this profile: no record is of its alias, and its `watch`, "
            "if it has one, selects no trace"
        )
        if missing.still_open:
            why = "what there is may still go on; try again in ten seconds"
        typer.echo(f"nothing was judged: {why}", err=True)
    if not (sums.checked or missing.checked) or (check and sums.flipped):
        raise typer.Exit(1)


def _read_pages(ask: "Callable[..., Reevaluation]", sums: "_Sums", *, is_applied: bool) -> None:
    """Read all pages of one kind, and show a person who watches how far it is."""
    cursor: str | None = None
    while True:
        try:
            page = ask(cursor=cursor)
        except ScouterError:
            if sums.checked:  # the error stands on a line of its own, behind what is done
                typer.echo(f"; {sums.stored} stored" if is_applied else "", err=True)
            raise
        sums.add(page)
        line = f"\r{sums.checked} evaluated {sums.what}, {sums.flipped} flipped"
        typer.echo(line, err=True, nl=False)
        cursor = page.next_cursor
        if cursor is None:
            break
    typer.echo("", err=True)


def _past(
    name: str,
    past: Path,
    engine: str,
    workers: int | None,
    out: Path | None,
    save: Path | None,
    since: str | None,
    judging: Mapping[str, Any],
    others: Mapping[str, object],
) -> None:
    """Judge past days; see `reevaluate`."""
    for option, value in others.items():
        if value:
            raise ConfigError(f"{option} is about a collector's records; leave out --past, or it")
    profile = _read(name)
    if isinstance(profile, str):
        raise ConfigError(f"{name!r} is no profile file, which --past needs")
    from scouter.cli.reevaluate_past import PastRun, reevaluate_past  # the engine is large
    from scouter.client.judge_cache import named_cache, usual_collector_cache
    from scouter.replay.named_run import NamedJudging

    given: dict[str, Any] = {**judging, "judge_cache": named_cache(judging["judge_cache"])}
    named = NamedJudging(**given, usual_cache=usual_collector_cache())
    run = PastRun(
        past=past, engine=engine, workers=workers, out=out, save=save, since=since, judging=named
    )
    if not reevaluate_past(profile, run):
        typer.echo("nothing was judged: no record is of the profile's space and alias", err=True)
        raise typer.Exit(1)


def _no_flips() -> "list[Flip]":
    return []


@dataclass(slots=True, kw_only=True)
class _Sums:
    """Sums over all pages."""

    what: str = "again"
    """Number of its evaluations."""
    is_json: bool
    """Flips go to the standard output for programs, and the rest to the standard error."""
    checked: int = 0
    flipped: int = 0
    stored: int = 0
    gone: int = 0
    moved: int = 0
    still_open: int = 0
    new: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    removed: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    shown: "list[Flip]" = field(default_factory=_no_flips)

    def add(self, page: "Reevaluation") -> None:
        """Add a page."""
        self.checked, self.flipped = self.checked + page.checked, self.flipped + page.flipped
        self.stored, self.gone = self.stored + page.stored, self.gone + page.gone
        self.moved += page.moved
        self.still_open += page.still_open
        _add(self.new, page.new_tasks)
        _add(self.removed, page.removed_tasks)
        if self.is_json:
            print_lines(page.items)
        else:
            self.shown += page.items[: _SHOWN - len(self.shown)]

    def tell(self, stored: str) -> None:
        """Print the first flips and the counts."""
        if self.shown:
            print_table(("record", "before", "after", "tasks", "trace"), map(_row, self.shown))
        if self.flipped > len(self.shown) and not self.is_json:
            self._say(f"and {self.flipped - len(self.shown)} more")
        lost = f"; the records of {self.gone} are no longer stored" if self.gone else ""
        self._say(f"{self.flipped} of {self.checked} evaluations flip; {stored}{lost}")
        self._tell_tasks("new task", self.new)
        self._tell_tasks("removed task", self.removed)
        if self.moved:
            self._say(
                f"{self.moved} evaluations have another outcome for new and removed tasks alone"
            )

    def tell_missing(self, *, is_applied: bool) -> None:
        """Print what became of traces, records and sessions without an evaluation."""
        done = f"{self.stored} stored" if is_applied else "nothing was changed"
        still = f"; {self.still_open} may still go on, and are left out" if self.still_open else ""
        self._say(f"{self.checked} evaluated for the first time, as backfill; {done}{still}")
        self._tell_tasks("task", self.new)

    def _tell_tasks(self, word: str, counts: Mapping[str, Counter[str]]) -> None:
        for task, outcomes in counts.items():
            ends = ", ".join(f"{n} {outcome}" for outcome, n in sorted(outcomes.items()))
            self._say(for_output(f"{word} {task}: {ends}"))

    def _say(self, line: str) -> None:
        typer.echo(line, err=self.is_json)


def _read(profile: str) -> "AgentEvalProfile | str":
    """Read a profile that is a file; what is none names a registered one.

    Raises:
        ConfigError: There is no such file, and the name can be nothing else.
    """
    from scouter.drift.profile import find_profile

    if not Path(profile).is_file():
        if Path(profile).suffix in _FILES:
            find_profile(profile)
        return profile
    from scouter.drift.profile import AgentEvalProfile

    return AgentEvalProfile.from_file(profile)


def _add(counts: "dict[str, Counter[str]]", page: "Iterable[TaskCount]") -> None:
    for each in page:
        counts.setdefault(each.task_id, Counter()).update(each.outcomes)


def _row(flip: "Flip") -> tuple[str, ...]:
    tasks = ", ".join(f"{each.task_id}: {each.before} -> {each.after}" for each in flip.tasks)
    return flip.record_id or flip.uid, flip.before, flip.after, tasks, flip.trace_id or ""
