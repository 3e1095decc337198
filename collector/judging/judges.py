"""Judges around a judge: one that counts for Prometheus, one that remembers.

Labels are entries of the settings, and models of registered profiles; of these so many only.
"""

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import fields
from hashlib import blake2b
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from collector.metrics import OTHER
from scouter.agent.cache import Kept
from scouter.evaluate.judge.port import (
    Judge,
    JudgeError,
    JudgeReply,
    JudgeRequest,
    JudgeUsage,
    sum_of,
    time_limit_of,
    to_judge_error,
)

_log: Final = logging.getLogger(__name__)
_MOST_MODELS: Final = 200
"""Pairs of entry and model with series of their own; whoever registers profiles names models."""
_CALL_BUCKETS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class JudgeMeasures:
    """The series of one collector's judges.

    Args:
        registry: Shows the metrics.
        most_models: Pairs of entry and model with series of their own; all others share one model.
    """

    def __init__(self, registry: CollectorRegistry, most_models: int = _MOST_MODELS) -> None:
        self.registry, self._most_models = registry, most_models
        self._models: set[tuple[str, str]] = set()
        self._are_too_many = False
        self._lock = threading.Lock()
        self._calls = Counter(
            "scouter_judge_calls",
            "Questions put to models, since this process started: answered, or why they were not.",
            ("entry", "model", "outcome"),
            registry=registry,
        )
        self._tokens = Counter(
            "scouter_judge_tokens",
            "Tokens that judges' models read (input) and wrote (output), as far as they tell.",
            ("entry", "model", "direction"),
            registry=registry,
        )
        self._cost = Counter(
            "scouter_judge_cost_usd",
            "US dollars that the answers cost, those of no use too, of models that have a price.",
            ("entry", "model"),
            registry=registry,
        )
        self._seconds = Histogram(
            "scouter_judge_call_seconds",
            "Time that one question took, waiting for the entry's limits included.",
            ("entry",),
            buckets=_CALL_BUCKETS,
            registry=registry,
        )
        self._lookups = Counter(
            "scouter_judge_cache_lookups",
            "Questions that were looked up in the cache, since this process started: hit or miss.",
            ("entry", "model", "result"),
            registry=registry,
        )
        self.in_flight = Gauge(
            "scouter_judge_verdicts_in_flight",
            "Evaluations on records and sessions that wait for judges.",
            registry=registry,
        )

    def watch_cache(self, stored: Callable[[], Kept], max_bytes: int) -> None:
        """Show how full the cache is.

        Args:
            stored: Tells.
            max_bytes: Its bound.
        """
        for name, text, value in (
            ("answers", "Answers in the cache.", lambda: stored().answers),
            ("bytes", "Bytes of answers in the cache.", lambda: stored().bytes),
            ("limit_bytes", "Most bytes of answers; the oldest make room.", lambda: max_bytes),
        ):
            gauge = Gauge(f"scouter_judge_cache_{name}", text, registry=self.registry)
            gauge.set_function(value)

    def looked_up(self, entry: str, model: str, *, was_found: bool) -> None:
        """Count a question that a cache stands before.

        Args:
            entry: Name of the provider entry.
            model: That is meant.
            was_found: It need not be sent.
        """
        model = self._shown(entry, model)
        self._lookups.labels(entry, model, "hit" if was_found else "miss").inc()

    def called(
        self, entry: str, model: str, outcome: str, seconds: float, taken: JudgeUsage | None
    ) -> None:
        """Count a question.

        Args:
            entry: Name of the provider entry.
            model: The model that was called.
            outcome: `answered`, or the reason of the error.
            seconds: Duration of the question.
            taken: Tokens and cost as far as they are known, also of a question without an answer.
        """
        model = self._shown(entry, model)
        self._calls.labels(entry, model, outcome).inc()
        self._seconds.labels(entry).observe(seconds)
        if taken is None:
            return
        for direction, tokens in (("input", taken.input_tokens), ("output", taken.output_tokens)):
            if tokens:
                self._tokens.labels(entry, model, direction).inc(tokens)
        if taken.cost_usd:
            self._cost.labels(entry, model).inc(taken.cost_usd)

    def _shown(self, entry: str, model: str) -> str:
        """The model's label: its name, for those that were called first."""
        if (entry, model) in self._models:
            return model
        with self._lock:
            if len(self._models) < self._most_models:
                self._models.add((entry, model))
                return model
            if not self._are_too_many:
                self._are_too_many = True
                _log.warning(
                    "judges' series show %d models; all others have the label %r",
                    self._most_models,
                    OTHER,
                )
            return OTHER


class _Counting:
    """Counter of the questions to a judge.

    Args:
        judge: Answers.
        name_of: The name of the entry that a request means; None if there is none.
        measures: Count it.
    """

    def __init__(
        self,
        judge: Judge,
        name_of: Callable[[str], str | None],
        measures: JudgeMeasures,
    ) -> None:
        self._judge, self._name_of, self._measures = judge, name_of, measures
        self.time_limit_s = time_limit_of(judge)


class CountingJudge(_Counting):
    """Counts every question that is really put; what is around it may save some."""

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """Ask, and count."""
        began = time.monotonic()

        def count(outcome: str, taken: JudgeUsage | None = None) -> None:
            entry = self._name_of(request.provider)
            if entry is not None:  # a label is never what a stranger wrote
                seconds = time.monotonic() - began
                self._measures.called(entry, request.model, outcome, seconds, taken)

        try:
            reply = await self._judge.ask(request)
        except JudgeError as error:
            count(error.reason.value, error.taken)  # what is of no use is paid for, too
            raise
        except asyncio.CancelledError:
            count("cancelled")
            raise
        except Exception:
            count("provider")
            raise
        count("answered", reply.taken)
        return reply

    def looking_up(self, judge: Judge) -> "LookupCountingJudge":
        """Count what a cache in front of this judge has answered, too."""
        return LookupCountingJudge(judge, self._name_of, self._measures)


class LookupCountingJudge(_Counting):
    """Counts what the cache of a judge has answered, and what it had not."""

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """Ask, and count; a question that nobody answered was a miss."""
        was_found = False
        try:
            reply = await self._judge.ask(request)
            was_found = reply.is_cached
        finally:
            entry = self._name_of(request.provider)
            if entry is not None:
                self._measures.looked_up(entry, request.model, was_found=was_found)
        return reply


class RememberingJudge:
    """Answers a question that was answered before as it was then.

    For one evaluation: should it have changed while a judge was called, its questions are looked at
    anew, and only those that are other ones now are put.

    Args:
        judge: Answers what is new.
        replies: Those of before, by digest; added to.
    """

    def __init__(self, judge: Judge, replies: dict[bytes, JudgeReply]) -> None:
        self._judge, self._replies = judge, replies
        self.time_limit_s = time_limit_of(judge)
        self._failed: dict[bytes, JudgeUsage] = {}
        """Usage of failed attempts at questions that have no answer yet."""

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """Answer from memory, or ask."""
        compared = {
            each.name: getattr(request, each.name) for each in fields(request) if each.compare
        }
        text = json.dumps(compared, sort_keys=True, default=str)
        key = blake2b(text.encode(), digest_size=16).digest()
        found = self._replies.get(key)
        if found is not None:
            return found
        failed = self._failed.get(key)
        try:
            found = await self._judge.ask(request)
        except Exception as error:
            taken = to_judge_error(error).taken
            self._failed[key] = taken if failed is None else sum_of((failed, taken))
            raise
        # The caller that asks now learns of the attempts before. A caller that finds the answer
        # later does not.
        self._replies[key] = found if failed is None else found.after(failed)
        return found
