"""`scouter eval` asks the providers that prompts name, through the vendors' own clients."""

import re
from pathlib import Path

import pytest

from scouter.mock.llm_server import LLMTestServer
from tests.scouter.cli.conftest import Scouter
from tests.scouter.cli.test_eval import one_line

PROFILE = """\
alias: answers
tasks:
  - task_type: LLMJudge
    id: polite
    prompt:
      model: gpt-4o
      provider: {provider}
      messages: "Is this polite? ${{answer}}"
      output_type: {{type: object, properties: {{polite: {{type: boolean}}}}, required: [polite]}}
    context_path: polite
    operator: Equals
    expected_value: true
"""
PROVIDERS = "providers: {{house: {{kind: openai, base_url: '{url}', key_variable: HOUSE_KEY}}}}"
RUN = ("eval", "shop.yaml", "--agent", "shop:answer", "--profile", "judged.yaml")


@pytest.fixture
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A user who has no settings and no keys."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("SCOUTER_PROVIDERS", "OPENAI_API_KEY", "HOUSE_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("no_settings")
def test_a_well_known_provider_needs_its_key_alone(project: Path, scouter: Scouter) -> None:
    (project / "judged.yaml").write_text(PROFILE.format(provider="openai"))
    with LLMTestServer({"polite": True}) as server:
        done = scouter(*RUN)

    assert done.returncode == 0, done.stdout + done.stderr
    assert server.calls == 2, "one for each record"
    said = [re.sub("</?data-[0-9a-f]{16}>", "'", each.text) for each in server.asked]
    assert sorted(text.splitlines()[-1] for text in said) == [
        "Is this polite? 'From 10 to 19.'",
        "Is this polite? 'From 9 to 18.'",
    ]


@pytest.mark.usefixtures("no_settings")
@pytest.mark.parametrize("most", [3, 20])
def test_the_entry_says_how_many_are_asked_at_a_time(
    most: int, project: Path, scouter: Scouter
) -> None:
    (project / "judged.yaml").write_text(PROFILE.format(provider="openai"))
    (project / "p.yaml").write_text(f"providers: {{openai: {{concurrency: {most}}}}}")
    with LLMTestServer({"polite": True}, latency_s=0.3) as server:
        done = scouter(*RUN, "--repeats", "10", "--providers", "p.yaml", "--judge-cache", "none")

    assert done.returncode == 0, done.stderr
    assert (server.calls, server.most_at_once) == (20, most)


@pytest.mark.usefixtures("no_settings")
@pytest.mark.parametrize("place", ["flag", "variable", "folder"])
def test_an_entry_of_a_settings_file(place: str, project: Path, scouter: Scouter) -> None:
    (project / "judged.yaml").write_text(PROFILE.format(provider="house"))
    file = project / "config" / "scouter" / "providers.yaml"
    if place != "folder":
        file = project / "mine.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    flags = ["--providers", str(file)] if place == "flag" else []
    environ = {"SCOUTER_PROVIDERS": str(file)} if place == "variable" else {}
    with LLMTestServer({"polite": False}, key="of-the-house") as server:
        file.write_text(PROVIDERS.format(url=server.url))
        done = scouter(*RUN, *flags, "--min-pass-rate", "0.9", HOUSE_KEY="of-the-house", **environ)

    assert done.returncode == 1, done.stderr
    assert server.calls == 2


@pytest.mark.usefixtures("no_settings")
@pytest.mark.parametrize(
    ("provider", "flags", "message"),
    [
        ("openai", [], "task 'polite': provider entry 'openai' has no key: set the environment "
         "variable OPENAI_API_KEY"),
        ("house", [], "task 'polite': there is no provider entry 'house'; there are anthropic"),
        ("house", ["--providers", "p.yaml"], "set the environment variable HOUSE_KEY"),
        ("house", ["--providers", "gone.yaml"], "gone.yaml"),
        ("house", ["--providers", "bad.yaml"], "bad.yaml, line 1, field 'providers.house.api_key'"),
    ],
)  # fmt: skip
def test_what_is_missing_is_said_before_anything_runs(
    provider: str, flags: list[str], message: str, project: Path, scouter: Scouter
) -> None:
    (project / "judged.yaml").write_text(PROFILE.format(provider=provider))
    (project / "p.yaml").write_text(PROVIDERS.format(url="http://127.0.0.1:9/v1"))
    (project / "bad.yaml").write_text("providers: {house: {kind: openai, api_key: sk}}")
    done = scouter(*RUN, *flags)

    assert message in one_line(done)
    assert "asked:" not in done.stderr, "the agent was not called"


@pytest.mark.usefixtures("no_settings")
def test_a_judge_of_ones_own_wins(project: Path, scouter: Scouter) -> None:
    (project / "judged.yaml").write_text(PROFILE.format(provider="nowhere"))
    (project / "own.py").write_text("def judge(request):\n    return {'polite': True}\n")
    done = scouter(*RUN, "--judge", "own:judge")

    assert done.returncode == 0, done.stdout + done.stderr
