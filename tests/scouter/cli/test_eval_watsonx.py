"""`scouter eval --format watsonx` as a program, and the page that shows it."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import JsonValue

from scouter.mock.llm_protocols import LLMRequest
from scouter.mock.llm_server import LLMTestServer
from tests.scouter.cli.conftest import ROOT, Scouter
from tests.support.journeys import ANSWER, HR, hr

PAGE = (Path(ROOT) / "docs" / "from_watsonx.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, flags=re.DOTALL)

AGENT = f"""
import json
import os

from scouter.tracing import get_tracer

tracer = get_tracer("hr")
DATES = {{"start_date": "2025-01-01", "end_date": "2025-01-30"}}


def tool(name, **arguments):
    with tracer.start_as_current_span(f"execute_tool {{name}}") as span:
        span.set_attribute("gen_ai.operation.name", "execute_tool")
        span.set_attribute("gen_ai.tool.name", name)
        span.set_attribute("gen_ai.tool.call.arguments", json.dumps(arguments))
        span.set_attribute("gen_ai.tool.call.result", "ok")


def answer(message):
    if "nwaters" not in message:
        return "Who are you?"
    with tracer.start_as_current_span("answer"):
        tool("get_assignment_id_hr_agent", username=os.environ.get("USERNAME", "nwaters"))
        tool("get_timeoff_schedule_hr_agent", assignment_id="15778303", **DATES)
    return {ANSWER!r}


def early(message):
    if "nwaters" in message:
        return answer(message)
    return {ANSWER!r}


def crashing(message):
    if "nwaters" in message:
        raise RuntimeError("no such user")
    return "Who are you?"


def late(message):
    if "Thanks" in message:
        raise RuntimeError("no manners")
    return answer(message)


def play(first, last, history):
    return "I am nwaters" if not history else None


def thank(first, last, history):
    return "I am nwaters" if not history else "Thanks"
"""

RUN = ("--format", "watsonx", "--agent", "hr:answer", "--simulated-user", "hr:play")


@pytest.fixture
def folder(project: Path) -> Path:
    (project / "hr.py").write_text(AGENT, encoding="utf-8")
    (project / "hr.json").write_text(json.dumps(HR, indent=2), encoding="utf-8")
    return project


def results(folder: Path) -> Path:
    """The one folder that a run has written."""
    (found,) = (folder / "out").iterdir()
    return found


def test_the_story_is_the_persona(folder: Path, scouter: Scouter) -> None:
    """A model plays the user: `starting_sentence` comes first, the story is who the user is."""

    def play(request: LLMRequest) -> JsonValue:
        said = [message["content"] for message in request.messages]
        is_first = not any(ANSWER in text for text in said)
        return {"message": "I am nwaters." if is_first else "Thanks.", "done": not is_first}

    with LLMTestServer(play) as server:
        done = scouter(
            "eval", "hr.json", *RUN[:-1], "openai/small-1", "--output", "out", "--junit", "j.xml"
        )
    assert done.returncode == 0, done.stdout + done.stderr
    said = json.loads((results(folder) / "messages/hr.messages.json").read_text(encoding="utf-8"))
    texts = [each["content"] for each in said if each["type"] == "text"]
    assert texts == [HR["starting_sentence"], "Who are you?", "I am nwaters.", ANSWER]
    assert HR["story"] in server.requests[0]["messages"][0]["content"]
    metrics = json.loads((results(folder) / "messages/hr.metrics.json").read_text(encoding="utf-8"))
    assert (metrics["is_success"], metrics["tool_call_precision"]) == (True, 1.0)
    assert metrics["average_agent_response_time"] is not None
    assert 'failures="0"' in (folder / "j.xml").read_text(encoding="utf-8")


def test_a_crash_behind_the_last_goal_is_one_where_it_was_recorded_too(
    folder: Path, scouter: Scouter
) -> None:
    """The messages alone tell of a journey that succeeded."""
    crashed = (*RUN[:2], "--agent", "hr:late", "--simulated-user", "hr:thank")
    assert scouter("eval", "hr.json", *crashed, "--output", "out").returncode == 1
    done = scouter("eval", "hr.json", *RUN[:2], "--recorded", str(results(folder)))
    assert done.returncode == 1, done.stdout
    assert "RuntimeError: no manners (hr.py:" in done.stdout


@pytest.mark.parametrize("foreign", [False, True], ids=["own", "foreign"])
def test_turns_that_are_used_up_are_undecided_where_they_were_recorded_too(
    folder: Path, scouter: Scouter, *, foreign: bool
) -> None:
    """Both goals are met, and the user goes on: nobody saw the end; a foreign run has no verdict.

    With a third turn to spare, the user ended a foreign conversation, whoever that was.
    """
    (folder / "hr.json").write_text(json.dumps(hr(max_user_turns=2)), encoding="utf-8")
    user = ("--simulated-user", "hr:thank")
    live = scouter("eval", "hr.json", *RUN[:4], *user, "--output", "out", "--json", "live.json")
    stored = results(folder) / "messages"
    if foreign:
        for kind in ("errors", "metrics"):
            (stored / f"hr.{kind}.json").unlink()
    recorded = (*RUN[:2], "--recorded", str(stored))
    again = scouter("eval", "hr.json", *recorded, "--json", "again.json")
    assert (live.returncode, again.returncode) == (1, 1)
    for name in ("live.json", "again.json"):
        report = json.loads((folder / name).read_text(encoding="utf-8"))
        assert report["scenarios"][0]["outcome"] == "errored", name
    if foreign:
        (folder / "hr.json").write_text(json.dumps(hr(max_user_turns=3)), encoding="utf-8")
        assert scouter("eval", "hr.json", *recorded).returncode == 0


def test_a_crash_is_a_failed_run(folder: Path, scouter: Scouter) -> None:
    done = scouter(
        "eval", "hr.json", *RUN[:2], "--agent", "hr:crashing", *RUN[4:], "--output", "out"
    )
    assert done.returncode == 1
    assert "1 of 1 scenario did not run to the end" in done.stdout
    assert "RuntimeError: no such user (hr.py:" in done.stdout
    found = results(folder)
    averages = json.loads((found / "average_metrics.json").read_text(encoding="utf-8"))
    assert (averages["Runs"], averages["Failed Runs"], averages["Journey Success"]) == (1, 1, 0.0)
    assert (found / "messages/hr.errors.json").exists()
    allowed = scouter("eval", "hr.json", *RUN[:2], "--agent", "hr:crashing", *RUN[4:],
                      "--allow-errors", "--min-pass-rate", "0")  # fmt: skip
    assert allowed.returncode == 1
    assert "nothing was judged" in allowed.stdout


def test_a_journey_that_fails_stops_the_release(folder: Path, scouter: Scouter) -> None:
    saved = scouter("eval", "hr.json", *RUN, "--save", "good.json")
    assert saved.returncode == 0, saved.stderr
    done = scouter("eval", "hr.json", *RUN, "--json", "r.json", USERNAME="other")
    assert done.returncode == 1
    assert "gate task 'is_success': 0.0% (0 of 1), wanted at least 100.0%" in done.stdout
    assert 'was called with username "other"' in done.stdout
    worse = scouter("eval", "hr.json", *RUN, "--baseline", "good.json", USERNAME="other")
    assert worse.returncode == 1
    assert "scenario 'hr' is broken: it passed 1 of 1 attempts before" in worse.stdout
    again = scouter("eval", "hr.json", *RUN, "--baseline", "good.json", "--confirm", "0",
                    "--repeats", "5", "--concurrency", "5", USERNAME="other")  # fmt: skip
    assert again.returncode == 3  # 1 of 1 before and 0 of 5 now: by chance 1 time in 6
    assert "asked again" not in again.stdout
    plan = scouter("eval", "hr.json", *RUN, "--baseline", "good.json", "--plan")
    assert plan.returncode == 0, plan.stderr
    assert "scouter eval hr.json --agent hr:answer --format watsonx" in plan.stdout.replace(
        "\n", ""
    )
    lenient = scouter("eval", "hr.json", *RUN, "--min-pass-rate", "0", USERNAME="other")
    assert lenient.returncode == 0, lenient.stdout


def test_a_summary_before_the_work_is_seen_live(folder: Path, scouter: Scouter) -> None:
    """The calls come in the second turn, the summary in the first one and not again."""
    (folder / "hr.py").write_text(
        AGENT.replace(f"    return {ANSWER!r}\n\n\ndef early", '    return "Done."\n\n\ndef early'),
        encoding="utf-8",
    )
    early = ("--format", "watsonx", "--agent", "hr:early", "--simulated-user", "hr:play")
    sound = scouter("eval", "hr.json", *early)
    assert sound.returncode == 1
    assert "has to come before 'summarize'" in sound.stdout
    assert scouter("eval", "hr.json", *early, "--compat", "wxo-1.6.9").returncode == 0


def test_a_configuration_with_scripted_users(folder: Path, scouter: Scouter) -> None:
    for name, prompts in (("a", ["I am nwaters"]), ("b", ["Never mind."])):
        case = hr(user_prompts=prompts, tags=["scripted"])
        (folder / f"{name}.json").write_text(json.dumps(case), encoding="utf-8")
    config = {
        "test_paths": ["a.json", "b.json", "hr.json"], "tags": ["scripted"], "n_runs": 2,
        "num_workers": 2, "output_dir": "out", "auth_config": {"token": "secret"},
    }  # fmt: skip
    (folder / "config.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
    done = scouter("eval", "config.yml", "--format", "watsonx", "--agent", "hr:answer")
    assert done.returncode == 1, done.stderr
    assert "note: auth_config has no effect here" in done.stderr
    assert "secret" not in done.stderr
    found = results(folder)
    rows = (found / "summary_metrics.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 5
    assert "secret" not in (found / "config.yml").read_text(encoding="utf-8")
    averages = json.loads((found / "average_metrics.json").read_text(encoding="utf-8"))
    assert (averages["Runs"], averages["Journey Success"]) == (4, 0.5)
    assert "gate task 'is_success': 50.0% (2 of 4), wanted at least 100.0%" in done.stdout


def test_a_case_without_a_first_message(folder: Path, scouter: Scouter) -> None:
    (folder / "hr.json").write_text(json.dumps(hr(starting_sentence=None)), encoding="utf-8")
    refused = scouter("eval", "hr.json", *RUN)
    assert refused.returncode == 2
    assert "case 'hr' has no starting_sentence" in refused.stderr
    played = (*RUN[:-1], "openai/small-1", "--resume", "j.jsonl", "--judge-cache", "none")
    with LLMTestServer({"message": "I am nwaters.", "done": True}) as server:
        done = scouter("eval", "hr.json", *played, "--output", "out", "--compat", "sound")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(server.requests) == 2  # the first message, and the end after the answer
    with LLMTestServer({"message": "Hello, I am nwaters.", "done": False}) as server:
        again = scouter("eval", "hr.json", *played)
    assert again.returncode == 0, again.stdout + again.stderr
    assert not server.requests  # what was made up is taken up, too
    said = json.loads((results(folder) / "messages/hr.messages.json").read_text(encoding="utf-8"))
    assert said[0] == {"role": "user", "content": "I am nwaters.", "type": "text"}


def test_the_judge_of_the_configuration(folder: Path, scouter: Scouter) -> None:
    case = hr(user_prompts=["I am nwaters"])
    case["goal_details"].append({"type": "assert_llm", "kind": "policy", "check": "is polite"})
    (folder / "hr.json").write_text(json.dumps(case), encoding="utf-8")
    provider = {"provider": "openai", "model_id": "small-1"}
    config = {"test_paths": ["hr.json"], "evaluation_config": {"provider_config": provider}}
    (folder / "config.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
    run = ("eval", "config.yml", "--format", "watsonx", "--agent", "hr:answer")
    with LLMTestServer({"verdict": True, "reason": "so it is"}) as server:
        done = scouter(*run)
    assert done.returncode == 0, done.stdout + done.stderr
    assert server.requests[0]["model"] == "small-1"
    provider["provider"] = "gateway"
    config["evaluation_config"] = {"provider_config": provider}
    (folder / "config.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
    nobody = scouter(*run)
    assert nobody.returncode == 2
    assert "note: provider_config: " in nobody.stderr
    assert "case 'hr' has statements (assert_llm), which a judge decides" in nobody.stderr


def test_a_run_is_taken_up(folder: Path, scouter: Scouter) -> None:
    run = ("eval", "hr.json", *RUN, "--resume", "j.jsonl")
    assert scouter(*run).returncode == 0
    again = scouter(*run, USERNAME="other")  # what is done does not run again
    assert again.returncode == 0, again.stdout + again.stderr
    assert "Means of 1 run: Journey Success 1, Journey Completion 1," in again.stdout
    (folder / "hr.json").write_text(json.dumps(hr(user_prompts=["I am nwaters"])), "utf-8")
    other = scouter(*run)  # another user has led the conversation in the journal
    assert other.returncode == 2
    assert "the scenarios changed since this journal was started" in other.stderr


def test_means_of_measures_are_gates(folder: Path, scouter: Scouter) -> None:
    """One of two calls has a wrong argument: 1 of 2 goals of calls is met, and 2 of all 3."""
    demands = ("--min-pass-rate", "0", "--min-score", "tool_call_recall=0.5")
    met = scouter("eval", "hr.json", *RUN, *demands, USERNAME="other")
    assert met.returncode == 0, met.stdout
    more = ("--min-score", "journey_completion=0.67", "--json", "r.json",
            "--markdown", "m.md")  # fmt: skip
    missed = scouter("eval", "hr.json", *RUN, *demands, *more, USERNAME="other")
    assert missed.returncode == 1
    assert (
        "mean score of 'journey_completion': 0.6667 (of 1), wanted at least 0.67" in missed.stdout
    )
    report = json.loads((folder / "r.json").read_text(encoding="utf-8"))
    assert report["exit_code"] == 1
    means = {each["task_id"]: each["now"]["mean"] for each in report["tasks"]}
    assert means["is_success"] is None
    assert (means["tool_call_recall"], means["text_match"]) == (0.5, 1.0)
    table = (folder / "m.md").read_text(encoding="utf-8")
    assert "`(scenario) · tool_call_recall` | mean 0.5 (1) |" in table
    assert "`(scenario) · is_success` | 0% (0/1) |" in table


def test_recorded_conversations_are_judged_as_they_were(folder: Path, scouter: Scouter) -> None:
    """Without an agent: the same numbers, and an agent's options are refused with the reason."""
    config = {"test_paths": ["hr.json"], "n_runs": 2, "output_dir": "out"}
    (folder / "config.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
    live = scouter("eval", "config.yml", *RUN, USERNAME="other")
    assert live.returncode == 1
    live_folder = results(folder)
    stored = ("eval", "hr.json", "--format", "watsonx", "--recorded", str(live_folder))
    done = scouter(*stored, "--output", "again", "--save", "b.json", "--html", "r.html")
    assert done.returncode == 1, done.stderr
    assert "gate task 'is_success': 0.0% (0 of 2), wanted at least 100.0%" in done.stdout
    (again,) = (folder / "again").iterdir()
    for name in ("summary_metrics.csv", "messages/hr.run2.messages.analyze.json"):
        assert (again / name).read_text("utf-8") == (live_folder / name).read_text("utf-8")
    compared = scouter(*stored, "--baseline", "b.json", "--confirm", "0")
    assert compared.returncode == 2
    assert "--confirm: the conversations of " in compared.stderr
    compared = scouter(*stored, "--baseline", "b.json")
    assert compared.returncode == 0, compared.stdout  # as bad as before
    planned = scouter(*stored, "--baseline", "b.json", "--plan")
    assert planned.returncode == 2
    assert "--plan: the conversations of " in planned.stderr
    repeated = scouter(*stored, "--repeats", "3")
    assert repeated.returncode == 2
    assert "--repeats: the conversations of " in repeated.stderr
    assert "were recorded once, and no agent is called; give --agent" in repeated.stderr


@pytest.mark.parametrize(
    ("change", "args", "words"),
    [
        ({"goals": {"a": []}}, RUN, "hr.json, field"),
        ({}, RUN[:4], "case 'hr' has no user_prompts"),
        ({}, (*RUN[2:], "--output", "out"), "--output has result files of another system"),
        ({"tags": ["t" * 129]}, RUN, "case 'hr': tags.0: String should have at most 128"),
        ({}, (*RUN, "--min-score", "text_mach=1"), "no task 'text_mach'; the run has"),
        ({}, (*RUN, "--calibration", "c.json"), "a judge decides only about parts of a journey"),
        ({}, (*RUN, "--recorded", "out"), "takes the place of --agent"),
        ({}, (*RUN[:2], "--recorded", "out"), "--recorded out: no such folder"),
        ({}, (*RUN[:2], "--recorded", "."), "no conversation of case 'hr'; expected hr.messages"),
    ],
)
def test_what_is_wrong_is_reported_before_anything_runs(
    folder: Path, scouter: Scouter, change: Any, args: Any, words: str
) -> None:
    (folder / "hr.json").write_text(json.dumps(hr(**change), indent=2), encoding="utf-8")
    done = scouter("eval", "hr.json", *args)
    assert done.returncode == 2, done.stdout
    assert words in done.stderr


def test_a_path_with_nothing_behind_it_is_named(folder: Path, scouter: Scouter) -> None:
    config = {"test_paths": ["nope.json"], "n_runs": 2}
    (folder / "config.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
    done = scouter("eval", "config.yml", *RUN)
    assert done.returncode == 2
    assert "note: nope.json: there is no dataset" in done.stderr


def test_the_page(project: Path, scouter: Scouter, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of the page, the commands of the page."""
    (agent,) = (text for kind, text in BLOCKS if kind == "python" and text.startswith("# hr.py"))
    (dataset,) = (text for kind, text in BLOCKS if kind == "json")
    (config,) = (text for kind, text in BLOCKS if kind == "yaml" and "test_paths" in text)
    for name, text in (("hr.py", agent), ("hr.json", dataset), ("config.yml", config)):
        (project / name).write_text(text, encoding="utf-8")
    commands = [text for kind, text in BLOCKS if kind == "sh"]
    assert len(commands) == 2

    def play(request: LLMRequest) -> JsonValue:
        is_known = any("January 5" in each["content"] for each in request.messages)
        return {"message": "nwaters", "done": is_known}

    for command in commands:
        with LLMTestServer(play):
            done = scouter(*shlex.split(command)[1:])
        assert done.returncode == 0, done.stdout + done.stderr
    written = {
        re.sub(r"<case>", "hr", name)
        for name in re.findall(r"^\| `([^`]+)` \|", PAGE, re.MULTILINE)
    }
    first, second = sorted((project / "results").iterdir(), key=lambda each: each.name)
    there = {str(each.relative_to(first)) for each in first.rglob("*") if each.is_file()}
    assert there == {name for name in written if "." in name} - {"messages/hr.errors.json"}
    assert len((second / "summary_metrics.csv").read_text(encoding="utf-8").splitlines()) == 4
