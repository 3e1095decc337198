"""Verdicts and actions of guardrails, in the words of those who write them."""

from collections.abc import Mapping

import pytest

from scouter.model.genai.work import agent_work
from scouter.model.span import AttributeValue
from tests.scouter.evaluate.spans_support import span


@pytest.mark.parametrize(
    ("name", "attributes", "told"),
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
    name: str, attributes: Mapping[str, AttributeValue], told: tuple[str, str, str]
) -> None:
    (run,) = agent_work([span(1, name, attributes=attributes)]).guardrails
    assert (run.name, run.verdict, run.action) == told
    assert run.span_ids == ("0" * 15 + "1",)
