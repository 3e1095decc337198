"""`scouter eval` asks the suite again where it fell, then what has not passed once.

One of two scenarios is a fall of 50 points: both run three times in all. Then `paris` is
runs alone until it has failed seven times in a row, as two scenarios times 0.40 % are 1 % at most.
"""

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.mock.llm_server import LLMTestServer
from tests.scouter.cli.conftest import ROOT, Scouter
from tests.scouter.cli.test_eval import one_line
from tests.scouter.cli.test_eval_judges import PRICED, no_settings
from tests.scouter.evaluate.statistics.test_failing import by_brute_force
from tests.support.shop_project import program

__all__ = ("no_settings",)  # the fixture

AGENT = '''
import os
import signal
from pathlib import Path

import shop
from scouter.evaluate.judge.port import JudgeError
from scouter.evaluate.outcome import Reason

MESSAGES = Path("messages.txt")


def answer(message):
    """Wrong in the first asks of a city; how many says WRONG, such as `paris:2`."""
    city = "paris" if "Paris" in message else "berlin"
    with MESSAGES.open("a") as file:
        file.write(city + "\\n")
    messages = MESSAGES.read_text().split()
    if os.environ.get("SIGNAL_AT") == str(len(messages)):
        os.kill(os.getpid(), int(os.environ["SIGNAL"]))
    found = shop.answer(message)
    wrong, _, times = os.environ.get("WRONG", ":0").partition(":")
    if wrong == city and messages.count(city) <= int(times):
        if os.environ.get("RAISES") and messages.count(city) > 1:
            raise LookupError("no such city")
        return "Soon."
    return found


def earlier(message):
    with MESSAGES.open("a") as file:
        file.write("earlier\\n")
    return shop.answer(message)


def judge(request):
    with Path("judged.txt").open("a") as file:
        file.write(str(request.messages[-1]["content"]) + "\\n")
    if len(Path("judged.txt").read_text().splitlines()) >= int(os.environ.get("SPENT_AT", "999")):
        raise JudgeError(Reason.BUDGET, "the money is gone", permanent=True)
    return {"good": "From" in str(request.messages[-1]["content"])}
'''
JUDGED = """\
scenarios:
  - id: paris
    initial_query: And the one in Paris?
    tasks:
      - task_type: LLMJudge
        id: good
        prompt: {model: m, provider: house, messages: "Good? ${response}"}
        context_path: good
        operator: Equals
        expected_value: true
"""
RUN = ("eval", "shop.yaml", "--agent", "again:answer", "--profile", "answers.yaml")
CHECK = (*RUN, "--baseline", "b.json")
ALL_WRONG = "paris:99"
SEQUENTIAL = ("--baseline", "b.json", "--repeats", "3", "--sequential")


@pytest.fixture
def shop(project: Path, scouter: Scouter) -> Path:
    """The project with an agent that counts, and a baseline in which both scenarios pass."""
    (project / "again.py").write_text(AGENT, encoding="utf-8")
    saved = scouter(*RUN, "--save", "b.json", "--quiet")
    assert saved.returncode == 0, saved.stderr
    (project / "messages.txt").unlink()
    return project


def messages(project: Path) -> "Counter[str]":
    """The number of questions about each city since the last look."""
    file = project / "messages.txt"
    found = Counter(file.read_text(encoding="utf-8").split())
    file.unlink()
    return found


def repeats(project: Path, name: str = "r.json") -> dict[str, tuple[int, int]]:
    """Per scenario: further attempts alone, and those that passed."""
    found = ScenarioEvalResults.load(project / name).confirmations
    return {each.scenario_id: (each.asked, each.passed) for each in found}


def test_seven_failures() -> None:
    """The number of this module, by brute force: berlin passed now, paris is in question."""
    by_hand = [by_brute_force([(1, 1)] * 2, [(0, 1), (1, 1)], 0, times) for times in (6, 7)]
    assert 2 * by_hand[0] > 0.01 >= 2 * by_hand[1]
    assert by_hand[1] == pytest.approx(1 / 248, abs=1e-5)


def test_broken_for_good(shop: Path, scouter: Scouter) -> None:
    done = scouter(*CHECK, "--save", "r.json", WRONG=ALL_WRONG)
    assert messages(shop) == {"berlin": 3, "paris": 7}
    assert repeats(shop) == {"paris": (4, 0)}
    assert "fewer attempts pass than before: all 2 scenarios are asked again" in done.stderr
    assert "1 scenario that passed before and never does now is asked again" in done.stderr
    assert (
        done.stdout.count("scenario 'paris' is broken: it passed 1 of 1 attempts before and none")
        == 1
    )
    cost = "asked again: the whole suite twice, 4 more attempts; 4 more attempts of 1 scenario"
    assert cost in done.stdout
    assert done.returncode == 1


def test_unlucky(shop: Path, scouter: Scouter) -> None:
    """A pass does not clear it: 3 of 6 whole attempts passed, where 2 of 2 did before."""
    done = scouter(*CHECK, "--save", "r.json", WRONG="paris:4")
    assert messages(shop) == {"berlin": 3, "paris": 5}
    assert repeats(shop) == {"paris": (2, 1)}
    assert "(0 of 3 attempts passed, 1 of 2 when asked again alone)" in done.stdout
    assert done.returncode == 3
    assert "fell by 50.0 points, which may be chance" in done.stdout


def test_a_suite_that_recovers(shop: Path, scouter: Scouter) -> None:
    """One failure of six attempts is a fall of 17 points."""
    done = scouter(*CHECK, "--save", "r.json", WRONG="paris:1")
    assert messages(shop) == {"berlin": 3, "paris": 3}
    assert (repeats(shop), done.returncode) == ({}, 0)
    assert "5 of 6 attempts passed, 2 of 2 in the baseline" in done.stdout
    assert "asked again: the whole suite twice, 4 more attempts\n" in done.stdout


def test_nothing_changed(shop: Path, scouter: Scouter) -> None:
    done = scouter(*CHECK)
    assert done.returncode == 0, done.stdout
    assert messages(shop) == {"berlin": 1, "paris": 1}
    assert "asked again" not in done.stdout + done.stderr


@pytest.mark.parametrize(("confirm", "alone"), [("0", 0), ("2", 0), ("3", 1)])
def test_the_number_of_further_attempts(
    shop: Path, scouter: Scouter, confirm: str, alone: int
) -> None:
    """Attempts of the whole suite are among them."""
    done = scouter(*CHECK, "--confirm", confirm, "--save", "r.json", "-q", WRONG=ALL_WRONG)
    assert messages(shop)["paris"] == 1 + int(confirm)
    assert repeats(shop) == ({"paris": (alone, 0)} if alone else {})
    assert done.returncode == 3


def test_every_report_tells_of_it(shop: Path, scouter: Scouter) -> None:
    scouter(
        *CHECK, "--json", "r.json", "--markdown", "r.md", "--html", "r.html", "--junit", "r.xml",
        WRONG="paris:99", RAISES="yes",
    )  # fmt: skip
    text = (
        "asked again 4 times and never passed: broken; a scenario that did not change fails 7 "
        "times in a row with a chance of 1 in 250; the agent raised 4 times: LookupError: no such "
        "city (again.py:25 in answer)"
    )
    cost = "sked again: the whole suite twice, 4 more attempts; 4 more attempts of 1 scenario"
    report = json.loads((shop / "r.json").read_text(encoding="utf-8"))["asked_again"]
    assert (report["rounds"], report["attempts"], report["judges"]) == (2, 4, None)
    [found] = report["scenarios"]
    assert found.pop("chance") == pytest.approx(1 / 248, abs=1e-5)
    assert found == {
        "scenario_id": "paris", "asked": 4, "passed": 0, "failed": 7,
        "is_broken": True, "is_settled": True, "text": text,
    }  # fmt: skip
    html = (shop / "r.html").read_text(encoding="utf-8")
    assert text in html
    assert f"a{cost}" in html
    markdown = (shop / "r.md").read_text(encoding="utf-8")
    assert "| `paris` | asked again 4 times and never passed: broken;" in markdown
    assert f"- a{cost}" in markdown
    root = Xml.parse(shop / "r.xml").getroot()  # noqa: S314 our own file
    (suite,) = (each for each in root if each.get("name") == "asked again")
    (case,) = suite.findall("testcase")
    assert case.get("name") == "paris"
    assert [found.get("message") for found in case.findall("failure")] == [text]
    assert [each.get("value") for each in suite.iter("property")] == [f"a{cost}"]


def test_what_the_judges_took(shop: Path, scouter: Scouter) -> None:
    """Three rounds, and one further attempt at the scenario alone."""
    (shop / "shop.yaml").write_text(JUDGED, encoding="utf-8")
    judge = ("--judge", "again:judge", "--judge-cache", "none")
    scouter(*RUN, *judge, "--save", "j.json")
    messages(shop)
    (shop / "judged.txt").unlink()
    check = (*RUN, *judge, "--baseline", "j.json", "--save", "r.json")
    done = scouter(*check, WRONG="paris:3")
    assert repeats(shop) == {"paris": (1, 1)}
    assert len((shop / "judged.txt").read_text(encoding="utf-8").splitlines()) == 4
    assert "; 1 more attempt of 1 scenario; judges: 1 call" in done.stdout


@pytest.mark.usefixtures("no_settings")
def test_the_budget_for_judges_is_that_of_the_whole_run(shop: Path, scouter: Scouter) -> None:
    """An answer may cost 4.096 dollars and costs some cents, so that a few of 20 fit into 4.20."""
    text = JUDGED.replace("provider: house", "provider: openai").replace(
        "model: m", "model: gpt-4o"
    )
    (shop / "shop.yaml").write_text(text, encoding="utf-8")
    (shop / "p.yaml").write_text(PRICED.format(more=""), encoding="utf-8")
    run = (*RUN, "--providers", "p.yaml", "--judge-cache", "none")
    check = (*run, "--baseline", "j.json", "--save", "r.json", "--confirm", "20")
    with LLMTestServer(lambda question: {"good": "From" in question.text}) as server:
        scouter(*run, "--save", "j.json")
        before = server.calls
        done = scouter(*check, "--judge-budget", "4.2", WRONG=ALL_WRONG)
        calls = server.calls - before - 1
    ((made, passed),) = repeats(shop).values()
    assert (made, passed) == (calls + 1 - 3, 0), "three of the calls were for the whole suite"
    assert 0 < made < 20
    assert messages(shop)["paris"] == 1 + 3 + made + 1, "no agent is called when nobody can judge"
    text = " ".join(done.stdout.split())
    assert f"not confirmed: 'paris' ({made}) could not be asked again as often as it takes" in text
    assert f"{made + 1} more attempts of 1 scenario; judges: {made} calls" in text


@pytest.mark.parametrize("concurrency", ["1", "2"])
def test_kill_in_the_middle_and_resume(shop: Path, concurrency: str) -> None:
    """Killed in the ninth call, the third attempt at `paris` alone: two are in the journal."""
    resume = (*CHECK, "--resume", "run.jsonl", "--concurrency", concurrency)
    environ = {"WRONG": ALL_WRONG, "SIGNAL_AT": "9", "SIGNAL": str(int(signal.SIGKILL))}
    ended = _run(shop, environ, *resume)
    assert ended.returncode == -signal.SIGKILL
    assert messages(shop) == {"berlin": 3, "paris": 6}
    _run(shop, {"WRONG": ALL_WRONG}, *resume, "--save", "r.json")
    assert messages(shop) == {"paris": 2}
    assert repeats(shop) == {"paris": (4, 0)}


def test_ctrl_c_in_the_middle(shop: Path) -> None:
    """The run is complete, and its reports are written; what is left is not confirmed."""
    environ = {"WRONG": ALL_WRONG, "SIGNAL_AT": "8", "SIGNAL": str(int(signal.SIGINT))}
    done = _run(shop, environ, *CHECK, "--save", "r.json", "--resume", "run.jsonl")
    assert done.returncode == 130
    assert repeats(shop) == {"paris": (1, 0)}
    assert "not confirmed: 'paris' (1) could not be asked again as often as it takes" in done.stdout
    assert (
        "scouter: interrupted while scenarios were asked again; what is left is not confirmed. The "
        "same command goes on from run.jsonl"
    ) in done.stderr


def _run(project: Path, environ: dict[str, str], *args: str) -> "subprocess.CompletedProcess[str]":
    """Run the program as a process of its own, in another environment."""
    return subprocess.run(
        [sys.executable, "-m", "scouter.cli.app", *args],
        cwd=project,
        env={"PATH": "", "PYTHONPATH": ROOT, "COLUMNS": "200", "HOME": str(project), **environ},
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )


# --- two versions alternately ---


def test_interleave(shop: Path, scouter: Scouter) -> None:
    check = (*RUN, "--interleave", "again:earlier", "--repeats", "2")
    done = scouter(*check, "--save", "r.json", "--save-baseline", "e.json", WRONG=ALL_WRONG)
    assert messages(shop) == {"berlin": 4, "paris": 4, "earlier": 4}, "two rounds of two attempts"
    by_hand = [by_brute_force([(2, 2)] * 2, [(0, 2), (2, 2)], 0, failures) for failures in (2, 4)]
    assert 2 * by_hand[0] > 0.01 >= 2 * by_hand[1]
    assert "scenario 'paris' is broken: it passed 2 of 2 attempts before and none of 4 now" in (
        done.stdout
    )
    before = ScenarioEvalResults.load(shop / "e.json")
    assert (before.metrics.passed_scenarios, before.repeats) == (2, 2)
    assert (before.provenance.agent, before.confirmations) == ("again:earlier", ())
    now = ScenarioEvalResults.load(shop / "r.json")
    assert (now.metrics.passed_scenarios, now.provenance.agent) == (1, "again:answer")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--baseline", "b.json", "--interleave", "again:earlier"),
            "--interleave runs the version that the new one is compared with",
        ),
        (("--interleave", "again:nobody"), "--interleave 'again:nobody': again has no 'nobody'"),
        (("--confirm", "3"), "--confirm needs --baseline"),
        (("--save-baseline", "e.json"), "--save-baseline needs --interleave"),
        (("--sequential", "--repeats", "2"), "--sequential needs --baseline FILE or --interleave"),
        (("--sequential", "--baseline", "b.json"), "--sequential needs --repeats of 2 or more"),
        (
            (*SEQUENTIAL, "--require-ruled-out", "90"),
            "--require-ruled-out takes all --repeats, so nothing stops early",
        ),
        (
            ("--interleave", "again:earlier", "--save", "x.json", "--save-baseline", "x.json"),
            "--save-baseline x.json: --save writes to this file, too",
        ),
    ],
)
def test_what_means_nothing_together(
    shop: Path, scouter: Scouter, options: tuple[str, ...], message: str
) -> None:
    assert message in one_line(scouter(*RUN, *options))
    assert not (shop / "messages.txt").exists()


def test_a_version_with_a_queue_of_its_own(shop: Path, scouter: Scouter) -> None:
    done = scouter(*RUN, "--interleave", "own_queue:answer")
    assert "--interleave 'own_queue:answer': its module sets up a queue of its own" in one_line(
        done
    )


# --- rounds that stop once they decide ---


def test_rounds(shop: Path, scouter: Scouter) -> None:
    """Nothing fell: one round. Paris is down: all rounds are made, and the suite is asked again."""
    done = scouter(*RUN, *SEQUENTIAL, "--save", "r.json", "--json", "report.json")
    assert (done.returncode, messages(shop)) == (0, {"berlin": 1, "paris": 1})
    text = "decided after 1 of 3 rounds: 2 attempts made, 6 planned"
    assert text in done.stdout
    report = json.loads((shop / "report.json").read_text(encoding="utf-8"))
    assert text in report["notes"]
    found = ScenarioEvalResults.load(shop / "r.json")
    assert (found.planned, found.repeats) == (3, 1)
    done = scouter(*RUN, *SEQUENTIAL, WRONG=ALL_WRONG)
    assert done.returncode == 1
    assert "decided after 3 of 3 rounds:" in done.stdout
    by_hand = [by_brute_force([(1, 1)] * 2, [(0, 3), (3, 3)], 0, times) for times in (3, 6)]
    assert 2 * by_hand[0] > 0.01 >= 2 * by_hand[1]
    assert messages(shop) == {"berlin": 6, "paris": 6}


# --- several runs as a baseline ---


def test_several_baselines(shop: Path, scouter: Scouter) -> None:
    """Paris passed in one of two runs, so that it takes many failures to be called broken."""
    scouter(*RUN, "--save", "c.json", WRONG=ALL_WRONG)
    messages(shop)
    done = scouter(*CHECK, "--baseline", "c.json", "--save", "r.json", WRONG=ALL_WRONG)
    assert done.returncode == 1, done.stderr
    assert "scenario 'paris' is broken: it passed 1 of 2 attempts before" in done.stdout
    [(further, passed)] = repeats(shop).values()
    assert (messages(shop), passed) == ({"berlin": 3, "paris": 3 + further}, 0)
    by_hand = [
        by_brute_force([(2, 2), (1, 2)], [(1, 1), (0, 1)], 1, 3 + times)
        for times in (further - 1, further)
    ]
    assert 2 * by_hand[0] > 0.01 >= 2 * by_hand[1]


def test_baselines_of_other_scenarios(shop: Path, scouter: Scouter) -> None:
    text = (shop / "shop.yaml").read_text(encoding="utf-8")
    (shop / "one.yaml").write_text(text.split("  - id: paris")[0], encoding="utf-8")
    scouter("eval", "one.yaml", *RUN[2:], "--save", "c.json")
    done = scouter(*CHECK, "--baseline", "c.json")
    assert one_line(done).startswith("c.json: scenarios ('paris' is in one of them only) differs")


def test_save_keeps_the_runs_of_one_version(shop: Path, scouter: Scouter) -> None:
    save = ("--save", "v.json", "--quiet")
    first = scouter(*RUN, *save, "--agent-version", "7")
    assert "wrote v.json" in first.stderr
    second = scouter(*RUN, *save, "--agent-version", "7", WRONG=ALL_WRONG)
    assert (
        "v.json: 2 runs of 2 scenarios are stored; a baseline that is picked among runs is too "
        "good by luck"
    ) in second.stderr
    assert ScenarioEvalResults.load(shop / "v.json").repeats == 2
    other = scouter(*RUN, *save, "--agent-version", "8")
    assert "v.json: replaced, as its agent version is '7'; keeping the best of several runs" in (
        other.stderr
    )
    assert ScenarioEvalResults.load(shop / "v.json").runs == 1


def test_the_help_has_examples(project: Path) -> None:
    text = program(project, "eval", "--help").stdout
    for option in (
        "--confirm",
        "--sequential",
        "--interleave",
        "--save-baseline",
        "--agent-version",
    ):
        assert option in text
    assert "scouter eval shop.yaml --agent shop:answer --interleave shop_1:answer" in text
