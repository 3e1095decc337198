"""Slips gold items in among a judge's questions, to see whether a judge still decides as it did.

They are sent by the worker's own loop, through its slots and the provider's entry with its
limits, prices and budgets, and past any cache. They are no records: what becomes of them is stored
in a table of its own, and counted by series of its own.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from collector.judging.gold_items import (
    GoldFile,
    GoldItem,
    GoldWindow,
    Schedule,
    gold_windows,
    item_of,
    last_complete,
)
from collector.settings.model import CollectorSettings
from collector.store.judges import GoldOutcome, GoldQuery
from collector.store.store import Store
from collector.worker.profiles import ProfileRegistry, RegisteredProfile
from scouter.agent.calibration.asking import plan_of
from scouter.agent.calibration.identity import Identity, identify
from scouter.agent.calibration.rates import Calibrations
from scouter.errors import ConfigError, TransientError
from scouter.evaluate.engine.execute import JudgeQuestion, plain_context, walk
from scouter.evaluate.engine.judged import answered
from scouter.evaluate.engine.plan import Plan
from scouter.evaluate.judge.ask import Backoff, Reply, ask
from scouter.evaluate.judge.port import Judge
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.model.record import EvalRecord

_log: Final = logging.getLogger(__name__)
_LOOK_S: Final = 5.0
"""Longest time in seconds between two looks for due items: profiles come and go."""
_OLD_WINDOWS: Final = 50

SlotsOf = Callable[[str], AbstractAsyncContextManager[object]]
"""Gives what bounds the questions that are put to the provider entry of a prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldTask:
    """A judge task of an active profile, with its gold items."""

    space: str
    alias: str
    task: LLMJudgeTask
    identity: Identity
    items: tuple[GoldItem, ...]
    schedule: Schedule
    plan: Plan

    def query(self, since_slot: int = 0) -> GoldQuery:
        """Query for the stored outcomes on the items of the task."""
        return GoldQuery(
            space=self.space,
            alias=self.alias,
            task_id=self.task.id,
            judge=self.identity.task_digest,
            since_slot=since_slot,
        )


class GoldMeasures:
    """Prometheus series about gold items.

    Args:
        registry: Registry in which the series are shown.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        names = ("space", "alias", "task")
        self.outcomes = Counter(
            "scouter_judge_gold_verdicts",
            "Answers of judges on gold items since this process started, by people's label (good "
            "or bad) and by outcome.",
            (*names, "label", "outcome"),
            registry=registry,
        )
        self.agreement = Gauge(
            "scouter_judge_gold_agreement_ratio",
            "Share of gold items of the last whole window that the judge decided as people did: of "
            "good ones (sensitivity) and of bad ones (specificity).",
            (*names, "label"),
            registry=registry,
        )
        self.drifting = Gauge(
            "scouter_judge_drifting",
            "1 where the last whole window of gold items was decided otherwise than in the "
            "calibration, at a level of 1 %; 0 where not.",
            names,
            registry=registry,
        )


class GoldAsker:
    """Asks for gold items by a schedule.

    Args:
        file: The items.
        space: Space of the active profiles that are watched.
        store: Keeps the outcomes.
        registry: The profiles.
        judge: Answers past any cache, and counts what it costs.
        calibrations: The outcomes are compared with these.
        measures: Count the questions.
        per_day: Items a day for each judge task.
        window: Slots of a window at most.
    """

    def __init__(
        self,
        file: GoldFile,
        space: str,
        store: Store,
        registry: ProfileRegistry,
        judge: Judge,
        calibrations: Calibrations,
        measures: GoldMeasures,
        *,
        per_day: float,
        window: int,
    ) -> None:
        self._file, self._space, self._store, self._registry = file, space, store, registry
        self._judge, self._calibrations, self._measures = judge, calibrations, measures
        self._per_day, self._window = per_day, window
        self._backoff = Backoff()
        self._known: dict[tuple[str, str], GoldTask | None] = {}
        """By profile and task; None where the file has no item for it."""
        self._shown: dict[GoldQuery, int] = {}
        """The window that went on when a judge's figures were last worked out."""

    async def run(self, slots_of: SlotsOf) -> None:
        """Ask for what is due, for as long as the worker runs."""
        while True:
            due = list(self.tasks())
            await asyncio.gather(*(self._see_to(each, slots_of) for each in due))
            await asyncio.sleep(self._pause_s(due))

    def tasks(self) -> Iterator[GoldTask]:
        """The judge tasks of active profiles that have gold items."""
        for registered in self._registry.all(self._space):
            if registered.is_active:
                for task in registered.profile.llm_judge_tasks:
                    found = self._task(registered, task)
                    if found is not None:
                        yield found

    def windows(self, task: GoldTask) -> list[GoldWindow]:
        """Summarise the latest outcomes on a task's items by window, the oldest window first.

        Raises:
            TransientError: The store cannot be read now.
        """
        now_ns, schedule = time.time_ns(), task.schedule
        first = schedule.first_of_window(schedule.slot_at(now_ns)) - _OLD_WINDOWS * schedule.window
        outcomes = self._store.gold_outcomes(task.query(max(0, first)))
        return gold_windows(outcomes, schedule, now_ns, task.identity, self._calibrations)

    def _task(self, registered: RegisteredProfile, task: LLMJudgeTask) -> GoldTask | None:
        key = registered.uid, task.id
        if key not in self._known:
            self._known[key] = self._make(registered, task)
        return self._known[key]

    def _make(self, registered: RegisteredProfile, task: LLMJudgeTask) -> GoldTask | None:
        if task.scope != "record":
            return None
        profile = registered.profile
        try:
            items = tuple(self._file.items(task))
        except ConfigError as error:
            _log.warning("gold items for %s of %s: %s", task.id, profile.alias, error)
            return None
        if not items:
            return None
        return GoldTask(
            space=self._space,
            alias=profile.alias,
            task=task,
            identity=identify(profile, task, ""),
            items=items,
            schedule=Schedule(per_day=self._per_day, window=min(self._window, len(items))),
            plan=plan_of(profile.tasks, task),
        )

    def _pause_s(self, tasks: list[GoldTask]) -> float:
        now_ns = time.time_ns()
        starts = (each.schedule.start_ns(each.schedule.slot_at(now_ns) + 1) for each in tasks)
        left = min((start - now_ns for start in starts), default=int(_LOOK_S * 1e9)) / 1e9
        return max(0.001, min(left, _LOOK_S))

    async def _see_to(self, task: GoldTask, slots_of: SlotsOf) -> None:
        try:
            was_called = await self._ask_due(task, slots_of)
            window = task.schedule.first_of_window(task.schedule.slot_at(time.time_ns()))
            if was_called or self._shown.get(task.query()) != window:
                self._show(task, await asyncio.to_thread(self.windows, task))
                self._shown[task.query()] = window
        except TransientError as error:
            _log.warning("a gold item could not be stored, trying again: %s", error)
        except Exception:  # noqa: BLE001 one task must not stop the others
            _log.exception("gold items for %s of %s failed", task.task.id, task.alias)

    async def _ask_due(self, task: GoldTask, slots_of: SlotsOf) -> bool:
        """Ask for the item of this slot, if it was not; what was missed is not made up for."""
        slot = task.schedule.slot_at(time.time_ns())
        if await asyncio.to_thread(self._store.gold_outcomes, task.query(slot)):
            return False
        item = item_of(task.items, slot)

        async def put(question: JudgeQuestion) -> Reply:
            request, retries = question.request, question.task.max_retries
            slots = slots_of(request.provider)
            return await ask(self._judge, request, retries, self._backoff, slots)

        context = plain_context(EvalRecord(context=item.context))
        results = await answered(walk(task.plan, context, None, f"gold {item.digest}"), put)
        result = next(each for each in results if each.task_id == task.task.id)
        row = _outcome(task, slot, item, result, time.time_ns())
        await asyncio.to_thread(self._store.append_gold_outcomes, [row])
        label = "good" if item.is_good else "bad"
        outcome = row.outcome.value
        if result.outcome is Outcome.SKIPPED and result.reason is Reason.BUDGET:
            outcome = Reason.BUDGET.value
        self._measures.outcomes.labels(task.space, task.alias, task.task.id, label, outcome).inc()
        return True

    def _show(self, task: GoldTask, windows: list[GoldWindow]) -> None:
        """Show what the last whole window says; where it says nothing, nothing is shown."""
        last = last_complete(windows)
        names = task.space, task.alias, task.task.id
        agreement, drifting = self._measures.agreement, self._measures.drifting
        for label in ("good", "bad"):
            counts = None if last is None else last.confusion
            rate = counts and (counts.sensitivity if label == "good" else counts.specificity)
            if rate is None:
                _forget(agreement, *names, label)
            else:
                agreement.labels(*names, label).set(rate)
        if last is None or last.drift is None:
            _forget(drifting, *names)
        else:
            drifting.labels(*names).set(last.drift.has_drifted)


def gold_asker(
    settings: CollectorSettings,
    store: Store,
    registry: ProfileRegistry,
    judge: Judge,
    calibrations: Calibrations,
    metrics: CollectorRegistry,
) -> GoldAsker | None:
    """Make the part that sends gold items; None where the settings name none.

    Args:
        settings: Of the process.
        store: Keeps the outcomes.
        registry: The profiles.
        judge: Looks no answer up, and counts what it costs.
        calibrations: The outcomes are compared with these.
        metrics: Show the outcomes.

    Raises:
        ConfigError: The file cannot be read, or has a line that is no gold item.
    """
    if settings.gold is None:
        return None
    return GoldAsker(
        GoldFile(settings.gold),
        settings.space,
        store,
        registry,
        judge,
        calibrations,
        GoldMeasures(metrics),
        per_day=settings.gold_per_day,
        window=settings.gold_window,
    )


def _forget(gauge: Gauge, *labels: str) -> None:
    with contextlib.suppress(KeyError):  # it was not shown
        gauge.remove(*labels)


def _outcome(
    task: GoldTask, slot: int, item: GoldItem, result: EvalTaskResult, at_ns: int
) -> GoldOutcome:
    return GoldOutcome(
        space=task.space,
        alias=task.alias,
        task_id=task.task.id,
        judge=task.identity.task_digest,
        slot=slot,
        item=item.digest,
        is_good=item.is_good,
        outcome=result.outcome,
        reason=None if result.reason is None else result.reason.value,
        at_ns=at_ns,
    )
