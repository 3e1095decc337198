"""Run scenarios against an agent and judge what it did."""

import inspect
import random
import warnings
from collections.abc import Awaitable, Callable, Iterable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, Final

from scouter.errors import TransientError
from scouter.queue.scouter_queue import ScouterQueue
from scouter.replay.agent import answering as agent_of
from scouter.replay.at_once import always, is_async, over_at_once
from scouter.replay.hooks import (
    AgentFn,
    MissingFunctionError,
    Response,
    SimulatedUserFn,
    missing,
)
from scouter.replay.turn import Turn, running_conversation

if TYPE_CHECKING:
    from scouter.evaluate.annotate.config import EvaluationConfig
    from scouter.evaluate.api.replay import ScenarioEvalResults
    from scouter.evaluate.judge.port import AnyJudge
    from scouter.evaluate.scenario import EvalScenario, EvalScenarios
    from scouter.replay.options import OnError

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 30.0


class EvalOrchestrator:
    """The life of one replay: run every scenario, collect records and spans, evaluate.

    Pass functions, or subclass and override; all of them may be plain or `async def`. While a
    replay runs, the queue and the tracer keep records and spans in this process and send
    nothing. `run` can be called any number of times; each run starts from nothing.

    Plain functions are called in the thread of `run`, one after the other. If attempts run at
    once or have a time limit, each attempt has a thread of its own for them, with the context
    (spans, scenario) of the attempt. All attempts then share the attributes of `self`. Async
    functions share one event loop.

    Args:
        queue: The queue that the agent's records go to; its profiles evaluate them.
        scenarios: The scenarios to run.
        agent_fn: From a message to the agent's answer. Parameters that are called `session` (the
            conversation's id), `history` (its turns so far, as chat messages) and `queue` get
            these. A class is made once for each attempt, and its instance answers; its
            constructor can take `session` and `queue`.
        simulated_user_fn: From first query, last answer and the exchanges before it to the next
            message of the user; or an object with the method
            `reply(scenario, agent_response, history)`.
        sleep: Waits the given seconds before a retry; plain or async.
    """

    agent_name: str = ""
    """Name of the agent in a journal; `resume` refuses the answers of another one.

    By default the name of the agent's function, or of the class that runs the scenarios itself.
    """

    def __init__(
        self,
        queue: ScouterQueue,
        scenarios: "EvalScenarios",
        agent_fn: AgentFn | None = None,
        simulated_user_fn: SimulatedUserFn | object | None = None,
        *,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        self.queue = queue
        self.scenarios = scenarios
        self.agent_fn = agent_fn
        self.simulated_user_fn = simulated_user_fn
        self.sleep = sleep

    def run(
        self,
        config: "EvaluationConfig | None" = None,
        *,
        on_error: "OnError" = "raise",
        repeats: int = 1,
        concurrency: int = 1,
        timeout_s: float | None = None,
        retries: int = 0,
        resume: str | PathLike[str] | None = None,
        progress: bool | None = None,
        grace_s: float = 1.0,
        judge: "AnyJudge | None" = None,
        baseline: "ScenarioEvalResults | None" = None,
        confirm: int | None = None,
        sequential: bool = False,
        allow_unreviewed: bool = False,
    ) -> "ScenarioEvalResults":
        """Run every scenario and evaluate them together; works inside a running event loop, too.

        Args:
            config: Values to compute beside the tasks of the aliases: embeddings, similarities,
                histograms.
            on_error: Reaction when the agent, the simulated user or a hook raises, the time
                runs out, or a response has no JSON form. `"raise"`: the exception itself is
                raised, after sending has been switched on again; other attempts are cancelled.
                `"record"`: it is that attempt's failure, and all others go on. A fault of the
                setup (a `ConfigError`: unknown alias, nothing to call …) is always raised.
            repeats: Number of attempts at each scenario, at least 1.
            concurrency: Most attempts at a time, at least 1.
            timeout_s: Most seconds for the conversation of one try. A plain function that is
                over time cannot be stopped: it goes on in its thread, and its records and spans
                are thrown away.
            retries: Most further tries of an attempt after the agent or the simulated user raised
                or the time ran out. Records and spans of the failed try are thrown away. Between
                tries the attempt waits for `backoff_s`.
            resume: A journal, made if it is not there. Attempts that it holds are not run again.
                Attempts that end are written to it, so that an interrupted run can be taken up.
                Standard error tells the number of attempts that are taken from it. In a run with
                `on_error="raise"` attempts that failed are run again. The journal belongs to one
                agent, by name (`agent_name`).
            progress: False for no progress bar. There is one only on a terminal, on standard
                error.
            grace_s: Most seconds that an attempt waits, after its answer, for spans, threads and
                tasks that it has left open; where there are none it does not wait. Later records
                and spans are still its own if that can be determined, and else in `results.lost`.
            judge: Answers the tasks that ask a model: a judge, or a plain or async function from
                `JudgeRequest` to the answer. By default the models that the prompts name are
                called: `ModelJudge()`.
            baseline: Earlier results, for asking again. The whole suite is asked again where
                attempts fell, at most twice; then each scenario that passed there and never does
                now, until an attempt passes or the scenario is broken. The results have these as
                `rounds` and `confirmations`.
            confirm: Most further attempts of a scenario, those of the suite among them; 0 asks
                nothing again. By default as many as the decision takes.
            sequential: True makes the attempts in rounds of one attempt at each scenario, and ends
                once they decide against the baseline; `repeats` is then the most. Without a
                baseline all are made.
            allow_unreviewed: True runs scenarios that a model made and nobody has looked at
                (`unreviewed`); they are refused otherwise.

        Returns:
            The results, after `on_evaluation_complete`; `scenarios` holds them, too.

        Raises:
            NotImplementedError: There is neither a function nor an overridden method to call.
            ConfigError: An argument is wrong, a scenario is unreviewed, a record went to an alias
                without profile, the journal belongs to another agent, other scenarios or
                profiles, or another replay is running in this process; that one goes on unharmed.
            DataError: A response has no JSON form.
            ReasksInterrupted: Somebody pressed Ctrl-C while scenarios were asked again; a
                `KeyboardInterrupt` that holds the results.

        Cost: the agent's own time; the evaluation is linear in records, spans and tasks.
        """
        from scouter.replay.options import RunOptions  # what a run needs is loaded with the first

        options = RunOptions(
            on_error=on_error, repeats=repeats, concurrency=concurrency, timeout_s=timeout_s,
            retries=retries, resume=resume, progress=progress, grace_s=grace_s,
            baseline=baseline, confirm=confirm, sequential=sequential,
            allow_unreviewed=allow_unreviewed,
        )  # fmt: skip
        from scouter.replay.run import Run  # the engine loads when there is something to judge

        return Run(self, options, config, judge).lead()

    async def run_async(
        self,
        config: "EvaluationConfig | None" = None,
        *,
        on_error: "OnError" = "raise",
        repeats: int = 1,
        concurrency: int = 1,
        timeout_s: float | None = None,
        retries: int = 0,
        resume: str | PathLike[str] | None = None,
        progress: bool | None = None,
        grace_s: float = 1.0,
        judge: "AnyJudge | None" = None,
        baseline: "ScenarioEvalResults | None" = None,
        confirm: int | None = None,
        sequential: bool = False,
        allow_unreviewed: bool = False,
    ) -> "ScenarioEvalResults":
        """Do what `run` does, in the running asyncio event loop.

        Args, results and exceptions are those of `run`. Plain functions always run in threads,
        so that the loop is free for others.
        """
        from scouter.replay.options import RunOptions

        options = RunOptions(
            on_error=on_error, repeats=repeats, concurrency=concurrency, timeout_s=timeout_s,
            retries=retries, resume=resume, progress=progress, grace_s=grace_s,
            baseline=baseline, confirm=confirm, sequential=sequential,
            allow_unreviewed=allow_unreviewed,
        )  # fmt: skip
        from scouter.replay.run import Run  # the engine loads when there is something to judge

        run = Run(self, options, config, judge)
        results = await run.in_loop()
        for note in run.notes:
            warnings.warn(note, stacklevel=2)
        return results

    # --- what a subclass may replace, by plain or async methods ---

    @over_at_once(lambda self: is_async(self.agent_fn))
    def execute_agent(self, scenario: "EvalScenario") -> Response:
        """Run a scenario without simulated user: the first query, then each predefined turn.

        Returns:
            The last answer; an awaitable of it if `agent_fn` is async.
        """
        agent = self.answering(scenario, "execute_agent()")
        first, *more = scenario.initial_query, *scenario.predefined_turns
        response = agent(first)
        if inspect.isawaitable(response):
            return _go_on(agent, response, more)
        for turn in more:
            response = agent(turn)
        return response

    @over_at_once(lambda self: is_async(self.agent_fn))
    def execute_agent_turn(self, scenario: "EvalScenario", message: str) -> Response:
        """Answer one message of an interactive scenario.

        An `execute_agent` of one's own can call it, too, once for each message.

        Returns:
            The answer; an awaitable of it if `agent_fn` is async.
        """
        return self.answering(scenario, "execute_agent_turn()")(message)

    def session_id(self) -> str:
        """Id of the conversation that calls this, as `session` gets it; a new one outside a run."""
        return running_conversation().session

    def arguments(self, scenario: "EvalScenario", turn: int) -> Mapping[str, object]:
        """Give further values for the agent by name, such as the state of a session.

        Args:
            scenario: The scenario; every turn of it has the same names.
            turn: Number of the turn, from 0.

        Returns:
            Values of parameters that the agent may have beside `session`, `history` and `queue`.
        """
        return {}

    def answering(self, scenario: "EvalScenario", method: str) -> Callable[[str], Response]:
        """Give the function that answers in the running conversation, or make it.

        Args:
            scenario: The scenario.
            method: The method that asks, for an error.
        """
        conversation = running_conversation()
        if conversation.agent is None:
            if self.agent_fn is None:
                raise MissingFunctionError(missing("agent_fn", method))
            conversation.agent = agent_of(self.agent_fn, self.queue, conversation)
        return conversation.agent

    @over_at_once(lambda self: is_async(getattr(self.simulated_user_fn, "opening", None)))
    def execute_simulated_user_opening(self, scenario: "EvalScenario") -> Any:  # noqa: ANN401 - text, or an awaitable of it
        """Give the first message of an interactive scenario whose `initial_query` is empty.

        Returns:
            Result of the method `opening(scenario)` of the simulated user, plain or async; the
            empty message where there is no such method.
        """
        opening = getattr(self.simulated_user_fn, "opening", None)
        return opening(scenario) if callable(opening) else scenario.initial_query

    @over_at_once(lambda self: is_async(self.simulated_user()))
    def execute_simulated_user_turn(
        self,
        scenario: "EvalScenario",
        initial_query: str,
        agent_response: Response,
        history: list[Turn],
    ) -> Any:  # noqa: ANN401 - text or None, or an awaitable of it
        """Give the next message of the simulated user.

        Args:
            scenario: The interactive scenario.
            initial_query: Its first message.
            agent_response: The agent's last answer.
            history: The exchanges before that one, oldest first; empty on the first call.

        Returns:
            The next message, or an awaitable of it. One that holds the scenario's
            `termination_signal` ends the conversation and is not sent to the agent; so does None.
        """
        user = self.simulated_user()
        if not callable(user):
            raise MissingFunctionError(
                missing("simulated_user_fn", "execute_simulated_user_turn()")
            )
        if user is self.simulated_user_fn:
            return user(initial_query, agent_response, history)
        return user(scenario, agent_response, history)

    def simulated_user(self) -> object:
        """The function that speaks for the user: the object itself, or its method `reply`."""
        reply = getattr(self.simulated_user_fn, "reply", None)
        return reply if callable(reply) else self.simulated_user_fn

    @over_at_once(always)
    def build_scenario_response(
        self, scenario: "EvalScenario", response: Response, history: list[Turn]
    ) -> Response:
        """Turn the last answer into what the scenario's tasks read as `response`.

        Args:
            scenario: The scenario.
            response: The last answer.
            history: The exchanges before the last answer's; `[]` if not interactive.
        """
        return response

    @over_at_once(always)
    def on_scenario_start(self, scenario: "EvalScenario") -> Any:  # noqa: ANN401 - may be async
        """Called before the first message of each try of each attempt."""

    @over_at_once(always)
    def on_scenario_complete(self, scenario: "EvalScenario", response: Response) -> Any:  # noqa: ANN401 - may be async
        """Called after each attempt that did not fail, with the response that its tasks read."""

    @over_at_once(always)
    def on_evaluation_complete(self, results: "ScenarioEvalResults") -> Any:  # noqa: ANN401 - may be async
        """Called once at the end; the results that it returns are what `run` returns."""
        return results

    def overrides(self, method: str) -> bool:
        """Tell whether a subclass or this object has a method of its own, by the method's name."""
        own = getattr(getattr(self, method), "__func__", None)
        return own is not getattr(EvalOrchestrator, method)

    def backoff_s(self, failures: int, error: Exception) -> float:
        """Give the wait before the next try of an attempt.

        Args:
            failures: Number of tries that have failed, at least 1.
            error: The error of the last one.

        Returns:
            Seconds: from half of to all of 1, 2, 4 … 30, by chance, so that attempts that failed
            together do not come back together; at least what a `TransientError` asks for.
        """
        longest = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(failures - 1, 10))
        pause = random.uniform(longest / 2, longest)  # noqa: S311 - no secret
        wanted = error.retry_after_s if isinstance(error, TransientError) else None
        return max(pause, wanted or 0.0)


async def _go_on(
    agent: Callable[[str], Response], response: Awaitable[Response], more: Iterable[str]
) -> Response:
    """Await an async agent's answers to fixed messages."""
    answer = await response
    for turn in more:
        answer = agent(turn)
        if inspect.isawaitable(answer):
            answer = await answer
    return answer
