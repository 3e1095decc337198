"""`scouter eval` and `scouter compare` as programs: exit codes, files, and what they refuse."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.model.record import EvalRecord
from tests.scouter.cli.conftest import Scouter
from tests.support.shop_project import SCENARIOS, program

BAD_HOOK = ("--agent", "shop:BadHook", "--profile", "answers.yaml")
RUN = ("eval", "shop.yaml", "--agent", "shop:answer", "--profile", "answers.yaml")


def one_line(done: "subprocess.CompletedProcess[str]") -> str:
    """The one line of an input error."""
    assert done.returncode == 2, done.stdout + done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("scouter: ")]
    assert len(lines) == 1, done.stderr
    assert done.stdout == ""
    return lines[0].removeprefix("scouter: ")


def test_a_release_check_from_baseline_to_stop(project: Path, scouter: Scouter) -> None:
    saved = scouter(*RUN, "--save", "baseline.json")
    assert saved.returncode == 0, saved.stderr
    assert "Recorded." in saved.stdout
    assert "compare later runs by --baseline baseline.json, or set a gate" in saved.stdout
    same = scouter(*RUN, "--baseline", "baseline.json")
    assert same.returncode == 0, same.stdout + same.stderr
    assert same.stdout.splitlines()[0] == (
        "No regression seen. 2 of 2 scenarios passed, 2 of 2 in the baseline; a fall of more than "
        "77.6 points is ruled out."
    )

    worse = scouter(
        *RUN, "--baseline", "baseline.json", "--save", "worse.json", "--junit", "r.xml",
        "--markdown", "r.md", "--html", "r.html", "--json", "r.json", BAD="paris",
    )  # fmt: skip
    assert worse.returncode == 1, worse.stderr  # repeated, and broken
    assert "scenario 'paris'" in worse.stdout
    assert worse.stdout.count("scenario 'paris' is broken: it passed 1 of 1 attempts before") == 1
    assert "3 of 6 attempts passed, 2 of 2 in the baseline." in worse.stdout
    root = Xml.parse(project / "r.xml").getroot()  # noqa: S314 our own file
    assert int(root.get("failures", "0")) >= 2
    report = json.loads((project / "r.json").read_text(encoding="utf-8"))
    assert report["exit_code"] == worse.returncode
    word = report["decision"].capitalize()
    assert f"{word}. 3 of 6" in worse.stdout
    assert word in (project / "r.md").read_text(encoding="utf-8").splitlines()[0]
    assert f"<title>{word}" in (project / "r.html").read_text(encoding="utf-8")

    compared = scouter("compare", "baseline.json", "worse.json")
    assert compared.returncode == 1  # the file says that it was repeated
    alone = scouter(*RUN, "--save", "alone.json", BAD="paris")
    assert alone.returncode == 0, alone.stderr
    compared = scouter("compare", "baseline.json", "alone.json")
    assert compared.returncode == 3  # 50 points, and one flip of two may be chance
    assert "Inconclusive. 1 of 2 scenarios passed" in compared.stdout
    better = scouter("compare", "worse.json", "baseline.json", "--html", "c.html")
    assert better.returncode == 0, better.stderr
    assert (project / "c.html").exists()


def test_standard_output_holds_the_screen_and_nothing_of_the_agent(
    project: Path, scouter: Scouter
) -> None:
    done = scouter(*RUN)
    assert "asked: And the one in Paris?" in done.stderr
    assert "asked" not in done.stdout
    assert "Aggregate Metrics" not in done.stdout
    assert "save it with --save FILE" in done.stdout
    assert "Aggregate Metrics" in scouter(*RUN, "-v").stdout
    quiet = scouter(*RUN, "--quiet")
    assert quiet.stdout.startswith("Recorded. 2 of 2 scenarios passed; there is neither")
    assert len(quiet.stdout.splitlines()) == 1


@pytest.mark.parametrize(
    ("agent", "records"),
    [
        ("shop:answer_async", 2),
        ("shop:answer_by_queue", 4),
        ("shop:build", 4),
        ("shop:Desk", 2),
        ("shop:Orchestrator", 2),
    ],
)
def test_what_an_agent_can_be(project: Path, scouter: Scouter, agent: str, records: int) -> None:
    done = scouter(
        "eval", "shop.yaml", "--agent", agent, "--profile", "answers.yaml",
        "--save", "r.json", "--concurrency", "2",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = ScenarioEvalResults.load(project / "r.json")
    assert len(results.dataset_results["answers"]) == records
    assert results.metrics.overall_pass_rate == 1.0
    assert all(item.traces for item in results.scenario_results)


@pytest.mark.parametrize("agent", ["counting:Counter", "counting:build_counter"])
@pytest.mark.parametrize("concurrency", ["1", "4"])
def test_each_attempt_counts_its_own_turns(
    project: Path, scouter: Scouter, agent: str, concurrency: str
) -> None:
    """Six conversations of three turns; one instance for all would count to 18."""
    lines = [f"  - {{id: s{at}, initial_query: Berlin?, predefined_turns: [Paris?, Berlin?]}}\n"
             for at in range(6)]  # fmt: skip
    (project / "six.yaml").write_text("scenarios:\n" + "".join(lines), encoding="utf-8")
    done = scouter(
        "eval", "six.yaml", "--agent", agent, "--profile", "answers.yaml", "--save", "r.json",
        "--concurrency", concurrency,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = ScenarioEvalResults.load(project / "r.json")
    last = [conversation.response for conversation in results.conversations]
    assert last == ["From 9 to 18. Turn 3."] * 6
    rows = results.dataset_results["answers"].records
    assert sorted(Counter(row.session_id for row in rows).values()) == [3] * 6


def test_a_module_with_a_queue_of_its_own_needs_no_profile(project: Path, scouter: Scouter) -> None:
    done = scouter("eval", "shop.yaml", "--agent", "own_queue:answer", "--save", "r.json")
    assert done.returncode == 0, done.stderr
    assert len(ScenarioEvalResults.load(project / "r.json").dataset_results["own"]) == 2
    both = scouter("eval", "shop.yaml", "--agent", "own_queue:answer", "--profile", "answers.yaml")
    assert "sets up a queue of its own" in one_line(both)


def test_a_profile_under_another_alias_and_a_ready_made_one(
    project: Path, scouter: Scouter
) -> None:
    text = (project / "answers.yaml").read_text(encoding="utf-8")
    (project / "x.yaml").write_text(text.replace("alias: answers", "alias: x"), encoding="utf-8")
    run = (
        "eval", "shop.yaml", "--agent", "shop:answer", "--profile", "answers=x.yaml",
        "--profile", "agent_health", "--save", "r.json",
    )  # fmt: skip
    done = scouter(*run)
    assert done.returncode == 1, "agent_health evaluated nothing"
    assert "no record came for the profile 'agent_health'" in " ".join(done.stdout.split())
    assert scouter(*run, "--allow-unjudged").returncode == 0
    assert set(ScenarioEvalResults.load(project / "r.json").dataset_results) == {"answers"}


def test_the_judge_can_play_the_user(project: Path, scouter: Scouter) -> None:
    (project / "talk.json").write_text(
        json.dumps(
            [{"id": "t", "initial_query": "Is Paris open?", "simulated_user_persona": "Terse."}]
        ),
        encoding="utf-8",
    )
    nobody = one_line(scouter("eval", "talk.json", *RUN[2:]))
    assert "scenario 't' is interactive, and nobody plays the user" in nobody
    assert "--simulated-user" in nobody
    wrong = one_line(scouter("eval", "talk.json", *RUN[2:], "--simulated-user", "shop:answer"))
    assert "expected a function of (initial_query, agent_response, history)" in wrong
    run = ("eval", "talk.json", *RUN[2:], "--simulated-user", "judge")
    assert "there is no judge; name one with --judge" in one_line(scouter(*run))
    done = scouter(*run, "--judge", "shop:judge")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("judged: simulated_user") == 1
    assert done.stderr.count("asked: ") == 1


def test_gates_of_the_file_and_of_the_command_line(project: Path, scouter: Scouter) -> None:
    assert scouter(*RUN, "--min-pass-rate", "1.0").returncode == 0
    low = scouter(*RUN, "--min-pass-rate", "0.9", BAD="paris")
    assert low.returncode == 1
    assert "Below a gate." in low.stdout
    (project / "gated.yaml").write_text("gates: {min_pass_rate: 0.9}\n" + SCENARIOS)
    file = ("eval", "gated.yaml", *RUN[2:])
    assert scouter(*file, BAD="paris").returncode == 1
    assert scouter(*file, "--min-pass-rate", "0.1", BAD="paris").returncode == 0


def test_what_has_to_be_ruled_out(project: Path, scouter: Scouter) -> None:
    """Two scenarios that pass twice rule out a fall of more than 1 - 0.05 ** (1 / 2) = 77.6."""
    scouter(*RUN, "--save", "baseline.json")
    check = (*RUN, "--baseline", "baseline.json", "--require-ruled-out")
    assert scouter(*check, "78").returncode == 0
    never = scouter(*check, "10")
    assert never.returncode == 2, "refused before the run"
    assert "use 29 scenarios, or ask for 78" in one_line(never)
    twice = ("compare", "baseline.json", "baseline.json", "--require-ruled-out")
    reports = ("--junit", "r.xml", "--markdown", "r.md", "--html", "r.html")
    short = scouter(*twice, "10", *reports)
    assert short.returncode == 3, short.stderr
    reason = (
        "only a fall of more than 77.6 points is ruled out, and --require-ruled-out asks for 10"
    )
    assert "Inconclusive. 2 of 2 scenarios passed" in short.stdout
    assert reason in short.stdout
    for name in ("r.xml", "r.md", "r.html"):
        text = (project / name).read_text(encoding="utf-8").replace("\\", "")
        assert reason in text
    assert [scouter(*twice, points).returncode for points in ("78", "10")] == [0, 3]


@pytest.mark.parametrize("option", ["--gate", "--allow-underpowered"])
def test_options_that_are_gone_are_named(project: Path, scouter: Scouter, option: str) -> None:
    done = scouter(*RUN, option, "statistical")
    assert done.returncode == 2
    assert option in done.stderr


@pytest.mark.parametrize(
    ("agent", "said", "allowed"),
    [
        ("shop:raising", "RuntimeError: no such city (shop.py:63 in raising)", 0),
        ("shop:leaving", "the agent called sys.exit(0) (shop.py:68 in leaving)", 1),
    ],
)
def test_an_agent_that_raises_fails_its_scenario_only(
    project: Path, scouter: Scouter, agent: str, said: str, allowed: int
) -> None:
    """The first one answers one of two questions; of the second one nothing is judged."""
    run = ("eval", "shop.yaml", "--agent", agent, "--profile", "answers.yaml")
    done = scouter(*run, "--save", "r.json")
    assert done.returncode == 1, done.stderr
    assert "Errored." in done.stdout
    assert said in done.stdout
    results = ScenarioEvalResults.load(project / "r.json")
    assert len(results.scenario_results) == 2
    assert scouter(*run, "--allow-errors").returncode == allowed


def test_what_ends_the_whole_run_is_no_verdict(project: Path, scouter: Scouter) -> None:
    """Exit code 1 says that an agent got worse, and nothing else does."""
    (project / "rude.py").write_text("def answer(message):\n    raise BaseException('rude')\n")
    for options in ([], ["--concurrency", "2"]):
        done = scouter("eval", "shop.yaml", "--agent", "rude:answer", *options)
        assert done.returncode == 2
        assert "BaseException: rude" in done.stderr


def test_what_did_not_pass_is_reported_without_a_baseline(project: Path, scouter: Scouter) -> None:
    done = scouter(*RUN, BAD="paris")
    assert done.returncode == 0
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    at = lines.index("What did not pass")
    assert lines[at + 1].startswith("paris ")
    assert lines[at + 2 : at + 5] == [
        "check right_hours; also answers · names_hours",
        'expected Contains "10 to 19"',
        'got "Soon."',
    ]  # fmt: skip
    assert "did not pass" not in scouter(*RUN).stdout
    assert "did not pass" not in scouter(*RUN, "--quiet", BAD="paris").stdout


def test_flaky_checks_are_shown_with_their_rates(project: Path, scouter: Scouter) -> None:
    """One of three attempts is wrong: 2/3 pass, and of the three pairs only one passes twice."""
    (project / "shaky.py").write_text(
        "messages = []\n\ndef answer(message):\n    messages.append(message)\n"
        "    return 'Soon.' if len(messages) == 2 else 'From 9 to 18 and from 10 to 19.'\n"
    )
    done = scouter("eval", "shop.yaml", "--agent", "shaky:answer", "--repeats", "3", "-v")
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "Scenario Task Passed Whose flip pass@1 pass@2 pass@3 pass^2 pass^3" in lines
    assert "paris right_hours 2 of 3 the agent's 66.7% 100% 100% 33.3% 0%" in lines
    assert not [line for line in lines if line.startswith("berlin right_hours")]
    assert "Flaky" not in scouter(*RUN, "--repeats", "2").stdout


def test_a_run_that_judged_nothing_is_stopped(project: Path, scouter: Scouter) -> None:
    """A forgotten profile or a misspelt `tasks` must not look like a success."""
    (project / "s.json").write_text('[{"id": "s", "initial_query": "Is Paris open?"}]')
    (project / "silent.py").write_text("def answer(message):\n    return 'x'\n")
    done = scouter("eval", "s.json", "--agent", "silent:answer", "--save", "b.json")
    assert done.returncode == 1
    assert "Nothing was judged." in done.stdout
    assert "give the scenarios tasks, or the agent's records a profile" in done.stdout
    assert "%" not in done.stdout


def test_repeats_show_what_is_flaky(project: Path, scouter: Scouter) -> None:
    done = scouter(*RUN, "--repeats", "3", "--concurrency", "2", "--save", "r.json")
    assert done.returncode == 0, done.stderr
    assert ScenarioEvalResults.load(project / "r.json").repeats == 3


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--agent", "shop"], "expected module:name, such as my_agent:answer"),
        (["--agent", "shopp:answer"], "no module 'shopp' in "),
        (["--agent", "shopp:answer"], "among the installed packages; did you mean 'shop'?"),
        (["--agent", "shop:anwser"], "; did you mean 'answer'?"),
        (["--agent", "shop:answer", "--profile", "anwsers.yaml"], "did you mean 'answers.yaml'"),
        (["--agent", "shop:answer", "--profile", "agent_heath"], "did you mean 'agent_health'?"),
        (["--agent", "shop.sub:answer"], "no module 'shop.sub' in "),
        (["--agent", "shop:anwser"], "shop has no 'anwser'; it has BadHook, Desk, "),
        (["--agent", "shop:settings"], "is a dict, which cannot be called"),
        (["--agent", "shop:two"], "takes message, other; expected one parameter, the message"),
        (["--agent", "shop:nothing"], "takes nothing; expected one parameter"),
        (
            ["--agent", "counting:NeedsModel"],
            "needs model to be made; expected nothing, or parameters",
        ),
        (["--agent", "shop:EvalRecord"], "is a class whose instances cannot be called; give it a"),
        (["--agent", "shop:answer"], "no profile has the alias 'answers'; registered: none; give"),
        ([*BAD_HOOK], "ended the run: RuntimeError: the hook is broken"),
        (["--agent", "broken:answer"], "broken.py, line 2)"),
        (["--agent", "needs:answer"], "importing needs failed: ModuleNotFoundError: No module na"),
        (["--agent", "leaves:answer"], "importing leaves failed: SystemExit: 3"),
        (["--agent", "shop:answer", "--profile", "nobody"], "no profile file or ready-made"),
        (["--agent", "shop:answer", "--profile", "bad.yaml"], "bad.yaml, line 2, field 'tasks'"),
        (
            ["--agent", "shop:answer", "--profile", "answers.yaml", "--profile", "answers.yaml"],
            "the alias 'answers' is already used",
        ),
        (["--agent", "shop:answer", "--baseline", "no.json"], "no.json: cannot read the file"),
        (["--agent", "shop:answer", "--baseline", "later.json"], "schema version 99"),
        (["--agent", "shop:answer", "--baseline", "shop.py"], "shop.py, line 2"),
        (["--agent", "shop:answer", "--html", "no/r.html"], "there is no folder no; make it"),
        (["--agent", "shop:answer", "--html", "."], "this is a folder; expected a file"),
        (
            ["--agent", "shop:answer", "--html", "r", "--json", "./r"],
            "--json r: --html writes to this file, too",
        ),
        (["--agent", "shop:answer", "--save", "no/r.json"], "--save no/r.json: there is no fold"),
        (["--agent", "shop:answer", "--resume", "no/r"], "--resume no/r: there is no folder"),
        (["--agent", "shop:answer", "--resume", "shop.py"], "is no journal of a run"),
        (["--agent", "shop:answer", "--simulated-user", "shop:settings"], "expected a function"),
        (["--agent", "shop:answer", "--judge", "shop:nobody"], "shop has no 'nobody'"),
        (["--agent", "shop:answer", "--timeout", "-1"], "timeout_s is -1.0"),
        (
            ["--agent", "shop:answer", "--require-ruled-out", "10"],
            "--require-ruled-out needs --baseline FILE",
        ),
    ],
)
def test_rubbish_is_one_line_and_code_2(
    project: Path, scouter: Scouter, args: list[str], message: str
) -> None:
    """And the agent is never called where that can be known before."""
    (project / "broken.py").write_text("x = 1\ny = 1 / 0\n", encoding="utf-8")
    (project / "needs.py").write_text("import no_such_package\n", encoding="utf-8")
    (project / "leaves.py").write_text("raise SystemExit(3)\n", encoding="utf-8")
    (project / "bad.yaml").write_text("alias: bad\ntasks: 3\n", encoding="utf-8")
    (project / "later.json").write_text('{"schema_version": 99}', encoding="utf-8")
    done = scouter("eval", "shop.yaml", *args)
    assert message in one_line(done)
    if args not in ([*BAD_HOOK], ["--agent", "shop:answer"]):
        assert "asked" not in done.stderr


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("s.yaml", "scenarios:\n  - id: a\n", "s.yaml, line 2, field 'scenarios[0].initial_query'"),
        ("s.yaml", "gates: {min_pass_rate: 2}\n" + SCENARIOS, "s.yaml, line 1, field 'gates.min_"),
        ("s.jsonl", '{"initial_query": "x"}\n{"initial', "s.jsonl, line 2"),
        ("s.txt", "x", "Unsupported extension '.txt'"),
        ("s.json", "[]", "there are no scenarios"),
    ],
)
def test_a_broken_scenario_file_names_line_and_field(
    project: Path, scouter: Scouter, name: str, text: str, message: str
) -> None:
    (project / name).write_text(text, encoding="utf-8")
    done = scouter("eval", name, "--agent", "shop:answer")
    assert message in one_line(done)


def test_wrong_options_are_usage_errors(project: Path, scouter: Scouter) -> None:
    for args in (["--repeats", "0"], ["--min-pass-rate", "2"], ["--gate", "vibes"], ["--nope"]):
        done = scouter(*RUN, *args)
        assert done.returncode == 2
        assert args[0] in done.stderr
    assert scouter("eval", "shop.yaml").returncode == 2


@pytest.mark.parametrize(
    ("gates", "words"),
    [
        ("tasks: {nobody: 0.9}", "no task 'nobody'; the run has 'names_hours', 'right_hours'"),
        ("aliases: {nobody: 0.9}", "no alias 'nobody'; the run has 'answers'"),
        ("aliases: {answers: {tasks: {x: 1}}}", "answers: no task 'x'; the alias has 'names_hours"),
    ],
)
def test_a_gate_on_what_is_not_there_is_refused_before_the_run(
    project: Path, scouter: Scouter, gates: str, words: str
) -> None:
    (project / "gated.yaml").write_text(f"gates: {{{gates}}}\n" + SCENARIOS)
    done = scouter("eval", "gated.yaml", *RUN[2:])
    assert done.returncode == 2
    assert words in done.stderr
    assert "asked:" not in done.stderr


def test_a_journal_belongs_to_one_agent(project: Path, scouter: Scouter) -> None:
    """Two names of one module are two agents, though one may call the other."""
    first = scouter(*RUN, "--resume", "j.jsonl")
    assert "0 of 2 attempts taken from j.jsonl; 2 to make now" in first.stderr
    again = scouter(*RUN, "--resume", "j.jsonl")
    assert "2 of 2 attempts taken from j.jsonl; 0 to make now" in again.stderr
    assert "asked:" not in again.stderr
    other = scouter(
        "eval", "shop.yaml", "--agent", "shop:answer_async", *RUN[4:], "--resume", "j.jsonl"
    )
    assert one_line(other) == (
        "j.jsonl: this journal holds answers of the agent 'shop:answer', and this run asks "
        "'shop:answer_async'; give each agent a file of its own"
    )


SLOW = """
import pathlib
import threading

messages = pathlib.Path("messages.txt")
lock = threading.Lock()


def answer(message):
    with lock:
        count = len(messages.read_text().splitlines()) if messages.exists() else 0
        with messages.open("a") as file:
            file.write(message + "\\n")
    if count == 1:
        pathlib.Path("waiting").touch()
        threading.Event().wait(60)
    return "From 9 to 18 and from 10 to 19."
"""


def _take_ctrl_c() -> None:
    """Undo what a shell does to jobs in the background, which ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("concurrency", ["1", "2"])
def test_ctrl_c_keeps_what_is_done(project: Path, concurrency: str) -> None:
    """It ends with 130; the same command asks only for what is left."""
    (project / "slow.py").write_text(SLOW, encoding="utf-8")
    flags = ["--agent", "slow:answer", "--resume", "j.jsonl", "--concurrency", concurrency]
    command = [sys.executable, "-m", "scouter.cli.app", "eval", "shop.yaml", *flags]
    with subprocess.Popen(
        command, cwd=project, env=dict(os.environ), stderr=subprocess.PIPE, stdout=subprocess.PIPE,
        preexec_fn=_take_ctrl_c,
    ) as process:  # fmt: skip
        deadline = time.monotonic() + 60
        while not (project / "waiting").exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            os.sched_yield()
        if concurrency == "2":  # the first one ends beside the one that waits
            while len((project / "j.jsonl").read_bytes().splitlines()) < 2:
                assert time.monotonic() < deadline
                os.sched_yield()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err.decode()
    assert out == b""
    assert "interrupted; the same command goes on from j.jsonl" in err.decode()
    assert "Traceback" not in err.decode()

    done = program(project, "eval", "shop.yaml", *flags)
    assert done.returncode == 0, done.stderr
    messages = (project / "messages.txt").read_text().splitlines()
    assert len(messages) == 3
    assert len(set(messages)) == 2


def test_a_broken_pipe_or_full_disk_is_an_error_not_a_verdict(
    project: Path, scouter: Scouter
) -> None:
    """`/dev/full` can be opened, and every write to it fails."""
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    done = scouter(*RUN, "--html", "/dev/full", "--json", "r.json")
    assert done.returncode == 2
    assert "cannot write --html /dev/full: No space left on device" in done.stderr
    assert (project / "r.json").exists()


def test_help_explains_the_agent_and_shows_examples(project: Path, scouter: Scouter) -> None:
    done = scouter("eval", "--help")
    assert done.returncode == 0
    for text in ("span.add_queue_item(", "scouter eval shop.yaml --agent", "exit code is 0"):
        assert text in done.stdout
    assert "scouter compare baseline.json" in scouter("compare", "--help").stdout
    assert "see below" not in done.stdout


@pytest.mark.parametrize("command", ["compare", "eval"])
def test_examples_stay_on_lines_of_their_own(project: Path, scouter: Scouter, command: str) -> None:
    """On a terminal of 80 columns, so that they can be copied."""
    done = scouter(command, "--help", COLUMNS="80")
    lines = done.stdout.splitlines()
    first = next(at for at, line in enumerate(lines) if line.startswith(f"  scouter {command} "))
    block = lines[first : lines.index(" " * 80, first)]
    assert len(block) >= 3
    assert all(line.startswith(f"  scouter {command} ") for line in block)


def test_a_report_is_no_baseline(project: Path, scouter: Scouter) -> None:
    scouter(*RUN, "--json", "r.json")
    for done in (scouter(*RUN, "--baseline", "r.json"), scouter("compare", "r.json", "r.json")):
        assert one_line(done) == (
            "r.json: this is a report (--json) and not the results of a replay; expected "
            "the file that scouter eval --save or ScenarioEvalResults.save() wrote"
        )
        assert "asked:" not in done.stderr
    (project / "bare.json").write_text(EvalResults([]).model_dump_json(), encoding="utf-8")
    bare = scouter(*RUN, "--baseline", "bare.json")
    assert "this holds results of records and not the results of a replay" in one_line(bare)


def test_compare_refuses_what_is_no_result(project: Path, scouter: Scouter) -> None:
    assert "answers.yaml, line 1" in one_line(scouter("compare", "answers.yaml", "answers.yaml"))


def test_compare_reads_results_without_a_replay(project: Path, scouter: Scouter) -> None:
    """Two files of `EvalResults`; with one of a replay they are an input error."""
    task = AssertionTask(id="right", context_path="x", operator="Equals", expected_value=1)

    def save(name: str, values: list[int]) -> None:
        records = [EvalRecord({"x": value}, id=f"r{at}") for at, value in enumerate(values)]
        results = EvalDataset(records, [task]).evaluate()
        (project / name).write_text(results.model_dump_json(), encoding="utf-8")

    save("a.json", [1, 1, 1])
    save("b.json", [1, 2, 1])
    scouter(*RUN, "--save", "replay.json")
    assert scouter("compare", "a.json", "a.json").returncode == 0
    reports = ("--html", "r.html", "--junit", "r.xml", "--markdown", "r.md", "--json", "r.json")
    worse = scouter("compare", "a.json", "b.json", "-v", *reports)
    assert worse.returncode == 3, worse.stderr
    assert "2 of 3 records passed, 3 of 3 in the baseline" in worse.stdout
    assert "records: task 'right' passed before and does not now in 1 record: r1" in worse.stdout
    assert "100% 3/3" in worse.stdout
    assert "67% 2/3" in worse.stdout
    cases = Xml.parse(project / "r.xml").getroot().iter("testcase")  # noqa: S314 our own file
    failed = [case.get("name") for case in cases if case.find("failure") is not None]
    assert failed == ["(no scenario): r1: right"]
    assert one_line(scouter("compare", "a.json", "replay.json")) == (
        "a.json holds results of records and replay.json those of a replay; compare two files of "
        "one kind"
    )
    (project / "b.json").write_text('{"schema_version": 1,\n"results": [{}]}')
    error = one_line(scouter("compare", "a.json", "b.json"))
    assert error.startswith("b.json, field 'results[0].record_uid': the field is missing")


def test_scenarios_validate_looks_at_every_file(project: Path, scouter: Scouter) -> None:
    (project / "bad.yaml").write_text("scenarios: 3\n", encoding="utf-8")
    done = scouter("scenarios", "validate", "bad.yaml", "shop.yaml")
    assert done.returncode == 2
    assert "bad.yaml, line 1" in done.stderr
    assert done.stdout == "shop.yaml: 2 scenarios, 2 with tasks (2 in all)\n"
    assert scouter("scenarios", "validate", "shop.yaml").returncode == 0
    done = scouter("scenarios", "validate", "--json", "bad.yaml", "shop.yaml")
    assert done.returncode == 2
    bad, good = map(json.loads, done.stdout.splitlines())
    assert (bad["file"], "line 1" in bad["error"]) == ("bad.yaml", True)
    assert good == {
        "file": "shop.yaml", "error": None, "warning": None, "scenarios": 2, "with_tasks": 2,
        "tasks": 2, "multi_turn": 0, "interactive": 0, "required": 0, "unreviewed": 0,
        "tags": [],
        "has_gates": False,
    }  # fmt: skip


def test_an_expected_outcome_that_nothing_compares_is_reported(
    project: Path, scouter: Scouter
) -> None:
    """A warning decides nothing; the example of the docs compares its own."""
    (project / "idle.yaml").write_text(
        "- id: one\n  initial_query: q\n  expected_outcome: Paris\n  tasks:\n"
        "  - {task_type: Assertion, id: said, context_path: response, operator: IsString}\n",
        encoding="utf-8",
    )
    warning = "no task compares the expected_outcome of 'one'"
    done = scouter("scenarios", "validate", "idle.yaml")
    assert (done.returncode, done.stdout) == (
        0,
        "idle.yaml: 1 scenarios, 1 with tasks (1 in all)\n",
    )
    assert f"scouter: warning: idle.yaml: {warning}" in done.stderr
    done = scouter("eval", "idle.yaml", "--agent", "shop:answer")
    assert f"scouter: warning: {warning}" in done.stderr
    assert "expected_outcome" not in scouter("scenarios", "validate", "shop.yaml").stderr


def test_profile_check_finds_what_can_never_work(project: Path, scouter: Scouter) -> None:
    """Each task is named, with the file and the reason; the exit code is that of a wrong file."""
    wanted = {
        "late": ("GreaterThan", '"2024-01-01"', "expects a number"),
        "range": ("InRange", "[10, 1]", "in this order"),
        "near": ("WithinRelativeTolerance", "[100, 10]", "1000 %"),
    }
    tasks = "".join(
        f"  - {{task_type: Assertion, id: {name}, context_path: v, operator: {operator}, "
        f"expected_value: {expected}}}\n"
        for name, (operator, expected, _) in wanted.items()
    )
    (project / "odd.yaml").write_text(f"alias: odd\ntasks:\n{tasks}", encoding="utf-8")
    done = scouter("profile", "check", "odd.yaml")
    assert done.returncode == 2
    assert done.stdout.startswith("odd.yaml: alias 'odd'")
    lines = done.stderr.splitlines()
    for (name, (operator, _, said)), line in zip(wanted.items(), lines, strict=True):
        assert line.startswith(f"scouter: odd.yaml: task {name!r}: expected_value: {operator}")
        assert said in line
    done = scouter("profile", "check", "--json", "odd.yaml", "nobody")
    odd, nobody = map(json.loads, done.stdout.splitlines())
    assert (odd["alias"], odd["tasks"], odd["error"]) == ("odd", {"Assertion": 3}, None)
    assert [each["task_id"] for each in odd["doubts"]] == list(wanted)
    assert "nobody" in nobody["error"]


def test_profile_check_looks_at_every_file(project: Path, scouter: Scouter) -> None:
    done = scouter("profile", "check", "nobody", "answers.yaml", "agent_health")
    assert done.returncode == 2
    assert "'nobody'" in done.stderr
    first, second = done.stdout.splitlines()
    assert first.startswith("answers.yaml: alias 'answers', digest ")
    assert first.endswith("1 tasks (1 Assertion)")
    assert second.startswith("agent_health: alias ")


def test_a_baseline_keeps_no_run_that_regressed(project: Path, scouter: Scouter) -> None:
    """Or the version would be compared with itself the next time."""
    onto = ("--baseline", "b.json", "--save", "b.json")
    scouter(*RUN, "--save", "b.json", "--agent-version", "1")
    for releases in (1, 2):
        worse = scouter(*RUN, *onto, "--agent-version", "2", BAD="paris")
        assert worse.returncode == 1, worse.stdout
        assert "b.json: the run did not pass and is not added" in worse.stderr
        results = ScenarioEvalResults.load(project / "b.json")
        assert (results.runs, results.repeats, results.releases) == (1, 1, releases)
    good = scouter(*RUN, *onto, "--agent-version", "1")
    assert good.returncode == 0, good.stdout
    assert "2 runs are stored; 2 releases compared with this baseline" in good.stderr
