"""Attempts of several runs as one run, some of a run as one, and files to which runs are added."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

from scouter.errors import ConfigError, FileFormatError
from scouter.evaluate.results.attempt import Conversation, ScenarioAttempt
from scouter.evaluate.results.provenance import Provenance, git_dirty, git_revision
from scouter.evaluate.results.rows import Annotations, ResultRows
from scouter.evaluate.results.run import Loss, RunResults, lost_of

R = TypeVar("R", bound=RunResults)

Numbers: TypeAlias = Mapping[int, int]
"""The attempts that are stored, by their old numbers, with their new ones."""

_SAME: Final = ("git_revision", "agent", "agent_version", "judge", "simulated_user")
"""Fields of the provenance that joined runs keep only if all of them have the same value."""


def pooled(runs: Sequence[R], names: Sequence[str]) -> R:
    """Put the attempts of several runs together, as if there had been one run with more repeats.

    Args:
        runs: At least one. Their scenarios and profiles are the same.
        names: Name of each run in an error, such as its file.

    Returns:
        All attempts with numbers of their own, in the order of the runs; those at single
        scenarios stay apart. Confirmations and calibrations of judges are left out where there
        are several runs.

    Raises:
        ConfigError: Scenarios or profiles differ; names the run and the field.

    Cost: linear in the number of task results.
    """
    first, *others = runs
    if not others:
        return first
    for at, (run, name) in enumerate(zip(others, names[1:], strict=True), 1):
        for field in _differences(first, run):
            raise ConfigError(
                f"{name}: {field} differs from that of {names[0]}, so that their attempts cannot "
                "be put together; give results of the same scenarios and profiles"
            )
        if any(overlap(each, run) for each in runs[:at]):
            raise ConfigError(f"{name}: a run in it is in an earlier file, too; give each run once")
    alone = [run.reasked for run in runs if run.reasked is not None]
    update = {
        "reasked": joined(_in_line(alone)) if alone else None,
        "releases": max(run.releases for run in runs),
    }
    return joined(_in_line(runs)).model_copy(update=update)


def _in_line(runs: Sequence[R]) -> list[R]:
    """The same runs, whose attempts are numbered one after the other."""
    shifts = accumulate((run.repeats for run in runs), initial=0)
    return [
        picked(run, {at: at + shift for at in range(run.repeats)})
        for run, shift in zip(runs, shifts, strict=False)
    ]


def overlap(first: RunResults, second: RunResults) -> bool:
    """Tell whether two results have attempts in common, also those that a journal gave back.

    Spans tell by their ids. Without any spans durations tell, where half of them are the same.
    """
    spans, durations = _marks_of(first), _durations_of(first)
    other_spans, other_durations = _marks_of(second), _durations_of(second)
    if spans and other_spans:
        return bool(spans & other_spans)
    least = min(len(durations), len(other_durations))
    return 2 * len(durations & other_durations) >= max(least, 1)


def _marks_of(results: RunResults) -> set[tuple[str, str]]:
    found = (*results.scenario_results, *results.conversations)
    return {(span.trace_id, span.span_id) for item in found for span in item.traces}


def _durations_of(results: RunResults) -> set[tuple[str, int]]:
    found = (*results.scenario_results, *results.conversations)
    return {(item.scenario_id, item.duration_ns) for item in found if item.duration_ns}


def picked(results: R, numbers: Numbers) -> R:
    """Keep some attempts of a run, under other numbers.

    Fields that are not of single attempts (lost records, origin of the results) stay as they are.
    Confirmations and rates of judges go.

    Cost: linear in the number of task results.
    """
    datasets = {
        alias: rows
        for alias, found in results.dataset_results.items()
        if len(rows := _rows(found, numbers))
    }
    own = tuple(
        _renumbered(item, numbers)
        for item in results.scenario_results
        if item.attempt in numbers
    )  # fmt: skip
    uids = {record.record_uid for rows in datasets.values() for record in rows.records}
    return results.model_copy(
        update={
            "dataset_results": datasets,
            "scenario_results": own,
            "metrics": results.metrics.of(datasets, own),
            "conversations": tuple(
                item.model_copy(update={"attempt": numbers[item.attempt]})
                for item in results.conversations
                if item.attempt in numbers
            ),
            "repeats": max(numbers.values(), default=0) + 1,
            "contexts": {uid: text for uid, text in results.contexts.items() if uid in uids},
            "rounds": 1,
            "judge_rates": (),
            "confirmations": (),
            "reasked": None,
        }
    )


def joined(parts: Sequence[R]) -> R:
    """Put results together that have no attempt of a scenario in common.

    Args:
        parts: At least one; a scenario may be in some only.

    Returns:
        By scenario, then by attempt, as every run is.
    """
    scenarios = {info.scenario_id: info for part in parts for info in part.scenarios}
    places = {name: at for at, name in enumerate(scenarios)}
    aliases = dict.fromkeys(alias for part in parts for alias in part.dataset_results)
    datasets = {
        alias: _in_order(
            [part.dataset_results[alias] for part in parts if alias in part.dataset_results],
            places,
        )
        for alias in aliases
    }

    def place(item: ScenarioAttempt | Conversation) -> tuple[int, int]:
        return places.get(item.scenario_id, len(places)), item.attempt

    own = tuple(sorted((item for part in parts for item in part.scenario_results), key=place))
    lost: Counter[Loss] = Counter()
    for part in parts:
        lost.update({each.reason: each.count for each in part.lost})
    return type(parts[0])(
        dataset_results=datasets,
        scenario_results=own,
        metrics=parts[0].metrics.of(datasets, own),
        scenarios=tuple(scenarios.values()),
        conversations=tuple(
            sorted((item for part in parts for item in part.conversations), key=place)
        ),
        provenance=_provenance([part.provenance for part in parts]),
        repeats=max(part.repeats for part in parts),
        runs=sum(part.runs for part in parts),
        contexts={uid: text for part in parts for uid, text in part.contexts.items()},
        lost=lost_of(lost),
        required_tasks={
            alias: tasks for part in parts for alias, tasks in part.required_tasks.items()
        },
    )


def _rows(results: ResultRows, numbers: Numbers) -> ResultRows:
    """The rows of some attempts, renumbered."""
    attempts = results.attempts or (0,) * len(results)
    retained = [at for at, attempt in enumerate(attempts) if attempt in numbers]
    found = [numbers[attempts[at]] for at in retained]
    annotations, names = results.annotations, results.scenario_ids
    if annotations is not None:
        records = annotations.records
        records = None if records is None else tuple(records[at] for at in retained)
        annotations = Annotations(records=records)
    return type(results)(
        [results.records[at] for at in retained],
        None if names is None else [names[at] for at in retained],
        found if any(found) else None,
        annotations,
        window=results.window,
    )


def _renumbered(item: ScenarioAttempt, numbers: Numbers) -> ScenarioAttempt:
    inside = item.eval_results
    if inside is not None:
        inside = _rows(inside, numbers if inside.attempts else {0: numbers[item.attempt]})
    return item.model_copy(update={"attempt": numbers[item.attempt], "eval_results": inside})


def _in_order(parts: Sequence[ResultRows], places: Mapping[str, int]) -> ResultRows:
    """All rows: records by scenario and attempt, then sessions in the same order."""
    rows = [row for part in parts for row in part]
    rows.sort(
        key=lambda row: (
            row.record.scope == "session",
            places.get(row.scenario_id or "", len(places)),
            row.attempt,
        )
    )
    windows = [part.window for part in parts if part.window is not None]
    has_annotations = any(part.annotations is not None for part in parts)
    attempts = [row.attempt for row in rows]
    return type(parts[0])(
        [row.record for row in rows],
        [row.scenario_id for row in rows],
        attempts if any(attempts) else None,
        Annotations(records=tuple(row.annotations for row in rows)) if has_annotations else None,
        window=(min(a for a, _ in windows), max(b for _, b in windows)) if windows else None,
    )


def _provenance(found: Sequence[Provenance]) -> Provenance:
    """Join provenances: the last one, from the first beginning, without fields that differ."""
    last = found[-1]
    same = {
        name: getattr(last, name)
        if len({getattr(each, name) for each in found}) == 1
        else Provenance.model_fields[name].get_default()
        for name in _SAME
    }
    dirty = {each.git_dirty for each in found}
    return last.model_copy(
        update={
            **same,
            "git_dirty": True if True in dirty else None if None in dirty else False,
            "started_ns": min(each.started_ns for each in found),
            "ended_ns": max(each.ended_ns for each in found),
        }
    )


def _differences(first: RunResults, run: RunResults) -> Iterator[str]:
    """The fields in which two runs are about something else."""
    queries = [
        {info.scenario_id: info.initial_query for info in each.scenarios} for each in (first, run)
    ]
    for name in dict.fromkeys([*queries[0], *queries[1]]):
        if (name in queries[0]) is not (name in queries[1]):
            yield f"scenarios ({name!r} is in one of them only)"
        elif queries[0][name] != queries[1][name]:
            yield f"the initial_query of scenario {name!r}"
    tasks = [_own_tasks(each) for each in (first, run)]
    for name in queries[0]:
        known = [each[name] for each in tasks if name in each]
        if len(known) == 2 and known[0] != known[1]:
            yield f"the tasks of scenario {name!r}"
    contents = {each.provenance.scenarios_digest for each in (first, run)} - {""}
    if len(contents) > 1:
        yield "the content of the scenarios"
    digests = [each.provenance.profile_digests for each in (first, run)]
    for alias in dict.fromkeys([*digests[0], *digests[1]]):
        if digests[0].get(alias) != digests[1].get(alias):
            yield f"provenance.profile_digests of {alias!r}"


def _own_tasks(results: RunResults) -> dict[str, set[str]]:
    """Ids of each scenario's own tasks, where an attempt tells them."""
    found: dict[str, set[str]] = {}
    for item in results.scenario_results:
        found.setdefault(item.scenario_id, set()).update(task.task_id for task in item.task_results)
    return found


_MANY: Final = 10
"""Releases after which a baseline has become too slow to stop one."""


_PICKED: Final = "a baseline that is picked among runs is too good by luck"
_BEST_OF: Final = (
    "keeping the best of several runs gives false alarms: in 10 % of releases for the best of 10"
)


def save_run(results: RunResults, path: Path) -> str:
    """Write results to a file; a run of the same scenarios, profiles and version is stored there.

    Two runs are of one version if both have the same `agent_version`, or neither has one and both
    are of the same agent at the same git revision without changes.

    Args:
        results: One run.
        path: The file; made if it is not there.

    Returns:
        The fate of an earlier content, in one line; empty if there was none.

    Raises:
        OSError: The file cannot be written.

    Cost: linear in the size of the file.
    """
    if not path.is_file() or not path.stat().st_size:
        results.save(path)
        return ""
    results = _but_for(path, results)
    try:
        earlier = type(results).load(path)
    except FileFormatError:
        results.save(path)
        return f"{path}: replaced, as it had no results of a replay"
    if overlap(earlier, results):
        if earlier.runs > 1:
            retained = f"the {earlier.runs} runs that it keeps have attempts of this one"
            return f"{path}: left as it is, as {retained}; save it to another file"
        results.save(path)
        return ""
    try:
        why = another_version(earlier.provenance, results.provenance)
        retained = results if why else pooled([earlier, results], [str(path), "this run"])
    except ConfigError as error:
        why, retained = str(error).removeprefix("this run: "), results
    retained.save(path)
    if why:
        return f"{path}: replaced, as {why}; {_BEST_OF}"
    count = len(retained.scenarios)
    scenarios = f"{count:,} scenario" + ("" if count == 1 else "s")
    return f"{path}: {retained.runs} runs of {scenarios} are stored; {_PICKED}"


def join_baseline(results: RunResults, path: Path, *, is_good: bool) -> str:
    """Add a release to the baseline that it was compared with.

    Attempts of a release that nothing stopped join those of the baseline. A release that was
    stopped is counted, as each further look at one baseline needs a lower level.

    Args:
        results: The run.
        path: The baseline's file.
        is_good: True if nothing stopped the release.

    Returns:
        What became of the file, in one line.

    Raises:
        OSError: The file cannot be written.

    Cost: linear in the size of the file.
    """
    results = _but_for(path, results)
    earlier = type(results).load(path)
    is_new = bool(another_version(earlier.provenance, results.provenance))
    counted = {"releases": earlier.releases + is_new}
    if not is_good:
        earlier.model_copy(update=counted).save(path)
        return f"{path}: the run did not pass and is not added; {_usage(counted['releases'])}"
    if overlap(earlier, results):
        return f"{path}: left as it is, as it has attempts of this run"
    try:
        retained = pooled([earlier, results], [str(path), "this run"]).model_copy(update=counted)
    except ConfigError as error:
        results.save(path)
        return f"{path}: replaced, as {str(error).removeprefix('this run: ')}"
    retained.save(path)
    return f"{path}: {retained.runs} runs are stored; {_usage(retained.releases)}"


def _usage(releases: int) -> str:
    """Say how often a baseline was used, and when a new one is due."""
    noun = "release" if releases == 1 else "releases"
    text = f"{releases} {noun} compared with this baseline"
    if releases < _MANY:
        return text
    return f"{text}, and each lowers the level for the next one; save a new baseline soon"


def _but_for(path: Path, results: R) -> R:
    """Make a copy of the results that is clean if only the file itself differs from the commit.

    An earlier run may have written the file.
    """
    found = results.provenance
    here = Path.cwd()
    if not found.git_dirty or found.git_revision != git_revision(here):
        return results
    if git_dirty(here, but=path) is not False:
        return results
    clean = found.model_copy(update={"git_dirty": False})
    return results.model_copy(update={"provenance": clean})


def another_version(earlier: Provenance, now: Provenance) -> str:
    """Say why two runs may be of two versions of an agent; empty if they are of one."""
    if earlier.agent != now.agent:
        return f"it is of the agent {earlier.agent or 'unknown'!r}"
    if not now.agent:
        return "nobody knows which version of an agent made either run"
    if earlier.agent_version or now.agent_version:
        if earlier.agent_version == now.agent_version:
            return ""
        return f"its agent version is {earlier.agent_version or 'unknown'!r}"
    if earlier.git_revision is None or now.git_revision is None:
        return "no git revision tells the version of both runs (--agent-version names one)"
    if earlier.git_revision != now.git_revision:
        return f"it is of the git revision {earlier.git_revision[:12]}"
    if earlier.git_dirty is not False or now.git_dirty is not False:
        return "files differed from the git revision (--agent-version names a version)"
    return ""
