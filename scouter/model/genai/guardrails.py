"""Guardrails in spans: the verdict, and the action upon it.

Source: the pages on guardrails of OpenTelemetry's GenAI conventions (`run_guardrail`, before
`apply_guardrail`, with three generations of names), the spans of the OpenAI Agents SDK as
OpenTelemetry and OpenLLMetry write them, and those of LiteLLM.
"""

from typing import Final

from scouter.model.agent_work import GuardrailRun
from scouter.model.genai.acts import Act
from scouter.model.genai.hidden import is_hidden
from scouter.model.span import Attributes, Span

_OPERATIONS: Final = frozenset({"run_guardrail", "apply_guardrail"})
"""Operations whose spans have the name of the guardrail behind the operation's."""
NAME: Final = (
    "gen_ai.guardrail.component.name", "gen_ai.security.guardrail.name", "gen_ai.guardian.name",
    "gen_ai.guardrail.name", "guardrail_name", "guardrail.name",
)  # fmt: skip
VERDICT: Final = (
    "gen_ai.guardrail.verdict.type", "gen_ai.security.verdict.type",
    "gen_ai.security.decision.type", "gen_ai.guardrail.result.value", "guardrail_status",
)  # fmt: skip
ACTION: Final = (
    "gen_ai.guardrail.action.type", "gen_ai.security.action.type", "gen_ai.guardrail.action",
)  # fmt: skip
TRIGGERED: Final = ("gen_ai.guardrail.triggered", "guardrail.triggered")
"""A tripwire of the OpenAI Agents SDK: it stands for the verdict."""


def guardrail_run(act: Act) -> GuardrailRun:
    """Read one check by a guardrail; each field from the innermost span that tells it."""
    spans = act.spans[::-1]
    return GuardrailRun(
        name=_first(spans, NAME) or _bare(act.spans[0].name),
        verdict=_first(spans, VERDICT) or _tripwire(spans),
        action=_first(spans, ACTION),
        span_ids=act.span_ids,
    )


def _first(spans: tuple[Span, ...], names: tuple[str, ...]) -> str:
    for attributes in (span.attributes for span in spans):
        for name in names:
            value = attributes.get(name)
            if isinstance(value, str) and value and not is_hidden(value):
                return value
    return ""


def _tripwire(spans: tuple[Span, ...]) -> str:
    for attributes in (span.attributes for span in spans):
        for name in TRIGGERED:
            if attributes.get(name) is not None:
                return "deny" if _is_true(attributes, name) else "allow"
    return ""


def _is_true(attributes: Attributes, name: str) -> bool:
    return str(attributes[name]).lower() == "true"


def _bare(name: str) -> str:
    """A span's name without its operation."""
    operation, _, rest = name.partition(" ")
    return rest if rest and operation in _OPERATIONS else name
