"""Profiles that a collector takes, by the providers and the budget of its judges."""

from pathlib import Path

import pytest
from pydantic import JsonValue

from collector.judging.providers import JudgeProviders, UnaskableJudgeError
from scouter.agent.entries import ProviderEntries
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.judge.prompt import Prompt, Score
from scouter.evaluate.tasks.judge import LLMJudgeTask

PRICES = {"cheap": {"input_per_million": 0.1, "output_per_million": 0.1}}
ENTRIES = ProviderEntries.model_validate(
    {
        "providers": {
            "gemini": {"daily_budget_usd": 1, "prices": PRICES},
            "ours": {"kind": "openai", "daily_budget_usd": 1, "prices": PRICES},
        }
    }
)
ENVIRON = {"GOOGLE_API_KEY": "k", "OPENAI_API_KEY": "k"}


def profile(provider: str, model: str, settings: dict[str, JsonValue]) -> AgentEvalProfile:
    prompt = Prompt(
        "How good is ${answer}?", model, provider, output_type=Score, model_settings=settings
    )
    task = LLMJudgeTask(
        id="good", prompt=prompt, context_path="score", operator="GreaterThan", expected_value=3
    )
    return AgentEvalProfile([task], alias="judged")


@pytest.mark.parametrize("provider", ["gemini", "google", "google_adk"])
def test_every_name_of_a_provider_has_its_budget(tmp_path: Path, provider: str) -> None:
    providers = JudgeProviders(ENTRIES, tmp_path, ENVIRON)
    assert providers.name_of(provider) == "gemini"
    providers.check(profile(provider, "cheap", {}))
    with pytest.raises(UnaskableJudgeError, match="'gemini' has no price for the model 'dear'"):
        providers.check(profile(provider, "dear", {}))


@pytest.mark.parametrize(
    ("provider", "settings", "problem"),
    [
        ("openai", {}, "'openai' has no entry of its own.*names 'ours'"),
        ("nobody", {}, "the collector has no provider entry 'nobody'.*providers_file"),
        ("ours", {"model": "dear"}, "model setting 'model'"),
        ("ours", {"extra_body": {"n": 128}}, r"model setting 'extra_body\.n'"),
        ("ours", {"max_tokens": 1, "max_completion_tokens": 9}, "two limits"),
    ],
)
def test_no_profile_goes_round_a_budget(
    tmp_path: Path, provider: str, settings: dict[str, JsonValue], problem: str
) -> None:
    with pytest.raises(UnaskableJudgeError, match=f"task 'good': .*{problem}"):
        JudgeProviders(ENTRIES, tmp_path, ENVIRON).check(profile(provider, "cheap", settings))
