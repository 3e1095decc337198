"""Verdicts and actions of guardrails, in the words of those who write them."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from scouter.model.genai.work import agent_work
from scouter.model.span import AttributeValue, SpanEvent, StatusCode
from tests.scouter.evaluate.spans_support import span


@pytest.mark.parametrize(
    ("name", "attributes", "expected"),
    [
        pytest.param(
            "run_guardrail PII filter",
            {
                "gen_ai.operation.name": "run_guardrail",
                "gen_ai.guardrail.verdict.type": "deny",
                "gen_ai.guardrail.action.type": "allow",
            },
            ("PII filter", "deny", "allow"),
            id="OpenTelemetry",
        ),
        pytest.param(
            "run_guardrail",
            {
                "gen_ai.operation.name": "run_guardrail",
                "gen_ai.security.guardrail.name": "pii",
                "gen_ai.security.verdict.type": "warn",
                "gen_ai.security.action.type": "block",
            },
            ("pii", "warn", "block"),
            id="OpenTelemetry before",
        ),
        pytest.param(
            "apply_guardrail pii llm_input",
            {
                "gen_ai.operation.name": "apply_guardrail",
                "gen_ai.guardian.name": "pii",
                "gen_ai.security.decision.type": "modify",
            },
            ("pii", "modify", ""),
            id="OpenTelemetry at first",
        ),
        pytest.param(
            "homework.guardrail",
            {
                "gen_ai.operation.name": "guardrail_check",
                "gen_ai.guardrail.name": "homework",
                "gen_ai.guardrail.triggered": True,
            },
            ("homework", "deny", ""),
            id="a tripwire of the OpenAI Agents SDK",
        ),
        pytest.param(
            "homework.guardrail",
            {
                "gen_ai.operation.name": "guardrail_check",
                "gen_ai.guardrail.name": "homework",
                "gen_ai.guardrail.triggered": False,
            },
            ("homework", "allow", ""),
            id="one that did not trip",
        ),
        pytest.param(
            "guardrail",
            {
                "openinference.span.kind": "GUARDRAIL",
                "guardrail_name": "presidio",
                "guardrail_status": "guardrail_intervened",
            },
            ("presidio", "guardrail_intervened", ""),
            id="LiteLLM",
        ),
        pytest.param(
            "toxicity", {"openinference.span.kind": "GUARDRAIL"}, ("toxicity", "", ""),
            id="OpenInference",
        ),
    ],
)  # fmt: skip
def test_conventions(
    name: str, attributes: Mapping[str, AttributeValue], expected: tuple[str, str, str]
) -> None:
    (run,) = agent_work([span(1, name, attributes=attributes)]).guardrails
    assert (run.name, run.verdict, run.action) == expected
    assert run.span_ids == ("0" * 15 + "1",)


@pytest.mark.parametrize(
    ("kind", "message", "verdict"),
    [
        ("agents.exceptions.InputGuardrailTripwireTriggered", "", "deny"),
        ("OutputGuardrailTripwireTriggered", "Guardrail G triggered tripwire", "deny"),
        ("", "Guardrail tripwire triggered: {'guardrail': 'g'}", "deny"),
        ("ToolInputGuardrailTripwireTriggered", "", "deny"),
        ("TimeoutError", "the guardrail's model is late", ""),
        ("CancelledError", "", ""),
    ],
)
def test_a_tripwire_is_a_verdict(kind: str, message: str, verdict: str) -> None:
    """Kind: a guardrail that stopped the run by an exception counts as one without a verdict."""
    attributes: dict[str, AttributeValue] = {"openinference.span.kind": "GUARDRAIL"}
    raised = {"exception.type": kind, "exception.message": message}
    one = replace(
        span(1, "g", attributes=attributes),
        status=StatusCode.ERROR,
        status_message=message,
        events=(SpanEvent(name="exception", time_ns=1, attributes=raised),),
    )
    (run,) = agent_work([one]).guardrails
    assert run.verdict == verdict
