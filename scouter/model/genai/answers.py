"""An agent's answer, for traces in which no call of a model tells it."""

from collections.abc import Sequence

from pydantic import JsonValue

from scouter.model.genai.facts import Kind, SpanFacts
from scouter.model.genai.messages import MessageLog
from scouter.model.genai.reader import is_step, step_output
from scouter.model.span import Span


def answer_of_agents(facts: Sequence[SpanFacts]) -> str | None:
    """The answer of the outermost agent that tells one, which began before those inside it."""
    agents = (each for each in facts if each.kind in (Kind.AGENT, Kind.WORKFLOW))
    answers = (_said(each.output_messages or ()) for each in agents)
    return next((answer for answer in answers if answer), None)


def answer_of_steps(spans: Sequence[Span]) -> str | None:
    """The last answer among what the steps of an agent gave back."""
    answers = (_said(step_output(span)) for span in reversed(spans) if is_step(span))
    return next((answer for answer in answers if answer), None)


def _said(messages: Sequence[JsonValue]) -> str | None:
    log = MessageLog()
    log.read(messages)
    return log.content
