"""Options of a replay, checked once."""

import math
from dataclasses import dataclass
from os import PathLike
from typing import Final, Literal, TypeAlias

from scouter.errors import ConfigError
from scouter.evaluate.api.replay import ScenarioEvalResults

OnError: TypeAlias = Literal["raise", "record"]

MAX_REPEATS: Final = 100_000
MAX_CONFIRM: Final = 1_000
GRACE_S: Final = 1.0
"""Seconds that an attempt waits for what its agent left open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The arguments of `EvalOrchestrator.run`, where they are documented.

    Raises:
        ConfigError: Names the argument, its value and what was expected.
    """

    on_error: OnError = "raise"
    repeats: int = 1
    concurrency: int = 1
    timeout_s: float | None = None
    retries: int = 0
    resume: str | PathLike[str] | None = None
    progress: bool | None = None
    grace_s: float = GRACE_S
    baseline: ScenarioEvalResults | None = None
    confirm: int | None = None
    sequential: bool = False
    allow_unreviewed: bool = False

    def __post_init__(self) -> None:
        if self.on_error not in {"raise", "record"}:
            raise ConfigError(f"on_error is {self.on_error!r}; expected 'raise' or 'record'")
        _whole("repeats", self.repeats, 1, MAX_REPEATS)
        _whole("concurrency", self.concurrency, 1, 10_000)
        _whole("retries", self.retries, 0, 1_000)
        baseline, timeout_s, grace_s = self.baseline, self.timeout_s, self.grace_s
        if baseline is not None and not isinstance(baseline, ScenarioEvalResults):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller may not look at types
            raise ConfigError(
                f"baseline is a {type(baseline).__name__}; expected the results of a replay, such "
                "as ScenarioEvalResults.load(file)"
            )
        if self.confirm is not None:
            _whole("confirm", self.confirm, 0, MAX_CONFIRM)
        if timeout_s is not None and not (timeout_s > 0 and math.isfinite(timeout_s)):
            raise ConfigError(f"timeout_s is {timeout_s!r}; expected seconds above 0, or None")
        if not (grace_s >= 0 and math.isfinite(grace_s)):
            raise ConfigError(f"grace_s is {grace_s!r}; expected seconds from 0")

    @property
    def needs_loop(self) -> bool:
        """True if plain functions must leave the thread that waits for them."""
        return self.concurrency > 1 or self.timeout_s is not None


def _whole(name: str, value: object, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ConfigError(f"{name} is {value!r}; expected a whole number from {least} to {most:,}")
