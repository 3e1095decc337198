"""Run scenarios against an agent and judge what it did."""

import warnings
from os import PathLike
from typing import TYPE_CHECKING

from scouter.replay.hooks import Hooks

if TYPE_CHECKING:
    from scouter.evaluate.annotate.config import EvaluationConfig
    from scouter.evaluate.api.replay import ScenarioEvalResults
    from scouter.evaluate.judge.port import AnyJudge
    from scouter.replay.options import OnError


class EvalOrchestrator(Hooks):
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
