"""Prometheus series about the collector's judges.

Labels are entries of the settings, and models of registered profiles; of these so many only.
"""

import logging
import threading
from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from collector.histogram import BatchHistogram
from collector.metrics import OTHER
from scouter.agent.cache.sqlite import Kept
from scouter.evaluate.judge.usage import JudgeUsage

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
        self._seconds = BatchHistogram(
            "scouter_judge_call_seconds",
            "Time that one question took, waiting for the entry's limits included.",
            _CALL_BUCKETS,
            label="entry",
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
            "Evaluations on records and sessions that judges are being asked for.",
            registry=registry,
        )

    def watch_cache(self, kept: Callable[[], Kept], max_bytes: int) -> None:
        """Show how full the cache is.

        Args:
            kept: Tells.
            max_bytes: Its bound.
        """
        for name, text, value in (
            ("answers", "Answers in the cache.", lambda: kept().answers),
            ("bytes", "Bytes of answers in the cache.", lambda: kept().bytes),
            ("limit_bytes", "Most bytes of answers; the oldest make room.", lambda: max_bytes),
        ):
            gauge = Gauge(f"scouter_judge_cache_{name}", text, registry=self.registry)
            gauge.set_function(value)

    def looked_up(self, entry: str, model: str, *, was_found: bool) -> None:
        """Count a question that a cache stands before.

        Args:
            entry: Name of the provider entry.
            model: That is meant.
            was_found: It need not be asked.
        """
        model = self._shown(entry, model)
        self._lookups.labels(entry, model, "hit" if was_found else "miss").inc()

    def called(
        self, entry: str, model: str, outcome: str, seconds: float, taken: JudgeUsage | None
    ) -> None:
        """Count a question.

        Args:
            entry: Name of the provider entry.
            model: The model that was asked.
            outcome: `answered`, or the reason of the error.
            seconds: Duration of the question.
            taken: Tokens and cost as far as they are known, also of a question without an answer.
        """
        model = self._shown(entry, model)
        self._calls.labels(entry, model, outcome).inc()
        self._seconds.observe((seconds,), entry)
        if taken is None:
            return
        for direction, tokens in (("input", taken.input_tokens), ("output", taken.output_tokens)):
            if tokens:
                self._tokens.labels(entry, model, direction).inc(tokens)
        if taken.cost_usd:
            self._cost.labels(entry, model).inc(taken.cost_usd)

    def _shown(self, entry: str, model: str) -> str:
        """The model's label: its name, for those that were asked first."""
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
