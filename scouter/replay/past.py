"""The past days of a fleet, judged by a profile: one function for each file, in any process.

A session is judged with the file of its last record. Who asks judges does so in one process: it
waits for answers, and has one budget.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

import os
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, timedelta
from importlib import import_module
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any, Final

import orjson

from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError, TransientError
from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.engine.judged import evaluate_records
from scouter.evaluate.engine.sessions import session_results, sessions_of
from scouter.evaluate.files.versioned import write_whole
from scouter.evaluate.judge.port import Judge
from scouter.evaluate.outcome import Reason
from scouter.evaluate.results.provenance import collect_provenance, judge_name_of
from scouter.evaluate.results.record_result import RecordResult
from scouter.evaluate.spans.parquet import load_json, parquet_spans, pyarrow
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.pair import pair_of
from scouter.model.record import EvalRecord
from scouter.model.span import Span

_BATCH: Final = 500
"""Records whose traces are in memory together."""
_COLUMNS: Final = (
    "uid", "record_id", "session_id", "trace_id", "created_ns", "tags", "context", "space", "alias",
)  # fmt: skip
_KEYS: Final = ("session_id", "space", "alias")
_RUN: Final = "run.json"
"""Says what the results of a folder are of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTask:
    """A file of records to judge; it goes to other processes."""

    records: Path
    spans: tuple[Path, ...]
    """Files that may have spans of these records: those of its day, and of the days beside it."""
    earlier: tuple[Path, ...] = ()
    """Files with further records of the sessions that end in this one."""
    later: frozenset[str] = frozenset()
    """Sessions that go on in a later file."""
    results: Path
    """Gets the results; where it is, this is done."""
    profile: str
    """The profile, as JSON."""


@dataclass(slots=True, kw_only=True)
class Counts:
    """Outcomes of some records, and of their tasks and those of their sessions."""

    records: int = 0
    sessions: int = 0
    outcomes: Counter[str] = field(default_factory=Counter[str])
    """Of the records."""
    tasks: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    """By task the number of results of each outcome."""

    def add(self, other: "Counts") -> None:
        """Add those of other records."""
        self.records += other.records
        self.sessions += other.sessions
        self.outcomes.update(other.outcomes)
        for task, counts in other.tasks.items():
            self.tasks.setdefault(task, Counter()).update(counts)


def judge_file(task: FileTask, judge: Judge | None = None) -> Counts:
    """Judge the records of a file, and the sessions that end in it; count them if that was done.

    Args:
        task: The file; gets the results.
        judge: Answers the tasks that ask one.

    Raises:
        ConfigError: The profile is wrong, or pyarrow is missing.
        DataError: A file is broken.
        TransientError: The budget for judges is spent; nothing is written.

    Cost: linear; the traces of 500 records are in memory, and the results of the file. With tasks
        of sessions the texts of all its records, too.
    """
    if not task.results.is_file():
        profile = AgentEvalProfile.model_validate_json(task.profile)
        started = time.time_ns()
        judged = [*_judged(task, profile, judge), *_sessions(task, profile, judge)]
        if any(each.reason is Reason.BUDGET for row in judged for each in row.tasks):
            raise TransientError(
                f"the budget for judges is spent, and nothing of {task.records} is stored; the same"
                " command goes on from here, and asks nothing that the cache of answers has"
            )
        provenance = collect_provenance(
            started_ns=started,
            ended_ns=time.time_ns(),
            profile_digests={"": profile.digest},
            profile_tasks={"": profile.tasks},
            judge=judge_name_of(judge),
        )
        task.results.parent.mkdir(parents=True, exist_ok=True)
        EvalResults(judged, provenance=provenance).save(task.results)
    else:
        judged = EvalResults.load(task.results).records
    return _counts(judged)


def _judged(
    task: FileTask, profile: AgentEvalProfile, judge: Judge | None
) -> Iterator[RecordResult]:
    plan = profile.plan
    for rows in _batches(task.records):
        records = [_record(row) for row in rows if _is_of(row, profile)]
        trees: dict[str, SpanTree] = {}
        if plan.reads_spans:
            found = _traces(task, profile, records)
            trees = {trace_id: SpanTree(spans) for trace_id, spans in found.items()}
        yield from evaluate_records(plan, records, trees, judge)


def _sessions(
    task: FileTask, profile: AgentEvalProfile, judge: Judge | None
) -> Iterator[RecordResult]:
    """The sessions that end in a file, some hundred records of them at a time."""
    if (plan := profile.plan.session) is None:
        return
    found: dict[str, list[Mapping[str, Any]]] = {}
    for path in (task.records, *task.earlier):
        for row in (row for rows in _batches(path) for row in rows if _is_of(row, profile)):
            key = _session_of(row)
            if key in found or (path == task.records and key not in task.later):
                found.setdefault(key, []).append(row)
    while found:
        records: list[EvalRecord] = []
        while found and len(records) < _BATCH:
            records += map(_record, found.pop(next(iter(found))))
        spans = _traces(task, profile, records) if plan.reads_spans else {}
        sessions = sessions_of(records)
        yield from session_results(
            evaluate_records(
                plan, [each.record for each in sessions], [each.tree(spans) for each in sessions],
                judge,
            )
        )  # fmt: skip


def _is_of(row: Mapping[str, Any], profile: AgentEvalProfile) -> bool:
    return row["space"] == profile.space and row["alias"] == profile.alias


def _session_of(row: Mapping[str, Any]) -> str:
    return row["session_id"] or row["uid"]


def _traces(
    task: FileTask, profile: AgentEvalProfile, records: Iterable[EvalRecord]
) -> dict[str, list[Span]]:
    """The spans of the traces of records, by trace."""
    found: dict[str, list[Span]] = {
        each.trace_id: [] for each in records if each.trace_id is not None
    }
    for path in task.spans if found else ():
        for span in parquet_spans(path, found.keys(), profile.space):
            found[span.trace_id].append(span)
    return found


def _batches(path: Path, columns: Sequence[str] = _COLUMNS) -> Iterator[list[dict[str, Any]]]:
    with pyarrow().parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(_BATCH, columns=list(columns)):
            yield batch.to_pylist()


def _record(row: Mapping[str, Any]) -> EvalRecord:
    """A stored record as the engine takes it."""
    pairs = map(pair_of, row["tags"] or ())
    context = load_json(row["context"])
    return EvalRecord(
        {} if context is None else context,
        record_id=row["record_id"],
        session_id=row["session_id"],
        trace_id=row["trace_id"],
        tags={key: value for key, _, value in pairs},
        uid=row["uid"],
        created_ns=row["created_ns"],
    )


def _counts(judged: Sequence[RecordResult]) -> Counts:
    counts = Counts()
    for record in judged:
        if record.scope == "session":
            counts.sessions += 1
        else:
            counts.records += 1
            counts.outcomes[record.outcome.value] += 1
        for task in record.tasks:
            counts.tasks.setdefault(task.task_id, Counter())[task.outcome.value] += 1
    return counts


# --- runs ----------------------------------------------------------------------------------------


def past_tasks(
    past: Path, profile: AgentEvalProfile, out: Path, since: date | None = None, judge: str = ""
) -> list[FileTask]:
    """The files of a folder of past days that a profile judges.

    Args:
        past: The folder.
        profile: What judges.
        out: Gets the results. If it has some of the same profile and folder, these are not made
            again.
        since: The first day; None for all of them.
        judge: Name of the judge, if it is the user's own.

    Raises:
        ConfigError: The folder has no day, or the results there are of something else.

    Cost: with tasks of sessions, the ids of all named sessions are in memory.
    """
    days = {
        date.fromisoformat(each.name.removeprefix("day=")): each
        for each in sorted(past.glob("day=????-??-??"))
    }
    if not any(since is None or day >= since for day in days):
        raise ConfigError(f"{past}: no folder day=YYYY-MM-DD{' since then' if days else ''}")
    about = {"past": str(past.resolve()), "profile": profile.digest, "alias": profile.alias}
    _claim(out, {**about, "judge": judge})
    text = profile.model_dump_json()
    files = [(day, path) for day in days for path in sorted(days[day].glob("records-*.parquet"))]
    earlier, later = _across([path for _, path in files], profile)
    tasks: list[FileTask] = []
    for number, (day, path) in enumerate(files):
        if since is not None and day < since:
            continue
        further = sorted(earlier.get(number, ()))
        spans = {
            spans: None
            for of in (*(files[each][0] for each in further), day)
            for beside in (of - timedelta(1), of, of + timedelta(1))
            if beside in days
            for spans in sorted(days[beside].glob("spans-*.parquet"))
        }
        tasks.append(
            FileTask(
                records=path,
                spans=tuple(spans),
                earlier=tuple(files[each][1] for each in further),
                later=frozenset(later.get(number, ())),
                results=out / days[day].name / f"{path.stem}.json",
                profile=text,
            )
        )
    return tasks


def _across(
    files: Sequence[Path], profile: AgentEvalProfile
) -> tuple[Mapping[int, set[int]], Mapping[int, set[str]]]:
    """By file those with earlier records of its sessions, and the sessions that go on behind it."""
    earlier: defaultdict[int, set[int]] = defaultdict(set)
    later: defaultdict[int, set[str]] = defaultdict(set)
    if profile.plan.session is None:
        return earlier, later
    places: dict[str, list[int]] = {}
    for number, path in enumerate(files):
        for row in (row for rows in _batches(path, _KEYS) for row in rows):
            if row["session_id"] and _is_of(row, profile):
                known = places.setdefault(row["session_id"], [])
                if known[-1:] != [number]:
                    known.append(number)
    for session, (*before, last) in places.items():
        for each in before:
            earlier[last].add(each)
            later[each].add(session)
    return earlier, later


def _claim(out: Path, about: Mapping[str, str]) -> None:
    path, text = out / _RUN, orjson.dumps(dict(about)).decode()
    try:
        out.mkdir(parents=True, exist_ok=True)
        known = path.read_text() if path.is_file() else None
        if known is None:
            write_whole(path, text)
    except OSError as error:
        raise ConfigError(f"{out}: {error.strerror or error}") from error
    if known not in (None, text):
        raise ConfigError(
            f"{out} has results of another profile, folder or judge; give another --out"
        )


Engine = Callable[[Sequence[FileTask], int], Iterator[Counts]]
"""Does tasks in some processes, and gives the counts of each as it is done."""


def run_local(
    tasks: Sequence[FileTask], workers: int, judge: Judge | None = None
) -> Iterator[Counts]:
    """Do tasks in processes of this machine; with a judge in this one.

    Raises:
        TransientError: One of the processes was killed, or the budget for judges is spent.
    """
    if workers == 1 or judge is not None:
        yield from (judge_file(each, judge) for each in tasks)
        return
    # A process that is made anew, and no copy of this one: it may have threads.
    pool = ProcessPoolExecutor(
        min(workers, max(1, len(tasks))),
        mp_context=get_context("spawn"),
        initializer=_end_with_parent,
    )
    try:
        for done in as_completed([pool.submit(judge_file, each) for each in tasks]):
            yield done.result()
    except BrokenProcessPool as error:
        raise TransientError(
            "a process was killed, maybe for want of memory; the same command goes on from here"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _end_with_parent() -> None:
    """Have this process end with the one that made it, also if that is killed."""
    parent = parent_process()

    def wait() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def run_ray(tasks: Sequence[FileTask], workers: int) -> Iterator[Counts]:
    """Do tasks on a Ray cluster, or on one of this machine alone where `RAY_ADDRESS` is not set.

    The machines of a cluster need the same folders and the same version of this package.

    Raises:
        ConfigError: Ray is not installed.
    """
    try:
        ray: Any = import_module("ray")
    except ImportError as error:
        raise ConfigError("--engine ray needs Ray: pip install 'scouter-agents[ray]'") from error
    was_there = ray.is_initialized()
    if not was_there:
        is_own = "RAY_ADDRESS" not in os.environ
        ray.init(
            **({"num_cpus": workers, "include_dashboard": False} if is_own else {}),
            log_to_driver=False,
        )
    try:
        one = ray.remote(max_retries=3)(judge_file)
        waiting = [one.remote(each) for each in tasks]
        while waiting:
            done, waiting = ray.wait(waiting)
            yield from ray.get(done)
    finally:
        if not was_there:
            with suppress(Exception):
                ray.shutdown()


def all_results(tasks: Sequence[FileTask]) -> EvalResults:
    """The results of all tasks, which are done, as those of one run.

    Cost: all results are in memory.
    """
    found = [EvalResults.load(each.results) for each in tasks]
    reported = [each.provenance for each in found if each.provenance is not None]
    whole = reported[0].model_copy(
        update={
            "started_ns": min(each.started_ns for each in reported),
            "ended_ns": max(each.ended_ns for each in reported),
        }
    )
    rows = [row for each in found for row in each.records]
    rows.sort(key=lambda row: row.scope == "session")  # they stand behind all records
    return EvalResults(rows, provenance=whole)
