"""Leads the attempts of one run: conversations, time limits, retries, failures."""

import asyncio
import functools
import re
import time
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar

from pydantic import JsonValue

from scouter.errors import ConfigError, DataError
from scouter.evaluate.outcome import Reason
from scouter.evaluate.scenario import EvalScenario
from scouter.model.json_value import plain_text, to_json_value
from scouter.model.span import Span
from scouter.replay.calls import Calls, DirectCalls, LoopCalls, own_frames
from scouter.replay.collected import plain_turns
from scouter.replay.filing import OUTSIDE, Filing, Job, Try
from scouter.replay.hooks import Hooks
from scouter.replay.journal import Entry, Journal
from scouter.replay.options import RunOptions
from scouter.replay.progress import Progress
from scouter.replay.reports.texts import counted
from scouter.replay.runner import EvalRunner
from scouter.replay.turn import CONVERSATION, LiveConversation, Turn, UserFaultError, departure
from scouter.tracing.propagation import scenario_scope
from scouter.transport.guard import text_of

MakeCalls: TypeAlias = Callable[[], AbstractAsyncContextManager[Calls]]

T = TypeVar("T")

MAX_ERROR_CHARS: Final = 10_000


@dataclass(slots=True, kw_only=True)
class _Known:
    """Turns, times and response of a try so far."""

    turns: list[Turn] = field(default_factory=list[Turn])
    times_ns: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    response: JsonValue = None
    duration_ns: int = 0
    is_conversing: bool = False
    """True while the agent or the simulated user works, and no hook."""
    speaker: Reason = Reason.AGENT
    """Whose fault an error is: the `user`'s while the simulated user works."""
    cut: str | None = None
    """Reason why the end of the conversation was not seen, in words."""


class Conductor:
    """Makes the attempts of one run.

    Args:
        hooks: The orchestrator, whose methods are called.
        beside: That of the version which is run alternately with it, if there is one.
        options: Options of the run.
        filing: Sorts records and spans.
        runner: Takes what attempts bring.
        progress: Is notified of attempts that begin and end.
        journal: Takes ended attempts, if there is one.
    """

    def __init__(
        self,
        hooks: Hooks,
        beside: Hooks | None,
        options: RunOptions,
        filing: Filing,
        runner: EvalRunner,
        progress: Progress,
        journal: Journal | None,
    ) -> None:
        self._hooks = hooks
        self._beside = beside
        self._options = options
        self._filing = filing
        self._runner = runner
        self._progress = progress
        self._journal = journal
        self._failure: Exception | None = None
        self.is_stopped = False
        """Set to make no further attempt."""

    def go_on(self, runner: EvalRunner, progress: Progress) -> None:
        """Make further attempts, now that those which ended have been judged.

        Args:
            runner: Takes what the further ones bring.
            progress: Is notified how far they are.
        """
        self._filing.go_on(runner)
        self._runner = runner
        self._progress = progress

    def _hooks_of(self, job: Job) -> Hooks:
        """The object whose methods are called for an attempt."""
        return self._beside if job.is_beside and self._beside is not None else self._hooks

    async def in_turn(self, jobs: Iterable[Job], calls: DirectCalls) -> None:
        """Make one attempt after the other, in this thread and without an event loop."""
        for job in jobs:
            await self._attempt(job, lambda: nullcontext(calls))

    async def at_once(self, jobs: Iterable[Job]) -> None:
        """Make several attempts at a time, in the running event loop.

        Raises:
            Exception: The first failure that may not be recorded; the other attempts are
                cancelled.
        """
        waiting = iter(jobs)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._options.concurrency):
                    group.create_task(self._work(waiting))
        except ExceptionGroup:
            if self._failure is None:
                raise
        if self._failure is not None:
            raise self._failure

    async def _work(self, waiting: Iterator[Job]) -> None:
        for job in waiting:
            try:
                await self._attempt(job, LoopCalls.while_needed)
            except Exception as error:
                self._failure = self._failure or error
                raise

    async def _attempt(self, job: Job, make_calls: MakeCalls) -> None:
        """Try until it works or the retries are used up."""
        self._progress.started(job.scenario.id)
        hooks = self._hooks_of(job)
        for failures in range(self._options.retries + 1):
            if self.is_stopped:
                raise ConfigError("the run was stopped")
            is_last = failures == self._options.retries
            async with make_calls() as calls:
                error = await self._try(job, calls, is_last=is_last)
            if error is None:
                return
            # Not by the calls of the try: its thread may hang.
            async with make_calls() as calls:
                pause = hooks.backoff_s(failures + 1, error)
                await calls.call(hooks.sleep or calls.sleep, pause)

    async def _try(self, job: Job, calls: Calls, *, is_last: bool) -> Exception | None:
        """Make one try; give back its exception if it is worth another one."""
        reported = _Known()
        tried: Try | None = None
        failure: Exception | None = None
        hooks = self._hooks_of(job)
        self._filing.look_into(calls.loop)
        try:
            with self._outside(job):
                await calls.call(hooks.on_scenario_start, job.scenario)
            tried = self._filing.begin(job)
            response = await self._response(tried, calls, reported)
            self._filing.sort_records()
            with self._outside(job):
                await calls.call(hooks.on_scenario_complete, job.scenario, response)
        except ConfigError:
            raise  # another try, and another scenario, would fail the same way
        except Exception as error:  # noqa: BLE001 - the agent's own; raised or recorded below
            failure = error
        except asyncio.CancelledError as error:
            if _is_cancelled():
                raise
            failure = RuntimeError("the agent or a hook raised CancelledError")
            failure.__cause__ = error
        still_runs = isinstance(calls, LoopCalls) and calls.was_given_up
        if failure is not None and reported.is_conversing and tried is not None and not is_last:
            self._filing.give_up(tried, still_runs=still_runs)
            return failure
        if failure is not None and self._options.on_error == "raise":
            raise failure
        tried = tried or self._filing.begin(job)
        if not still_runs:
            await settle(self._filing, calls, self._options.grace_s, tried)
        self._end(tried, reported, failure, self._filing.end(tried, still_runs=still_runs))
        return None

    @contextmanager
    def _outside(self, job: Job) -> Generator[None]:
        """The scope of hooks and simulated users."""
        self._filing.hook(runs=True)
        try:
            with scenario_scope(job.scenario.id, job.attempt, OUTSIDE):
                yield
        finally:
            self._filing.hook(runs=False)

    async def _response(self, tried: Try, calls: Calls, known: _Known) -> object:
        """Lead the conversation; give back what the tasks will read."""
        job, scenario = tried.job, tried.job.scenario
        known.is_conversing = True
        started_ns = time.perf_counter_ns()
        conversation = LiveConversation(
            session=tried.key,
            turns=known.turns,
            times_ns=known.times_ns,
            arguments=functools.partial(self._hooks_of(job).arguments, scenario),
        )
        token = CONVERSATION.set(conversation)
        try:
            response, history = await self._in_time(
                job, self._converse(tried, calls, conversation, known)
            )
        finally:
            CONVERSATION.reset(token)
            known.duration_ns = time.perf_counter_ns() - started_ns
        known.is_conversing = False
        with self._outside(job):
            response = await calls.call(
                self._hooks_of(job).build_scenario_response, scenario, response, history
            )
        try:
            known.response = to_json_value(response)
        except DataError as error:
            raise DataError(f"scenario {scenario.id!r}, response: {error}") from error
        return response

    async def _in_time(self, job: Job, work: Coroutine[Any, Any, T]) -> T:
        if self._options.timeout_s is None:
            return await work
        limit = asyncio.timeout(self._options.timeout_s)
        try:
            async with limit:
                return await work
        except TimeoutError:
            if not limit.expired():
                raise  # the agent's own
        raise TimeoutError(
            f"scenario {job.scenario.id!r} took longer than timeout_s={self._options.timeout_s:g}"
        )

    async def _converse(
        self, tried: Try, calls: Calls, conversation: LiveConversation, known: _Known
    ) -> tuple[object, list[Turn]]:
        job, scenario = tried.job, tried.job.scenario
        if scenario.is_interactive():
            return await self._converse_freely(tried, calls, conversation, known)
        sent_ns = time.time_ns()
        with scenario_scope(scenario.id, job.attempt, tried.key):
            response = await calls.call(self._hooks_of(job).execute_agent, scenario)
        if not conversation.turns and not scenario.predefined_turns:
            conversation.note(scenario.initial_query, response, sent_ns)
        return response, []

    async def _converse_freely(
        self, tried: Try, calls: Calls, conversation: LiveConversation, known: _Known
    ) -> tuple[object, list[Turn]]:
        """Run an interactive scenario.

        The simulated user speaks outside of the attempt's scope, so that the spans of its model
        calls are not taken for the agent's. It hears the last answer, too, if it can end the
        conversation: only its reply tells whether that was the end.
        """
        job, scenario = tried.job, tried.job.scenario
        hooks = self._hooks_of(job)
        message = scenario.initial_query
        if not message:
            known.speaker = Reason.USER
            message = await self._opening(job, calls)
            known.speaker = Reason.AGENT
        while True:
            history = list(conversation.turns)
            sent_ns = time.time_ns()
            with scenario_scope(scenario.id, job.attempt, tried.key):
                response = await calls.call(hooks.execute_agent_turn, scenario, message)
            # An own method may have called the agent otherwise, or twice.
            conversation.forget_after(len(history))
            conversation.note(message, response, sent_ns)
            is_last = len(conversation.turns) >= scenario.max_turns
            if is_last and not _can_end(hooks, scenario):
                return response, history
            known.speaker = Reason.USER
            with self._outside(job):
                reply = await calls.call(
                    hooks.execute_simulated_user_turn,
                    scenario, scenario.initial_query, response, history.copy(),
                )  # fmt: skip
            answer = _message(scenario, reply)
            if answer is None:
                return response, history
            if problem := departure(answer, conversation.turns):
                raise UserFaultError(scenario.id, problem)
            if is_last:
                known.cut = _out_of_turns(scenario)
                return response, history
            known.speaker = Reason.AGENT
            message = answer

    async def _opening(self, job: Job, calls: Calls) -> str:
        """Have the simulated user say the first message."""
        hooks = self._hooks_of(job)
        with self._outside(job):
            said = await calls.call(hooks.execute_simulated_user_opening, job.scenario)
        message = _text(job.scenario, said, "the first message as text")
        if not message.strip() and hasattr(hooks.simulated_user_fn, "opening"):
            raise UserFaultError(job.scenario.id, "its first message is empty")
        return message

    def _end(
        self, tried: Try, known: _Known, failure: Exception | None, spans: Sequence[Span]
    ) -> None:
        error = known.cut if failure is None else error_text(failure)
        entry = Entry(
            scenario_id=tried.job.scenario.id,
            attempt=tried.job.attempt,
            response=known.response,
            turns=plain_turns(known.turns),
            turn_times_ns=tuple(known.times_ns),
            error=error,
            error_reason=_reason(known, failure),
            error_frames=() if failure is None else own_frames(failure),
            duration_ns=known.duration_ns,
            records={alias: tuple(items) for alias, items in tried.records.items()},
            spans=tuple(spans),
            is_again=tried.job.is_again,
            lost=self._filing.newly_lost(),
        )
        collect(self._runner, tried.job.scenario, entry)
        if self._journal is not None:
            self._journal.append(entry)
        self._progress.ended(error is None)


def collect(runner: EvalRunner, scenario: EvalScenario, entry: Entry) -> None:
    """Give the runner what an attempt brought, but for its spans."""
    runner.collect_scenario_data(
        entry.records,
        entry.response,
        scenario,
        attempt=entry.attempt,
        turns=entry.turns,
        turn_times_ns=entry.turn_times_ns,
        error=entry.error,
        error_reason=entry.error_reason or Reason.AGENT,
        error_frames=entry.error_frames,
        duration_ns=entry.duration_ns,
    )


async def settle(filing: Filing, calls: Calls, grace_s: float, tried: Try | None = None) -> None:
    """Give spans, threads and tasks a moment to end that a try, or any try, has left open.

    Cost: no time if there are none.
    """
    until = time.monotonic() + grace_s
    filing.look_into(calls.loop)
    left = filing.left_open(tried)
    if left is None:
        return
    tasks = left.tasks_of(calls.loop) if isinstance(calls, DirectCalls) else ()
    if tasks:
        await calls.call(functools.partial(asyncio.wait, tasks, timeout=grace_s))
    await calls.call(left.wait, max(0.0, until - time.monotonic()))


def error_text(error: Exception) -> str:
    """An exception in one line: its type and what it says, if it can say it."""
    said = text_of(error)
    text = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return plain_text(text)[:MAX_ERROR_CHARS]


def _is_cancelled() -> bool:
    """Tell whether the attempt itself is cancelled, and not something that the agent waited for."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop, and nobody who could cancel
        return False
    return task is not None and task.cancelling() > 0


def _reason(known: _Known, failure: Exception | None) -> Reason | None:
    """The kind of what ended an attempt early; None if nothing did."""
    if failure is None:
        return Reason.INCOMPLETE if known.cut else None
    return known.speaker if known.is_conversing else Reason.AGENT


def _can_end(hooks: Hooks, scenario: EvalScenario) -> bool:
    """Tell whether a conversation has an end beside `max_turns`.

    It has one if the scenario names a signal, or if whoever plays the user says when it is over
    (`ends_itself`). Where nobody plays the user of a scenario of one turn, nobody could end it.
    """
    if scenario.termination_signal is None:
        return bool(getattr(hooks.simulated_user_fn, "ends_itself", False))
    is_own = hooks.overrides("execute_simulated_user_turn")
    return is_own or hooks.simulated_user() is not None


def _out_of_turns(scenario: EvalScenario) -> str:
    signal = scenario.termination_signal
    named = "" if signal is None else f" (termination_signal {signal!r})"
    return (
        f"the conversation used up its {counted(scenario.max_turns, 'turn')} (max_turns) before "
        f"the simulated user ended it{named}, so its end was not seen; raise max_turns, or read "
        "the turns to see why the user did not come to an end"
    )


def _message(scenario: EvalScenario, reply: object) -> str | None:
    """Read the simulated user's next message; None if it ends the conversation."""
    if reply is None:
        return None
    message = _text(scenario, reply, "the next message as text, or None to end the conversation")
    signal = scenario.termination_signal
    return None if signal is not None and _says(message, signal) else message


def _says(message: str, signal: str) -> bool:
    """Tell whether a message has a signal, and not as a part of a longer word.

    Scripts without spaces between words have no such parts.
    """
    if not signal.isalnum():
        return signal in message
    word = rf"(?<![A-Za-z0-9]){re.escape(signal)}(?![A-Za-z0-9])"
    return re.search(word, message) is not None


def _text(scenario: EvalScenario, said: object, wanted: str) -> str:
    if not isinstance(said, str):
        raise ConfigError(
            f"scenario {scenario.id!r}: the simulated user returned a {type(said).__name__}; "
            f"expected {wanted}"
        )
    return said
