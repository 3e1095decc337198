"""Flips: a check that passes in one attempt at a scenario and not in another, and whose they are.

A flip is the agent's if the check read another answer, other tool calls or another context, and the
judge's if it read the same. No other check can come to another result for the same input.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias

from pydantic import BaseModel, ConfigDict, JsonValue

from scouter.evaluate.judge.shorten import JudgeExchange, is_cut
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.attempt import Conversation, ScenarioAttempt
from scouter.evaluate.results.record_result import is_counted
from scouter.evaluate.results.run import RunResults
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.model.agent_work import why_unreported
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
    Owner.JUDGE: "called with the same question, it answered otherwise: scouter judge calibrate "
    "--repeats 3 measures it, samples: 3 in the task takes the majority",
    Owner.USER: "the agent got another message",
    Owner.UNKNOWN: "the results do not store what the check read",
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
    """Attempts of which the results do not store what the check read."""
    is_flaky: bool
    """True if it passed and failed in one and the same run."""

    @property
    def counts(self) -> dict[Owner, int]:
        """Attempts by owner; without zeros."""
        return {owner: count for owner in Owner if (count := getattr(self, owner.name.lower()))}

    @property
    def text(self) -> str:
        """Whose they are, in words."""
        if len(self.counts) == 1:
            return str(next(iter(self.counts)))
        return ", ".join(f"{count} {owner}" for owner, count in self.counts.items())


def flips_text(found: Iterable[Flips]) -> str:
    """Say in one line whose the flips of a run are, and what to do; empty without any."""
    sums: Counter[Owner] = Counter()
    for row in found:
        sums.update(row.counts)
    parts = [f"{sums[owner]} {owner} ({lead})" for owner, lead in _LEADS.items() if sums[owner]]
    return f"flips between attempts: {'; '.join(parts)}" if parts else ""


class _Key(NamedTuple):
    """One check at one place: of a scenario's records of an alias, the one with this number."""

    scenario_id: str
    alias: str | None
    task_id: str
    place: int


@dataclass(eq=False)
class _Attempt:
    """What an attempt said, as texts that are made once; None where that is not stored."""

    item: ScenarioAttempt | Conversation | None

    @cached_property
    def answer(self) -> str | None:
        """Everything that the agent said."""
        item = self.item
        if item is None or (item.response is None and not item.turns):
            return None
        return _text([item.response, *(turn.get("agent") for turn in item.turns)])

    @cached_property
    def user(self) -> str | None:
        """All messages to the agent."""
        turns = () if self.item is None else self.item.turns
        return _text([turn.get("user") for turn in turns]) if turns else None

    @cached_property
    def calls(self) -> str | None:
        """The tool calls with their arguments; None if some may be missing."""
        if self.item is None:
            return None
        traces: dict[str, list[Span]] = {}
        for span in self.item.traces:
            traces.setdefault(span.trace_id, []).append(span)
        works = [agent_work(spans) for spans in traces.values()]
        if any(work.has_agent and why_unreported(work) for work in works):
            return None
        return _text([[call.name, call.arguments] for work in works for call in work.tool_calls])


def _text(value: JsonValue) -> str:
    return json.dumps(value, sort_keys=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """One check in one attempt."""

    made: _Attempt
    passed: bool | None
    """None where it is in no rate."""
    owner: Owner | None = None
    """Known without a look at what it read."""
    is_judge: bool = False
    follows_judge: bool = False
    """A judge task came before, which it may read."""
    exchange: JudgeExchange | None = None
    context: JsonValue = None
    """That of its record, if it is stored."""


_Checks: TypeAlias = dict[_Key, list[_Seen]]
_Attempts: TypeAlias = dict[str, dict[int, _Attempt]]
"""By scenario and number."""


def flips(results: RunResults, baseline: RunResults | None = None) -> tuple[Flips, ...]:
    """Say whose the flips of a run are.

    Args:
        results: The run, with what was asked again.
        baseline: The run that it is compared with, as today's checks judge it.

    Returns:
        One row for each check that passed in an attempt and not in another one of the run, or that
        did not pass though a judge read the same as in the baseline; in the order of the results.

    Cost: linear in the number of task results; what attempts said is read where a check flipped.
    """
    found: _Checks = {}
    own = [_read(each, found) for each in (results, results.reasked) if each is not None]
    for attempts in own:
        _add_missing(attempts, found)
    before: _Checks = {}
    if baseline is not None:
        _read(baseline, before)
    rows: dict[tuple[str, str | None, str], dict[_Attempt, Owner]] = {}
    flaky: set[tuple[str, str | None, str]] = set()
    for key, seen in found.items():
        bad = [each for each in seen if each.passed is False]
        good = [each for each in seen if each.passed]
        name = key[:3]
        if bad and good:
            flaky.add(name)
        good += [each for each in before.get(key, ()) if each.passed]
        for each in bad if good else ():
            owners = rows.setdefault(name, {})
            if owners.get(each.made) is not Owner.AGENT:
                owners[each.made] = _owner(key, each, good)
    return tuple(
        Flips(
            scenario_id=name[0], alias=name[1], task_id=name[2], is_flaky=name in flaky,
            **{owner.name.lower(): [*owners.values()].count(owner) for owner in Owner},
        )
        for name, owners in rows.items()
        if name in flaky or Owner.JUDGE in owners.values()
    )  # fmt: skip


# --- reading ------------------------------------------------------------------------------------


def _read(results: RunResults, found: _Checks) -> _Attempts:
    """Add the checks of a run, and give its attempts."""
    attempts: _Attempts = {}
    for item in (*results.conversations, *results.scenario_results):
        attempts.setdefault(item.scenario_id, {})[item.attempt] = _Attempt(item)
    places: Counter[tuple[str | None, str, int]] = Counter()
    for alias, rows in sorted(results.parts, key=lambda part: part[0] is not None):
        for row in rows:
            name, record = row.scenario_id, row.record
            if name is not None:
                made = attempts.setdefault(name, {}).setdefault(row.attempt, _Attempt(None))
                context = results.contexts.get(record.record_uid)
                key = _Key(name, alias, "", places[alias, name, row.attempt])
                places[alias, name, row.attempt] += 1
                _add(key, made, record.tasks, context, found)
    return attempts


def _add_missing(attempts: _Attempts, found: _Checks) -> None:
    """An attempt that left nothing to check, as it raised or made no record, did not pass."""
    for key, seen in found.items():
        there = {each.made for each in seen}
        for made in attempts.get(key.scenario_id, {}).values():
            if made.item is not None and made not in there:
                reason = made.item.error_reason if isinstance(made.item, ScenarioAttempt) else None
                owner = Owner.USER if reason is Reason.USER else Owner.AGENT
                seen.append(_Seen(made=made, passed=False, owner=owner))


def _add(
    key: _Key,
    made: _Attempt,
    tasks: Sequence[EvalTaskResult],
    context: JsonValue,
    found: _Checks,
) -> None:
    """Add the checks at one place of an attempt."""
    first = min((task.stage for task in tasks if _is_judge(task)), default=None)
    for task in tasks:
        is_silent = task.outcome is Outcome.ERRORED and task.reason is Reason.PROVIDER
        seen = _Seen(
            made=made,
            passed=task.outcome is Outcome.PASSED if is_counted(task) else None,
            owner=Owner.JUDGE if is_silent else None,
            is_judge=_is_judge(task) or not task.task_type,  # a summary does not tell its type
            follows_judge=first is not None and task.stage > first,
            exchange=task.exchange,
            context=context,
        )
        found.setdefault(key._replace(task_id=task.task_id), []).append(seen)


def _is_judge(task: EvalTaskResult) -> bool:
    return task.task_type in JUDGE_TYPES or task.usage is not None


# --- whose --------------------------------------------------------------------------------------


def _owner(key: _Key, bad: _Seen, good: Iterable[_Seen]) -> Owner:
    """Say whose an attempt is that did not pass."""
    if bad.owner is not None:
        return bad.owner
    found = {_of_pair(key, bad, each) for each in good}
    order = (Owner.JUDGE, Owner.UNKNOWN, Owner.AGENT, Owner.USER)
    return next(owner for owner in order if owner in found)


def _of_pair(key: _Key, bad: _Seen, good: _Seen) -> Owner:
    one, other = bad.made, good.made
    exchanges = bad.exchange, good.exchange
    if (
        bad.is_judge
        and exchanges[0]
        and exchanges[1]
        and exchanges[0].question == exchanges[1].question != ""
    ):
        return Owner.JUDGE
    if _differ(one.user, other.user):
        return Owner.USER
    is_other = exchanges[0] and exchanges[1] and exchanges[0].messages != exchanges[1].messages
    if not bad.follows_judge and (is_other or not bad.is_judge):
        return Owner.AGENT
    is_other = _differ(one.answer, other.answer) or _differ(one.calls, other.calls)
    if is_other or _differ(bad.context, good.context):
        return Owner.AGENT
    read = [one.calls, other.calls]
    read += [one.answer, other.answer] if key.alias is None else [_whole(bad), _whole(good)]
    return Owner.UNKNOWN if None in read else Owner.JUDGE


def _differ(one: JsonValue, other: JsonValue) -> bool:
    """Tell whether both are known, and not the same."""
    return one is not None and other is not None and one != other


def _whole(seen: _Seen) -> str | None:
    """The context of a record as a text; None if nobody knows all of it."""
    context = seen.context
    is_part = context is None or (isinstance(context, str) and is_cut(context))
    return None if is_part else _text(context)
