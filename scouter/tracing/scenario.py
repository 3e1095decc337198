"""The scope of one scenario of an offline replay."""

from collections.abc import Generator
from contextlib import contextmanager

from opentelemetry import baggage, context, trace

from scouter.errors import ConfigError
from scouter.model.attributes import (
    SCENARIO_ATTEMPT,
    SCENARIO_ID,
    SCENARIO_ID_MAX_CHARS,
    SCENARIO_TRY,
)
from scouter.queue.leftover import LEFTOVERS


@contextmanager
def scenario_scope(
    scenario_id: str, attempt: int | None = None, try_key: str | None = None
) -> Generator[None]:
    """Mark everything that happens inside as part of one scenario.

    Spans started inside get the attribute `scouter.eval.scenario_id`, records captured inside
    are kept under the scenario. No span is made, and the spans inside do not become children of
    a span outside: each scenario has traces of its own.

    Args:
        scenario_id: The scenario's id, not empty, at most `SCENARIO_ID_MAX_CHARS` long.
        attempt: Number of the attempt, from 0; spans get it as `scouter.eval.attempt`.
        try_key: A key of this try of the attempt, unlike that of any other try; spans get it as
            `scouter.eval.try`. A record or span with such a key is never sent, not even after the
            replay.

    Raises:
        ConfigError: The id is empty or too long.
    """
    if not scenario_id:
        raise ConfigError("a scenario needs an id that is not empty")
    if len(scenario_id) > SCENARIO_ID_MAX_CHARS:
        raise ConfigError(
            f"scenario id {scenario_id[:40]!r}…: {len(scenario_id)} characters; shorten it to "
            f"{SCENARIO_ID_MAX_CHARS} or fewer"
        )
    inside = trace.set_span_in_context(trace.INVALID_SPAN, context.get_current())
    inside = baggage.set_baggage(SCENARIO_ID, scenario_id, inside)
    if attempt is not None:
        inside = baggage.set_baggage(SCENARIO_ATTEMPT, str(attempt), inside)
    if try_key is not None:
        LEFTOVERS.may_exist = True
        inside = baggage.set_baggage(SCENARIO_TRY, try_key, inside)
    token = context.attach(inside)
    try:
        yield
    finally:
        context.detach(token)


def active_scenario() -> str | None:
    """Id of the scenario that the calling code runs in, if any."""
    value = baggage.get_baggage(SCENARIO_ID)
    return value if isinstance(value, str) else None
