"""The pytest plugin, by pytest's own `pytester`."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest

from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.mock.llm_server import LLMTestServer
from scouter.tracing.instrumentor import ScouterInstrumentor
from scouter.tracing.tracer import shutdown_tracer
from tests.support.shop_project import SCENARIOS, write_project

pytest_plugins = ["pytester"]

HEAVY = (
    "scouter.evaluate.compare.runs",
    "scouter.evaluate.compare.gates",
    "scouter.replay.named_run",
    "scouter.replay.reports.plain",
    "yaml",
)
for name in HEAVY:
    import_module(name)  # each inner run would import them anew, and forget them at its end

ROOT = Path(__file__).parents[2]
NAMED = ("--scouter-scenarios=shop.yaml", "--scouter-agent=shop:answer")
PROFILE = "--scouter-profile=answers.yaml"


Run = Callable[..., pytest.RunResult]


@pytest.fixture
def project(pytester: pytest.Pytester) -> Iterator[Path]:
    """The small project in the folder of `pytester`."""
    yield write_project(pytester.path)
    inside = f"{pytester.path}{os.sep}"
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(inside):
            del sys.modules[name]
    if ScouterInstrumentor().is_instrumented:
        ScouterInstrumentor().uninstrument()
    shutdown_tracer()


@pytest.fixture
def run(pytester: pytest.Pytester, project: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs pytest with this plugin and no other."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return partial(pytester.runpytest, "-p", "scouter.pytest_plugin")


def test_scenarios_are_items(run: Run, project: Path) -> None:
    result = run(*NAMED, PROFILE, "-v")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["shop.yaml::berlin PASSED*", "shop.yaml::paris PASSED*"])


def test_each_attempt_has_an_agent_of_its_own(run: Run, project: Path) -> None:
    """By name, and as the class itself that a test hands to the fixture."""
    (project / "test_it.py").write_text(
        """
from counting import Counter

def test_counts(scouter_eval):
    results = scouter_eval("shop.yaml", Counter, repeats=3, concurrency=4)
    assert {item.response[-7:] for item in results.scenario_results} == {"Turn 1."}
    assert len(results.scenario_results) == 6
""",
        encoding="utf-8",
    )
    settings = (
        "--scouter-agent=counting:Counter",
        "--scouter-repeats=3",
        "--scouter-concurrency=4",
    )
    result = run("--scouter-scenarios=shop.yaml", *settings, PROFILE, "test_it.py")
    result.assert_outcomes(passed=3)


def test_a_failure_shows_conversation_expected_actual_and_trace(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAD", "paris")
    result = run(*NAMED, PROFILE)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*shop.yaml: paris*",
            "scenario 'paris' did not pass",
            "  user: And the one in Paris[?]",
            "  agent: Soon.",
            "  check right_hours: failed",
            '    expected: "10 to 19"',
            '    actual: "Soon."',
            "  check answers, record paris: names_hours: failed",
            "  trace: 1 span, *",
            "    answer  |████████████████████|*",
        ]
    )
    assert "Traceback" not in result.stdout.str()
    assert "pytest_plugin.py" not in result.stdout.str()


def test_an_agent_that_raises_fails_its_item(run: Run, project: Path) -> None:
    result = run(NAMED[0], "--scouter-agent=shop:raising", PROFILE)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["  error: RuntimeError: no such city (shop.py:* in raising)"])


def test_the_configuration_file_can_say_it_all(run: Run, project: Path) -> None:
    """Files are relative to it; the scenario file is found among the tests."""
    (project / "evals").mkdir()
    (project / "shop.yaml").rename(project / "evals" / "shop.yaml")
    (project / "pytest.ini").write_text(
        "[pytest]\nscouter_scenarios = evals/shop.yaml\nscouter_agent = shop:answer\n"
        "scouter_profiles = answers.yaml\nscouter_repeats = 2\n"
    )
    run().assert_outcomes(passed=2)
    run("evals").assert_outcomes(passed=2)
    run("evals/shop.yaml::paris").assert_outcomes(passed=1)
    (project / "test_other.py").write_text("def test_it():\n    pass\n")
    run("test_other.py").assert_outcomes(passed=1)


def test_only_what_is_selected_is_run(run: Run, project: Path) -> None:
    result = run(*NAMED, PROFILE, "-k", "paris", "-s")
    result.assert_outcomes(passed=1, deselected=1)
    printed = result.stdout.str() + result.stderr.str()
    assert "asked: And the one in Paris?" in printed
    assert "Berlin" not in printed


def test_a_file_named_beside_others_is_run_once(run: Run, project: Path) -> None:
    (project / "sub").mkdir()
    (project / "sub" / "test_it.py").write_text("def test_it():\n    pass\n")
    run(*NAMED, PROFILE, "sub").assert_outcomes(passed=3)
    run(*NAMED, PROFILE, ".").assert_outcomes(passed=3)


def test_repeats_are_one_item_that_says_how_many_failed(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAD", "paris")
    result = run(*NAMED, PROFILE, "--scouter-repeats=3")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["scenario 'paris': 3 of 3 attempts did not pass"])


def test_gates_and_baseline_are_items(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "shop.yaml").write_text("gates: {min_pass_rate: 0.9}\n" + SCENARIOS)
    (project / "test_save.py").write_text(
        "def test_save(scouter_eval):\n    scouter_eval('shop.yaml').save('baseline.json')\n"
    )
    run(NAMED[1], PROFILE, "test_save.py").assert_outcomes(passed=1)
    assert len(ScenarioEvalResults.load(project / "baseline.json").scenarios) == 2
    options = (*NAMED, PROFILE, "--scouter-baseline=baseline.json", "shop.yaml")
    run(*options).assert_outcomes(passed=4)
    run(*options, "-k", "paris or gates or baseline").assert_outcomes(
        passed=1, skipped=2, deselected=1
    )
    monkeypatch.setenv("BAD", "paris")
    result = run(*options)
    result.assert_outcomes(passed=1, failed=3)
    result.stdout.fnmatch_lines(
        [
            "*pass rate of all checks: 50.0%*",
            "regressed: 3 of 6 attempts passed, 2 of 2 *",
            "*'paris' is broken*",
        ]
    )


def test_a_changed_question_fails_the_baseline_until_it_is_accepted(
    run: Run, project: Path
) -> None:
    """The item says what changed and what to do; the option is repeatable."""
    (project / "test_save.py").write_text(
        "def test_save(scouter_eval):\n    scouter_eval('shop.yaml').save('baseline.json')\n"
    )
    run(NAMED[1], PROFILE, "test_save.py").assert_outcomes(passed=1)
    changed = SCENARIOS.replace("And the one in Paris?", "Is the one in Paris open?")
    (project / "shop.yaml").write_text(changed)
    options = (*NAMED, PROFILE, "--scouter-baseline=baseline.json", "shop.yaml")
    result = run(*options)
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        [
            "inconclusive: 1 of 1 *",
            "scenario 'paris' changed (initial_query: *",
            "cannot clear scenario 'paris', *--accept-changed paris*",
        ]
    )
    accepted = run(*options, "--scouter-accept-changed=paris")
    accepted.assert_outcomes(passed=3)
    wrong = run(*options, "--scouter-accept-changed=paris", "--scouter-accept-changed=rome")
    wrong.assert_outcomes(errors=0, failed=3)
    wrong.stdout.fnmatch_lines(["*--accept-changed rome: nothing of this id changed since*"])
    accepted.stdout.fnmatch_lines(["shop.yaml: changed: scenario 'paris' changed *"])


def test_gates_can_decide_over_failed_checks(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the checks fail; an agent that raises still fails its item."""
    options = (*NAMED, PROFILE, "--scouter-fail-on=errors", "-v")
    monkeypatch.setenv("BAD", "paris")
    run(*options, "--scouter-min-pass-rate=0.5").assert_outcomes(passed=3)
    low = run(*options, "--scouter-min-pass-rate=0.6")
    low.assert_outcomes(passed=2, failed=1)
    low.stdout.fnmatch_lines(["shop.yaml::(gates) FAILED*", "*all checks: 50.0%*at least 60.0%"])
    monkeypatch.delenv("BAD")
    run(*options, "--scouter-agent=shop:raising").assert_outcomes(passed=1, failed=1)


def test_the_fixture_runs_a_function_and_fails_with_the_text(
    run: Run, project: Path, pytester: pytest.Pytester
) -> None:
    pytester.makepyfile(
        """
        import pytest
        from scouter.evaluate import EvalScenario, EvalScenarios, AssertionTask

        TASK = AssertionTask("short", "response", 3, "HasLengthLessThan")
        SCENARIOS = EvalScenarios([EvalScenario("hello", [TASK], id="h")])

        @pytest.fixture(scope="module")
        def results(scouter_eval):
            return scouter_eval(SCENARIOS, lambda message: message[:2], repeats=2)

        def test_good(scouter_eval, results):
            assert results.repeats == 2
            scouter_eval.check(results)
            scouter_eval.check(results, baseline=results)

        def test_bad(scouter_eval, results):
            worse = scouter_eval(SCENARIOS, lambda message: message)
            scouter_eval.check(worse, baseline=results)

        def test_wrong(scouter_eval):
            scouter_eval(SCENARIOS)
        """
    )
    result = run()
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        ["*scenario 'h' did not pass", "  agent: hello", "*ConfigError: no agent: pass --scouter*"]
    )


@pytest.mark.parametrize(
    ("args", "outcomes", "said"),
    [
        ((NAMED[0],), {"failed": 2}, "no agent: pass --scouter-agent"),
        ((NAMED[0], "--scouter-agent=shopp:f"), {"failed": 2}, "no module 'shopp'"),
        ((*NAMED, "--scouter-profile=nobody"), {"failed": 2}, "ready-made profile 'nobody'"),
        ((*NAMED, PROFILE, "--scouter-repeats=x"), {"failed": 2}, "scouter_repeats is 'x'"),
        ((*NAMED, "--scouter-fail-on=x"), {"failed": 2}, "expected 'checks' or 'errors'"),
        ((*NAMED, "--scouter-min-pass-rate=2"), {"failed": 3}, "scouter_min_pass_rate is 2.0"),
        ((*NAMED, PROFILE, "--scouter-baseline=no.json"), {"failed": 3}, "no.json: cannot read"),
        (("--scouter-scenarios=answers.yaml",), {"errors": 1}, "no 'scenarios' among"),
    ],
)
def test_what_is_wrong_is_said_by_every_item(
    run: Run, project: Path, args: tuple[str, ...], outcomes: dict[str, int],
    said: str,
) -> None:  # fmt: skip
    result = run(*args)
    result.assert_outcomes(**outcomes)
    assert said in result.stdout.str()
    assert "Traceback" not in result.stdout.str()


def test_it_loads_nothing_until_it_is_used() -> None:
    """Start-up of every pytest run pays for it, whether it is used or not."""
    code = (
        "import sys, pytest\nbefore = set(sys.modules)\nimport scouter.pytest_plugin\n"
        "print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['scouter', 'scouter.pytest_plugin']"


def test_it_changes_nothing_where_it_is_not_used(run: Run, project: Path) -> None:
    (project / "test_it.py").write_text("def test_it():\n    pass\n")
    result = run("-v")
    result.assert_outcomes(passed=1)
    assert "scenario" not in result.stdout.str()


JUDGED = """\
alias: answers
tasks:
  - task_type: LLMJudge
    id: polite
    prompt:
      model: gpt-4o
      provider: openai
      messages: "Is this polite? ${answer}"
      output_type: {type: object, properties: {polite: {type: boolean}}, required: [polite]}
    context_path: polite
    operator: Equals
    expected_value: true
"""
PRICES = "providers: {openai: {prices: {gpt-4o: {input_per_million: 1, output_per_million: 10}}}}"


def test_judges_are_cached_and_within_a_budget(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that was skipped for want of money has not passed; and no call is made twice."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(project / "config"))
    (project / "answers.yaml").write_text(JUDGED)
    (project / "p.yaml").write_text(PRICES)
    judged = (*NAMED, PROFILE, "--scouter-providers=p.yaml", "--scouter-judge-cache=c.db")
    with LLMTestServer({"polite": True}) as server:
        poor = run(*judged, "--scouter-judge-budget=0.01", "-rs")
        allowed = run(*judged, "--scouter-judge-budget=0.01", "--scouter-allow-unjudged=yes")
        assert server.calls == 0
        rich = run(*judged, "--scouter-judge-budget=10")
        assert server.calls == 2
        again = run(*judged)
        assert server.calls == 2
    poor.assert_outcomes(failed=2)
    allowed.assert_outcomes(skipped=2)
    poor.stdout.fnmatch_lines(
        [
            "*not judged by all checks: 1 skipped, as the budget left too little",
            "shop.yaml: judges: 0 calls, 0 cached; 2 tasks skipped, as the budget left too little",
        ]
    )
    rich.assert_outcomes(passed=2)
    again.assert_outcomes(passed=2)
    again.stdout.fnmatch_lines(["shop.yaml: judges: 0 calls, 2 cached, *$0.0000"])


def test_a_test_is_warned_of_what_was_not_judged(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(project / "config"))
    (project / "answers.yaml").write_text(JUDGED)
    (project / "p.yaml").write_text(PRICES)
    (project / "test_shop.py").write_text(
        "def test_shop(scouter_eval):\n"
        "    results = scouter_eval('shop.yaml', judge_budget_usd=0.01)\n"
        "    scouter_eval.check(results, allow_unjudged=True)\n"
        "    scouter_eval.check(results)\n"
    )
    with LLMTestServer({"polite": True}):
        done = run(NAMED[1], PROFILE, "--scouter-providers=p.yaml", "-Wdefault", "test_shop.py")
    done.assert_outcomes(failed=1, warnings=1)
    done.stdout.fnmatch_lines(["*2 tasks skipped, as the budget left too little"])
    done.stdout.fnmatch_lines(["*--allow-unjudged*"])


ASKED = """
from pathlib import Path

import shop

MESSAGES = Path("messages.txt")


def answer(message):
    with MESSAGES.open("a") as file:
        file.write(message + "\\n")
    wrong = Path("wrong.txt").exists() and "Paris" in message
    return "Soon." if wrong else shop.answer(message)
"""


@pytest.mark.parametrize(
    ("options", "asks"), [([], 7), (["--scouter-confirm=2"], 3), (["-k", "paris"], 1)]
)
def test_what_passed_before_runs_again(
    run: Run, project: Path, options: list[str], asks: int
) -> None:
    """Three rounds of both scenarios, then one alone; nothing where no baseline is compared."""
    (project / "again.py").write_text(ASKED, encoding="utf-8")
    (project / "test_save.py").write_text(
        """
def test_save(scouter_eval):
    scouter_eval("shop.yaml", "again:answer", ["answers.yaml"]).save("base.json")

def test_again(scouter_eval):
    open("wrong.txt", "w").close()
    options = {"baseline": "base.json", "confirm": 1}
    results = scouter_eval("shop.yaml", "again:answer", ["answers.yaml"], **options)
    assert results.rounds == 2
""",
        encoding="utf-8",
    )
    run("test_save.py").assert_outcomes(passed=2)
    (project / "messages.txt").unlink()
    result = run(
        NAMED[0], "--scouter-agent=again:answer", PROFILE, "--scouter-baseline=base.json",
        "--ignore=test_save.py", *options,
    )  # fmt: skip
    messages = (project / "messages.txt").read_text(encoding="utf-8").splitlines()
    assert messages.count("And the one in Paris?") == asks
    if asks > 1:
        result.stdout.fnmatch_lines(["shop.yaml: asked again: the whole suite twice, 4 more att*"])
    if asks > 3:
        result.stdout.fnmatch_lines(
            ["shop.yaml: 'paris': asked again 4 times and never passed: broken*"]
        )


@pytest.mark.parametrize("what", ["scenario", "task", "own task"])
def test_something_required_fails_although_failed_checks_are_left_to_gates(
    what: str, run: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the scenario in which it did not pass."""
    scenarios, profile = SCENARIOS, (project / "answers.yaml").read_text(encoding="utf-8")
    if what == "task":
        profile = profile.replace('" to "', '" to ", required: true')
    elif what == "own task":
        scenarios = scenarios.replace("operator: Contains,", "operator: Contains, required: true,")
    else:
        scenarios = scenarios.replace("    initial_query", "    required: true\n    initial_query")
    (project / "shop.yaml").write_text(scenarios, encoding="utf-8")
    (project / "answers.yaml").write_text(profile, encoding="utf-8")
    monkeypatch.setenv("BAD", "paris")
    result = run(*NAMED, PROFILE, "--scouter-fail-on=errors")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines([f"required {what.split()[-1]} '*failed: *"])


def test_the_share_of_scenarios_is_a_gate(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAD", "paris")
    args = (*NAMED, PROFILE, "--scouter-fail-on=errors")
    run(*args, "--scouter-min-scenario-pass-rate=0.5").assert_outcomes(passed=3)
    result = run(*args, "--scouter-min-scenario-pass-rate=0.6")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["scenarios passed: 50.0% (1 of 2), wanted at least 60.0%"])
    result = run(*args, "--scouter-min-scenario-pass-rate=60")
    result.stdout.fnmatch_lines(["*scouter_min_scenario_pass_rate is 60.0; expected a share*"])


def test_an_item_without_a_check_has_not_passed(run: Run, project: Path) -> None:
    """Kind: what nothing judged is green. Of a whole file without checks every item fails."""
    check = "{task_type: Assertion, id: x, context_path: response, operator: IsString}"
    (project / "quiet.py").write_text("def answer(message):\n    return message\n")
    quiet = (NAMED[0], "--scouter-agent=quiet:answer")
    judged = f"- {{id: a, initial_query: q, tasks: [{check}]}}\n"
    (project / "shop.yaml").write_text(judged + "- {id: b, initial_query: q}\n")
    found = run(*quiet, "-rs")
    found.assert_outcomes(passed=1, skipped=1)
    found.stdout.fnmatch_lines(["*no check gave a result for this scenario*"])
    (project / "shop.yaml").write_text("- {id: b, initial_query: q}\n")
    run(*quiet).assert_outcomes(failed=1)


def test_unreviewed_scenarios_are_refused_unless_requested(run: Run, project: Path) -> None:
    text = SCENARIOS.replace("    initial_query", "    unreviewed: true\n    initial_query", 1)
    (project / "shop.yaml").write_text(text, encoding="utf-8")
    found = run(*NAMED, PROFILE)
    found.assert_outcomes(failed=2)
    found.stdout.fnmatch_lines(["*1 unreviewed scenario of 2: *scouter_allow_unreviewed*"])
    run(*NAMED, PROFILE, "--scouter-allow-unreviewed=yes").assert_outcomes(passed=2)


def test_own_checks_are_those_of_a_module(run: Run, project: Path) -> None:
    """A profile that names one is refused without it, and the next run of pytest has none."""
    (project / "own_checks.py").write_text(
        "def is_long(context, spans):\n    return len(str(context)) > 100_000\n", encoding="utf-8"
    )
    (project / "own.yaml").write_text(
        "alias: answers\ntasks: [{task_type: Code, id: long, check: is_long}]\n", encoding="utf-8"
    )
    named = (*NAMED, "--scouter-profile=own.yaml")
    done = run(*named, "--scouter-checks", "own_checks")
    done.stdout.fnmatch_lines(["*long*failed*"])
    without = run(*named)
    without.stdout.fnmatch_lines(["*no check is called 'is_long'*"])
    nowhere = run(*named, "--scouter-checks", "nowhere")
    nowhere.stderr.fnmatch_lines(["*--scouter-checks nowhere: ModuleNotFoundError*"])
