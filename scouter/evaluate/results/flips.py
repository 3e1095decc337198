"""Flips: a check that passes in one attempt at a scenario and not in another, and whose they are.

A flip is the agent's if the check read another answer, other tool calls or another context, and the
judge's if it read the same. No other check can come to another result for the same input.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from hashlib import sha256
from typing import Final, NamedTuple, TypeAlias

from pydantic import BaseModel, ConfigDict, JsonValue

from scouter.evaluate.judge.shorten import is_cut
from scouter.evaluate.judge.talk import JudgeTalk
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.attempt import Conversation, ScenarioAttempt, TaskSummary
from scouter.evaluate.results.counting import is_counted
from scouter.evaluate.results.run import RunResults
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.model.agent_work import why_untold
from scouter.model.genai.work import agent_work
from scouter.model.span import Span

JUDGE_TYPES: Final = frozenset({"LLMJudge", "QA", "Accuracy"})


class Owner(StrEnum):
    """Whose a flip is."""

    AGENT = "the agent's"
    JUDGE = "the judge's"
    USER = "the simulated user's"
    UNKNOWN = "not known"


_LEADS: Final = {
    Owner.AGENT: "another answer or trajectory: read its trace",
    Owner.JUDGE: "asked the same, it answered otherwise: scouter judge calibrate --repeats 3 "
    "measures it, samples: 3 in the task takes the majority",
    Owner.USER: "the agent was asked something else",
    Owner.UNKNOWN: "the results do not hold what the check read",
}


class Flips(BaseModel):
    """One check at one scenario: its attempts that did not pass, beside those that did."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    scenario_id: str
    alias: str | None
    """None for the scenario's own tasks."""
    task_id: str
    agent: int = 0
    """Attempts whose answer, tool calls or context are others than in all attempts that passed."""
    judge: int = 0
    """Attempts in which a judge read the same as in one that passed."""
    user: int = 0
    """Attempts in which the simulated user said something else."""
    unknown: int = 0
    """Attempts of which the results do not hold what the check read."""
    is_flaky: bool
    """True if it passed and failed in one and the same run."""

    @property
    def counts(self) -> dict[Owner, int]:
        """Attempts by owner; without zeros."""
        found = {
            Owner.AGENT: self.agent, Owner.JUDGE: self.judge,
            Owner.USER: self.user, Owner.UNKNOWN: self.unknown,
        }  # fmt: skip
        return {owner: count for owner, count in found.items() if count}

    @property
    def text(self) -> str:
        """Whose they are, in words."""
        if len(self.counts) == 1:
            return str(next(iter(self.counts)))
        return ", ".join(f"{count} {owner}" for owner, count in self.counts.items())


def flips_text(found: Iterable[Flips]) -> str:
    """Say in one line whose the flips of a run are, and what to do; empty without any."""
    sums: dict[Owner, int] = {}
    for row in found:
        for owner, count in row.counts.items():
            sums[owner] = sums.get(owner, 0) + count
    if not sums:
        return ""
    parts = [f"{sums[owner]} {owner} ({lead})" for owner, lead in _LEADS.items() if owner in sums]
    return f"flips between attempts: {'; '.join(parts)}"


class _Key(NamedTuple):
    """One check at one place: of a scenario's records of an alias, the one with this number."""

    scenario_id: str
    alias: str | None
    task_id: str
    place: int


class _Made(NamedTuple):
    """One attempt at a scenario, in one of the runs."""

    run: "_Run"
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """One check in one attempt."""

    made: _Made
    passed: bool | None
    """None where it is in no rate."""
    owner: Owner | None = None
    """Known without a look at what it read."""
    is_judge: bool = False
    follows_judge: bool = False
    """A judge task came before, which it may read."""
    talk: JudgeTalk | None = None
    uid: str = ""


_Checks: TypeAlias = dict[_Key, list[_Seen]]


def flips(results: RunResults, baseline: RunResults | None = None) -> tuple[Flips, ...]:
    """Say whose the flips of a run are.

    Args:
        results: The run, with what was asked again.
        baseline: The run that it is compared with. Its attempts count where the same check read
            them.

    Returns:
        One row for each check that passed in an attempt and not in another one of the run, or that
        did not pass though a judge read the same as in the baseline; in the order of the results.

    Cost: linear in the number of task results; what attempts said is read where a check flipped.
    """
    own = [_Run(each) for each in (results, results.reasked) if each is not None]
    found: _Checks = {}
    for run in own:
        _read(run, found)
    for run in own:
        _add_missing(run, found)
    before: _Checks = {}
    if baseline is not None:
        _read(_Run(baseline), before)
    rows: dict[tuple[str, str | None, str], dict[_Made, Owner]] = {}
    flaky: set[tuple[str, str | None, str]] = set()
    for key, seen in found.items():
        bad = [each for each in seen if each.passed is False]
        good = [each for each in seen if each.passed]
        name = key[:3]
        if bad and good:
            flaky.add(name)
        if baseline is not None and _is_same_check(key, results, baseline):
            good += [each for each in before.get(key, ()) if each.passed]
        for each in bad if good else ():
            owners = rows.setdefault(name, {})
            owner = _owner(key, each, good)
            known = owners.get(each.made, owner)
            owners[each.made] = owner if known is not Owner.AGENT else known
    return tuple(
        Flips(
            scenario_id=name[0], alias=name[1], task_id=name[2], is_flaky=name in flaky,
            **{field: sum(each is owner for each in owners.values()) for owner, field in _FIELDS},
        )
        for name, owners in rows.items()
        if name in flaky or Owner.JUDGE in owners.values()
    )  # fmt: skip


_FIELDS: Final = (
    (Owner.AGENT, "agent"), (Owner.JUDGE, "judge"), (Owner.USER, "user"),
    (Owner.UNKNOWN, "unknown"),
)  # fmt: skip


def _is_same_check(key: _Key, results: RunResults, baseline: RunResults) -> bool:
    """Tell whether both runs asked the same judge the same."""
    now, before = results.provenance, baseline.provenance
    if now.judge != before.judge:
        return False
    if key.alias is None:
        return now.scenarios_digest == before.scenarios_digest
    return now.profile_digests.get(key.alias) == before.profile_digests.get(key.alias)


# --- reading ------------------------------------------------------------------------------------


def _read(run: "_Run", found: _Checks) -> None:
    for item in run.results.scenario_results:
        made = _Made(run, item.attempt)
        rows = () if item.eval_results is None else item.eval_results.records
        tasks = rows[0].tasks if rows else item.task_results
        for key, seen in _checks(item.scenario_id, None, 0, tasks, made, ""):
            found.setdefault(key, []).append(seen)
    places: dict[tuple[str, str, int], int] = {}
    for alias, rows in run.results.dataset_results.items():
        for row in rows:
            name = row.scenario_id
            if name is None:
                continue
            place = places.get((alias, name, row.attempt), 0)
            places[alias, name, row.attempt] = place + 1
            made, record = _Made(run, row.attempt), row.record
            for key, seen in _checks(name, alias, place, record.tasks, made, record.record_uid):
                found.setdefault(key, []).append(seen)


def _add_missing(run: "_Run", found: _Checks) -> None:
    """An attempt that left nothing to check, as it raised or made no record, did not pass."""
    attempts: dict[str, list[int]] = {}
    for name, attempt in run.items:
        attempts.setdefault(name, []).append(attempt)
    for key, seen in found.items():
        there = {each.made.attempt for each in seen if each.made.run is run}
        for attempt in attempts.get(key.scenario_id, ()):
            if attempt not in there:
                item = run.items[key.scenario_id, attempt]
                reason = item.error_reason if isinstance(item, ScenarioAttempt) else None
                owner = Owner.USER if reason is Reason.USER else Owner.AGENT
                seen.append(_Seen(made=_Made(run, attempt), passed=False, owner=owner))


def _checks(
    scenario_id: str,
    alias: str | None,
    place: int,
    tasks: Iterable[EvalTaskResult | TaskSummary],
    made: _Made,
    uid: str,
) -> Iterator[tuple[_Key, _Seen]]:
    listed = list(tasks)
    first = min((_stage(task) for task in listed if _is_judge(task)), default=None)
    for task in listed:
        is_full = isinstance(task, EvalTaskResult)
        owner = None
        if task.outcome is Outcome.ERRORED and task.reason is Reason.PROVIDER:
            owner = Owner.JUDGE
        yield _Key(scenario_id, alias, task.task_id, place), _Seen(
            made=made,
            passed=task.outcome is Outcome.PASSED if is_counted(task) else None,
            owner=owner,
            is_judge=_is_judge(task) or not is_full,
            follows_judge=first is not None and _stage(task) > first,
            talk=task.talk if is_full else None,
            uid=uid,
        )  # fmt: skip


def _is_judge(task: EvalTaskResult | TaskSummary) -> bool:
    kind = task.task_type if isinstance(task, EvalTaskResult) else ""
    return kind in JUDGE_TYPES or task.usage is not None


def _stage(task: EvalTaskResult | TaskSummary) -> int:
    return task.stage if isinstance(task, EvalTaskResult) else 0


# --- whose --------------------------------------------------------------------------------------


def _owner(key: _Key, bad: _Seen, good: Iterable[_Seen]) -> Owner:
    """Say whose an attempt is that did not pass."""
    if bad.owner is not None:
        return bad.owner
    found = {_of_pair(key, bad, each) for each in good}
    for owner in (Owner.JUDGE, Owner.UNKNOWN, Owner.AGENT):
        if owner in found:
            return owner
    return Owner.USER


def _of_pair(key: _Key, bad: _Seen, good: _Seen) -> Owner:
    if bad.is_judge and _is_same_talk(bad.talk, good.talk):
        return Owner.JUDGE
    if _differ(key, bad, good, _Run.user):
        return Owner.USER
    is_other = bad.is_judge and _is_other_talk(bad.talk, good.talk)
    if not bad.follows_judge and (is_other or not bad.is_judge):
        return Owner.AGENT
    said = (_Run.answer, _Run.calls)
    if any(_differ(key, bad, good, each) for each in said) or _contexts(bad, good) is False:
        return Owner.AGENT
    both = [each.made for each in (bad, good)]
    is_held = all(made.run.calls(key, made.attempt) is not None for made in both)
    if key.alias is None:
        is_held &= all(made.run.answer(key, made.attempt) is not None for made in both)
    else:
        is_held &= _contexts(bad, good) is True
    return Owner.JUDGE if is_held else Owner.UNKNOWN


def _differ(
    key: _Key, bad: _Seen, good: _Seen, part: "Callable[[_Run, _Key, int], str | None]"
) -> bool:
    """Tell whether a part is known of both attempts, and another one."""
    one, other = (part(each.made.run, key, each.made.attempt) for each in (bad, good))
    return one is not None and other is not None and one != other


def _contexts(bad: _Seen, good: _Seen) -> bool | None:
    """Tell whether both records have the same context; None if nobody knows."""
    one, other = (each.made.run.results.contexts.get(each.uid) for each in (bad, good))
    if one is None or other is None:
        return None
    if one != other:
        return False
    return None if isinstance(one, str) and is_cut(one) else True


def _is_same_talk(one: JudgeTalk | None, other: JudgeTalk | None) -> bool:
    return one is not None and other is not None and one.asked == other.asked != ""


def _is_other_talk(one: JudgeTalk | None, other: JudgeTalk | None) -> bool:
    return one is not None and other is not None and one.messages != other.messages


@dataclass(eq=False)
class _Run:
    """What the attempts of a run said, as digests that are made once."""

    results: RunResults
    _known: dict[tuple[str, str, int], str | None] = field(
        default_factory=dict[tuple[str, str, int], str | None]
    )

    @cached_property
    def items(self) -> Mapping[tuple[str, int], ScenarioAttempt | Conversation]:
        """Every attempt that was made."""
        items = (*self.results.conversations, *self.results.scenario_results)
        return {(item.scenario_id, item.attempt): item for item in items}

    def answer(self, key: _Key, attempt: int) -> str | None:
        """Digest of everything that the agent said; None if that is not stored."""
        item = self.items.get((key.scenario_id, attempt))
        said = [] if item is None else [turn.get("agent") for turn in item.turns]
        if item is None or (item.response is None and not said):
            return None
        return self._digest("answer", key, attempt, lambda: [item.response, *said])

    def user(self, key: _Key, attempt: int) -> str | None:
        """Digest of everything that the agent was asked; None if that is not stored."""
        item = self.items.get((key.scenario_id, attempt))
        if item is None or not item.turns:
            return None
        return self._digest("user", key, attempt, lambda: [turn.get("user") for turn in item.turns])

    def calls(self, key: _Key, attempt: int) -> str | None:
        """Digest of the tool calls with their arguments; None if some may be missing."""
        item = self.items.get((key.scenario_id, attempt))
        if item is None:
            return None
        traces: dict[str, list[Span]] = {}
        for span in item.traces:
            traces.setdefault(span.trace_id, []).append(span)
        works = [agent_work(spans) for spans in traces.values()]
        if any(work.has_agent and why_untold(work) for work in works):
            return None
        return self._digest(
            "calls", key, attempt,
            lambda: [[call.name, call.arguments] for work in works for call in work.tool_calls],
        )  # fmt: skip

    def _digest(
        self, part: str, key: _Key, attempt: int, read: Callable[[], JsonValue]
    ) -> str | None:
        at = part, key.scenario_id, attempt
        if at not in self._known:
            text = json.dumps(read(), sort_keys=True, ensure_ascii=True)
            self._known[at] = sha256(text.encode()).hexdigest()
        return self._known[at]
