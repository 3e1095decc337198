"""The past days of a fleet, judged by a profile: one function for each file, in any process."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from scouter.evaluate.engine.batch import evaluate_in_turn
from scouter.evaluate.files.versioned import write_whole
from scouter.evaluate.results.provenance import Provenance, collect_provenance
from scouter.evaluate.results.record_result import RecordResult
from scouter.evaluate.spans.parquet import parquet_spans, pyarrow
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.json_value import plain_texts
from scouter.model.record import EvalRecord
from scouter.model.span import Span

_BATCH: Final = 500
"""Records whose traces are in memory together."""
_COLUMNS: Final = (
    "uid", "record_id", "session_id", "trace_id", "created_ns", "tags", "context", "space", "alias",
)  # fmt: skip
_RUN: Final = "run.json"
"""Says what the results of a folder are of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTask:
    """A file of records to judge; it goes to other processes."""

    records: Path
    spans: tuple[Path, ...]
    """Files that may have spans of these records: those of its day, and of the days beside it."""
    results: Path
    """Gets the results; where it is, this is done."""
    profile: str
    """The profile, as JSON."""


@dataclass(slots=True, kw_only=True)
class Counts:
    """Outcomes of some records and of their tasks."""

    records: int = 0
    outcomes: Counter[str] = field(default_factory=Counter[str])
    tasks: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    """By task the number of results of each outcome."""

    def add(self, other: "Counts") -> None:
        """Add those of other records."""
        self.records += other.records
        self.outcomes.update(other.outcomes)
        for task, counts in other.tasks.items():
            self.tasks.setdefault(task, Counter()).update(counts)


def judge_file(task: FileTask) -> Counts:
    """Judge the records of a file, and write their results; count them if they are there.

    Raises:
        ConfigError: The profile is wrong, or pyarrow is missing.
        DataError: A file is broken.

    Cost: linear; the traces of 500 records are in memory, and the results of the file.
    """
    if not task.results.is_file():
        profile = AgentEvalProfile.model_validate_json(task.profile)
        started = time.time_ns()
        judged = list(_judged(task, profile))
        results = EvalResults(judged, provenance=_provenance(profile, started, time.time_ns()))
        task.results.parent.mkdir(parents=True, exist_ok=True)
        results.save(task.results)
    else:
        judged = EvalResults.load(task.results).records
    return _counts(judged)


def _judged(task: FileTask, profile: AgentEvalProfile) -> Iterator[RecordResult]:
    plan = profile.plan
    for rows in _batches(task.records):
        records = [
            _record(row) for row in rows
            if row["space"] == profile.space and row["alias"] == profile.alias
        ]  # fmt: skip
        trees: dict[str, SpanTree] = {}
        if plan.reads_spans:
            ids = {each.trace_id for each in records if each.trace_id is not None}
            trees = {trace_id: SpanTree(spans) for trace_id, spans in _traces(task, profile, ids)}
        yield from evaluate_in_turn(plan, records, trees)


def _traces(
    task: FileTask, profile: AgentEvalProfile, ids: set[str]
) -> Iterator[tuple[str, Sequence[Span]]]:
    found: dict[str, list[Span]] = {each: [] for each in ids}
    for path in task.spans if ids else ():
        for span in parquet_spans(path, ids, profile.space):
            found[span.trace_id].append(span)
    yield from found.items()


def _batches(path: Path) -> Iterator[list[dict[str, Any]]]:
    with pyarrow().parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(_BATCH, columns=list(_COLUMNS)):
            yield batch.to_pylist()


def _record(row: Mapping[str, Any]) -> EvalRecord:
    """A stored record as the engine takes it."""
    pairs = (each.split("=", 1) for each in row["tags"] or ())
    context = _json(row["context"])
    return EvalRecord(
        {} if context is None else context,
        record_id=row["record_id"],
        session_id=row["session_id"],
        trace_id=row["trace_id"],
        tags={key.replace("%3D", "=").replace("%25", "%"): value for key, value in pairs},
        uid=row["uid"],
        created_ns=row["created_ns"],
    )


def _json(text: str) -> object:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:  # half characters, or integers beyond 64 bits
        import json

        return plain_texts(json.loads(text))


def _provenance(profile: AgentEvalProfile, started_ns: int, ended_ns: int) -> Provenance:
    return collect_provenance(
        started_ns=started_ns,
        ended_ns=ended_ns,
        profile_digests={"": profile.digest},
        profile_tasks={"": profile.plan.tasks},
    )


def _counts(judged: Sequence[RecordResult]) -> Counts:
    counts = Counts(records=len(judged))
    for record in judged:
        counts.outcomes[record.outcome.value] += 1
        for task in record.tasks:
            counts.tasks.setdefault(task.task_id, Counter())[task.outcome.value] += 1
    return counts


# --- runs ----------------------------------------------------------------------------------------


def past_tasks(
    past: Path, profile: AgentEvalProfile, out: Path, since: date | None = None
) -> list[FileTask]:
    """The files of a folder of past days that a profile judges.

    Args:
        past: The folder.
        profile: Without judges, and without tasks of sessions.
        out: Gets the results. If it has some of the same profile and folder, these are not made
            again.
        since: The first day; None for all of them.

    Raises:
        ConfigError: The folder has no day, the results there are of something else, or the profile
            has tasks that need more than one file.
    """
    if profile.plan.has_judges:
        raise ConfigError(
            "the profile asks a judge, and the budget of processes that share nothing cannot be "
            "held: reevaluate it over the API of a collector, without --past"
        )
    if profile.plan.session is not None:
        raise ConfigError(
            "the profile has tasks about sessions, and the records of one may be in several files: "
            "reevaluate it over the API of a collector, without --past"
        )
    days = {
        date.fromisoformat(each.name.removeprefix("day=")): each
        for each in sorted(past.glob("day=????-??-??"))
    }
    chosen = [day for day in days if since is None or day >= since]
    if not chosen:
        raise ConfigError(f"{past}: no folder day=YYYY-MM-DD{' since then' if days else ''}")
    _claim(out, {"past": str(past.resolve()), "profile": profile.digest, "alias": profile.alias})
    text = profile.model_dump_json()
    return [
        FileTask(
            records=path,
            spans=tuple(
                spans
                for beside in (day - timedelta(1), day, day + timedelta(1))
                if beside in days
                for spans in sorted(days[beside].glob("spans-*.parquet"))
            ),
            results=out / days[day].name / f"{path.stem}.json",
            profile=text,
        )
        for day in chosen
        for path in sorted(days[day].glob("records-*.parquet"))
    ]


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
        raise ConfigError(f"{out} has results of another profile or folder; give another --out")


Engine = Callable[[Sequence[FileTask], int], Iterator[Counts]]
"""Does tasks in some processes, and gives the counts of each as it is done."""


def run_local(tasks: Sequence[FileTask], workers: int) -> Iterator[Counts]:
    """Do tasks in processes of this machine.

    Raises:
        TransientError: One of the processes was killed.
    """
    if workers == 1:
        yield from map(judge_file, tasks)
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
    told = [each.provenance for each in found if each.provenance is not None]
    whole = told[0].model_copy(
        update={
            "started_ns": min(each.started_ns for each in told),
            "ended_ns": max(each.ended_ns for each in told),
        }
    )
    return EvalResults([row for each in found for row in each.records], provenance=whole)
