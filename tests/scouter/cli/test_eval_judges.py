"""`scouter eval` asks the providers that prompts name, through the vendors' own clients."""

import json
import re
from pathlib import Path

import pytest

from scouter.mock.llm_server import LLMTestServer
from tests.scouter.cli.conftest import Scouter
from tests.scouter.cli.test_eval import one_line
from tests.support.collector_process import CollectorProcess
from tests.support.shop_project import program

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
    for name in ("CONFIG", "CACHE", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    for name in ("SCOUTER_PROVIDERS", "OPENAI_API_KEY", "HOUSE_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("no_settings")
def test_a_well_known_provider_needs_its_key_alone(project: Path, scouter: Scouter) -> None:
    (project / "judged.yaml").write_text(PROFILE.format(provider="openai"))
    with LLMTestServer({"polite": True}) as server:
        done = scouter(*RUN)

    assert done.returncode == 0, done.stdout + done.stderr
    assert server.calls == 2, "one for each record"
    said = [re.sub("</?data-[0-9a-f]{16}>", "'", each.text) for each in server.questions]
    assert sorted(text.splitlines()[-1] for text in said) == [
        "Is this polite? 'From 10 to 19.'",
        "Is this polite? 'From 9 to 18.'",
    ]


@pytest.mark.usefixtures("no_settings")
@pytest.mark.parametrize("most", [3, 20])
def test_the_entry_says_how_many_are_called_at_a_time(
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


PRICED = (
    "providers: {{openai: {{{more}prices: {{gpt-4o: {{input_per_million: 100, "
    "output_per_million: 1000}}}}}}}}"
)


@pytest.mark.usefixtures("no_settings")
@pytest.mark.parametrize("place", ["flag", "variable", "folder"])
def test_a_second_run_asks_nothing(place: str, project: Path, scouter: Scouter) -> None:
    """The line before the verdict says how many calls were made, how many not, and their cost."""
    (project / "judged.yaml").write_text(PROFILE.format(provider="openai"))
    (project / "p.yaml").write_text(PRICED.format(more=""))
    flags = ["--judge-cache", "c.db"] if place == "flag" else []
    environ = {"SCOUTER_JUDGE_CACHE": "c.db" if place == "variable" else ""}
    file = project / ("cache/scouter/judge.db" if place == "folder" else "c.db")
    with LLMTestServer({"polite": True}) as server:
        run = (*RUN, "--providers", "p.yaml", *flags)
        first, second = (scouter(*run, "--json", f"{at}.json", **environ) for at in (1, 2))
        assert server.calls == 2
        third = scouter(*RUN, "--providers", "p.yaml", "--judge-cache", "none")
        assert server.calls == 4

    assert (first.returncode, second.returncode, third.returncode) == (0, 0, 0), first.stderr
    found = [json.loads((project / f"{at}.json").read_text())["judges"] for at in (1, 2)]
    cost = (found[0]["input_tokens"] * 100 + found[0]["output_tokens"] * 1000) / 1e6
    assert (found[0]["calls"], found[0]["cached"]) == (2, 0)
    assert found[0]["cost_usd"] == pytest.approx(cost)
    assert f"judges: 2 calls, 0 cached, {found[0]['input_tokens']} tokens in" in first.stdout
    assert f"${cost:.4f}" in first.stdout
    assert found[1] == {
        "calls": 0, "cached": 2, "input_tokens": 0, "output_tokens": 0, "cost_usd": 0.0,
        "unpriced_calls": 0, "over_budget": 0,
    }  # fmt: skip
    assert "judges: 0 calls, 2 cached, 0 tokens in, 0 out, $0.0000" in second.stdout
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.usefixtures("no_settings")
@pytest.mark.parametrize("place", ["flag", "entry", "all"])
def test_what_does_not_fit_the_budget_is_skipped_and_said(
    place: str, project: Path, scouter: Scouter
) -> None:
    """A question may cost 4.096 dollars for its answer alone, so that a tenth is for none."""
    (project / "judged.yaml").write_text(PROFILE.format(provider="openai"))
    text = PRICED.format(more="daily_budget_usd: 0.1, " if place == "entry" else "")
    more = "daily_budget_usd: 0.1\n" if place == "all" else ""
    (project / "p.yaml").write_text(f"{more}{text}\n")
    flags = ["--judge-budget", "0.1"] if place == "flag" else []
    reports = ["--json", "r.json", "--markdown", "r.md", "--html", "r.html"]
    with LLMTestServer({"polite": True}) as server:
        allowed = scouter(*RUN, "--providers", "p.yaml", *flags, "--allow-unjudged")
        done = scouter(*RUN, "--providers", "p.yaml", *flags, *reports, "--junit", "r.xml", "-v")
        assert server.calls == 0

    assert allowed.returncode == 0, allowed.stdout
    assert done.returncode == 1, done.stderr
    said = " ".join(done.stdout.split())
    assert "Not judged. 2 of 2 checks passed." in said
    assert "--allow-unjudged" in said
    assert 'name="the judge of every task was called"' in (project / "r.xml").read_text()
    assert "2 judge tasks skipped, as the budget left too little" in said
    assert "Pass rate of all checks 100.0% (2/2)" in said
    assert "Mean pass rate" not in said, (
        "no scenario was evaluated whole, and the alias has no rate"
    )
    assert "Workflow pass rate (mean of aliases) - " in said
    assert (
        "judges: 0 calls, 0 cached; 2 tasks skipped, as the budget left too little" in done.stdout
    )
    report = json.loads((project / "r.json").read_text())
    assert (report["decision"], report["exit_code"]) == ("not judged", 1)
    assert report["judges"]["over_budget"] == 2
    assert report["checks"]["total"] == 2, "the shop's own checks; none of the judge's"
    assert "2 judge tasks skipped" in report["reasons"][0]
    assert "2 judge tasks skipped" in (project / "r.md").read_text()
    assert "Skipped for budget" in (project / "r.html").read_text()


TALK = [{"id": "t", "initial_query": "Is Paris open?", "simulated_user_persona": "Terse."}]


@pytest.mark.usefixtures("no_settings")
def test_a_model_of_an_entry_plays_the_user(project: Path, scouter: Scouter) -> None:
    """Provider entries are all that is needed; no judge is named."""
    (project / "talk.json").write_text(json.dumps(TALK))
    (project / "p.yaml").write_text("providers: {}")
    run = ("eval", "talk.json", *RUN[2:4], "--profile", "answers=judged.yaml")
    (project / "judged.yaml").write_text(PROFILE.format(provider="openai"))
    with LLMTestServer({"message": "Thanks.", "done": True, "polite": True}) as server:
        done = scouter(
            *run, "--simulated-user", "openai/small-2", "--judge-cache", "none", "--providers",
            "p.yaml",
        )  # fmt: skip
        models = sorted(each.model for each in server.questions)

    assert done.returncode == 0, done.stdout + done.stderr
    assert models == ["gpt-4o", "small-2"]
    for user, message in (
        ("openai/", "no model; expected entry/model"),
        ("house/small-2", "there is no provider entry 'house'"),
        ("judge", "such as --simulated-user openai/gpt-4o-mini"),
    ):
        assert message in one_line(scouter(*run, "--simulated-user", user))
    few = scouter(*run, "--simulated-user", "openai/small-2", "--judge-budget", "1")
    assert "no price for the model 'small-2'" in one_line(few)


@pytest.mark.usefixtures("no_settings")
def test_a_budget_needs_prices(project: Path, scouter: Scouter) -> None:
    (project / "judged.yaml").write_text(PROFILE.format(provider="openai"))
    (project / "own.py").write_text("def judge(request):\n    return {'polite': True}\n")
    with LLMTestServer({"polite": True}) as server:
        done = scouter(*RUN, "--judge-budget", "5")
        own = scouter(*RUN, "--judge-budget", "5", "--judge", "own:judge")
        assert server.calls == 0

    assert (done.returncode, own.returncode) == (2, 2)
    words = "task 'polite': provider entry 'openai' has no price for the model 'gpt-4o'"
    assert words in one_line(done)
    assert "asked:" not in done.stderr, "the agent was not called"
    assert "a judge of your own (--judge) has none" in one_line(own)


@pytest.mark.usefixtures("no_settings")
def test_answers_of_ones_own_judge_are_stored_where_a_file_is_named(
    project: Path, scouter: Scouter
) -> None:
    """Nobody sees when such a judge changes; so only who says so gets old answers."""
    (project / "judged.yaml").write_text(PROFILE.format(provider="nowhere"))
    own = "def judge(request):\n    print('judging')\n    return {'polite': True}\n"
    (project / "own.py").write_text(own)
    run = (*RUN, "--judge", "own:judge")
    counts = [
        scouter(*run, *flags).stderr.count("judging")
        for flags in ((), (), ("--judge-cache", "c.db"), ("--judge-cache", "c.db"))
    ]
    assert counts == [2, 2, 2, 0]


@pytest.mark.usefixtures("no_settings")
@pytest.mark.parametrize("place", ["flag", "variable", "address"])
def test_answers_are_shared_by_a_collector(
    place: str,
    project: Path,
    scouter: Scouter,
    tmp_path_factory: pytest.TempPathFactory,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Another machine asks nothing anew; without the collector all calls are made, with a word."""
    (project / "judged.yaml").write_text(PROFILE.format(provider="openai"))
    collector = CollectorProcess(tmp_path_factory.mktemp("collector"))
    collector.start()
    flags = ["--judge-cache", collector.url] if place == "flag" else []
    names = {"variable": "SCOUTER_JUDGE_CACHE", "address": "SCOUTER_URL"}
    environ = {"SCOUTER_JUDGE_CACHE": ""}
    environ |= {names[place]: collector.url} if place in names else {}
    try:
        with LLMTestServer({"polite": True}) as server:
            runs = [scouter(*RUN, *flags, **environ) for _ in range(2)]
            assert server.calls == 2
            assert caplog.records == []
            collector.stop()
            away = scouter(*RUN, *flags, **environ)
            assert server.calls == 4
    finally:
        collector.close()
    assert [each.returncode for each in (*runs, away)] == [0] * 3, away.stderr
    assert not (project / "cache").exists(), "nor is anything stored on this machine"
    assert [each.getMessage().count("cannot be used") for each in caplog.records] == [1]


BAD_JUDGES = """
import sys
import threading


def leaves(request):
    sys.exit(0)


def hangs(request):
    threading.Event().wait()


hangs.time_limit_s = 0.2
"""


@pytest.mark.usefixtures("no_settings")
@pytest.mark.parametrize(
    ("judge", "words"), [("leaves", "sys.exit(0)"), ("hangs", "took longer than 0.2 s")]
)
def test_what_a_judge_of_ones_own_does_is_its_tasks_error(
    judge: str, words: str, project: Path
) -> None:
    """In a process of its own, which ends although a thread of it hangs."""
    (project / "judged.yaml").write_text(PROFILE.format(provider="nowhere"))
    (project / "own.py").write_text(BAD_JUDGES)
    done = program(project, *RUN, "--judge", f"own:{judge}", "--json", "r.json")

    assert done.returncode == 1, done.stdout + done.stderr
    assert words in " ".join(done.stdout.split())
    report = json.loads((project / "r.json").read_text())
    assert report["decision"] == "errored"
    assert report["checks"]["passed"] == 2, "the scenarios' own checks were judged"


@pytest.mark.usefixtures("no_settings")
@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ([], "the time limit was reached"),
        (["--judge", "own:judge"], "the judge took longer than 0.2 s (its time_limit_s)"),
    ],
)
def test_a_judge_has_the_time_that_it_is_given(
    flags: list[str], text: str, project: Path, scouter: Scouter
) -> None:
    """Of entries and of a judge of one's own; both have a minute if nothing is said."""
    (project / "judged.yaml").write_text(PROFILE.format(provider="openai") + "    max_retries: 0\n")
    (project / "own.py").write_text(
        "import asyncio\n\nasync def judge(request):\n    await asyncio.Event().wait()\n"
    )
    with LLMTestServer({"polite": True}, latency_s=30) as server:
        done = scouter(*RUN, *flags, "--judge-timeout", "0.2", "--save", "r.json")

    assert done.returncode == 1, done.stdout + done.stderr
    assert text in (project / "r.json").read_text()
    assert server.calls == (0 if flags else 2)


def test_no_time_at_all_is_refused(project: Path, scouter: Scouter) -> None:
    done = scouter(*RUN, "--judge-timeout", "0")

    assert done.returncode == 2
    assert "Invalid value for '--judge-timeout'" in done.stderr
