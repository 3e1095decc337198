"""`scouter eval` and records that are in no result: in every report, and never passed over."""

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from tests.scouter.cli.conftest import Scouter

POOL = """
from concurrent.futures import ThreadPoolExecutor
from scouter.evaluate import EvalRecord

pool = ThreadPoolExecutor(2)


def put(queue, message):
    queue["desk"].insert(EvalRecord(context={"answer": "right" if message == "q0" else "wrong"}))


def answer(message, queue):
    pool.submit(put, queue, message).result()
    return message
"""
NO_JSON = """
from scouter.evaluate import EvalRecord


def answer(message, queue):
    queue["desk"].insert(EvalRecord(context={"answer": "right"}))
    if message != "q0":
        queue["desk"].insert(EvalRecord(context={"x": object()}))
    return message
"""
FULL = """
from scouter.evaluate import EvalRecord
from scouter.queue import scouter_queue

scouter_queue.MAX_CAPTURED = 3


def answer(message, queue):
    for _ in range(4):
        queue["desk"].insert(EvalRecord(context={"answer": "right"}))
    return message
"""
FAULT = """
from scouter.evaluate import EvalRecord
from scouter.queue import scouter_queue
from scouter.transport.guard import GUARD

capture = scouter_queue.ScouterQueue._capture


def fail(self, alias, snapshot):
    raise LookupError


def answer(message, queue):
    GUARD.strict = False
    queue["desk"].insert(EvalRecord(context={"answer": "right"}))
    scouter_queue.ScouterQueue._capture = fail
    queue["desk"].insert(EvalRecord(context={"answer": "right"}))
    scouter_queue.ScouterQueue._capture = capture
    return message
"""
OPEN = """
from scouter.evaluate import EvalRecord
from scouter.tracing import get_tracer


def answer(message, queue):
    queue["desk"].insert(EvalRecord(context={"answer": "right"}))
    if message == "q5":
        get_tracer("desk").start_span("forgotten")
    return message
"""
SWALLOWED = """
from scouter.evaluate import EvalRecord
from scouter.tracing import get_tracer


def answer(message, queue):
    queue["desk"].insert(EvalRecord(context={"answer": "right"}))
    with get_tracer("desk").start_as_current_span("answer") as span:
        try:
            span.add_queue_item("dsek", EvalRecord(context={"answer": "wrong"}))
        except LookupError:
            pass
    return message
"""
FORKED = """
import os
from scouter.evaluate import EvalRecord


def answer(message, queue):
    queue["desk"].insert(EvalRecord(context={"answer": "right"}))
    child = os.fork()
    if not child:
        queue["desk"].insert(EvalRecord(context={"answer": "wrong"}))
        os._exit(0)
    os.waitpid(child, 0)
    return message
"""
FORKED_SPAN = """
import os
from scouter.evaluate import EvalRecord
from scouter.tracing import get_tracer


def answer(message, queue):
    queue["desk"].insert(EvalRecord(context={"answer": "right"}))
    child = os.fork()
    if not child:
        with get_tracer("desk").start_as_current_span("work"):
            pass
        os._exit(0)
    os.waitpid(child, 0)
    return message
"""
PROFILE = """\
alias: desk
tasks:
  - {task_type: Assertion, id: right, context_path: answer, operator: Equals, expected_value: right}
"""
LOST = ("eval", "six.yaml", "--agent", "desk_agent:answer", "--profile", "desk.yaml")


def write(project: Path, agent: str) -> None:
    (project / "desk_agent.py").write_text(agent)
    (project / "desk.yaml").write_text(PROFILE)
    scenarios = "\n".join(f"- {{id: s{i}, initial_query: q{i}}}" for i in range(6))
    (project / "six.yaml").write_text(scenarios)


@pytest.mark.parametrize(
    ("agent", "flags", "reason", "count"),
    [
        pytest.param(POOL, ["--concurrency", "6"], "unknown_origin", 6, id="pool"),
        pytest.param(NO_JSON, [], "invalid", 5, id="no-json"),
        pytest.param(NO_JSON, ["--concurrency", "3"], "invalid", 5, id="no-json-at-once"),
        pytest.param(FULL, [], "capture_full", 6, id="capture-full"),
        pytest.param(FAULT, [], "internal", 6, id="internal"),
        pytest.param(OPEN, [], "span_open", 1, id="open-span"),
        pytest.param(SWALLOWED, [], "unknown_profile", 6, id="unknown-profile"),
        pytest.param(FORKED, [], "other_process", 6, id="forked"),
        pytest.param(FORKED_SPAN, [], "span_other_process", 6, id="forked-span"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*in no result")
def test_what_is_lost_is_reported_everywhere_and_stops(
    project: Path,
    scouter: Scouter,
    monkeypatch: pytest.MonkeyPatch,
    agent: str,
    flags: list[str],
    reason: str,
    count: int,
) -> None:
    from scouter.queue import scouter_queue
    from scouter.transport.guard import GUARD

    monkeypatch.setattr(scouter_queue, "MAX_CAPTURED", scouter_queue.MAX_CAPTURED)
    monkeypatch.setattr(GUARD, "strict", GUARD.strict)
    write(project, agent)
    reports = ("--json", "r.json", "--junit", "r.xml", "--markdown", "r.md", "--html", "r.html")
    gate = ("--min-pass-rate", "1.0") if agent is not POOL else ()
    done = scouter(*LOST, *flags, *gate, *reports, "--save", "saved.json")

    assert done.returncode == 1, done.stdout + done.stderr
    report = json.loads((project / "r.json").read_text())
    (lost,) = report["lost"]
    assert (lost["reason"], lost["count"], report["exit_code"]) == (reason, count, 1)
    assert report["decision"] == "records were lost"
    (found,) = [
        case
        for case in Xml.parse(project / "r.xml").iter("testcase")  # noqa: S314 our own file
        if case.get("name") == "nothing was lost"
    ]
    failure = found.find("failure")
    assert failure is not None
    assert lost["text"] in str(failure.get("message"))
    assert "**Lost**" in (project / "r.md").read_text()
    assert f"<code>{reason}</code>" in (project / "r.html").read_text()
    said = " ".join(done.stdout.split())
    assert lost["text"].removesuffix(f": {lost['remedy']}") in said
    assert lost["remedy"].split(";")[0] in said

    again = scouter("compare", "saved.json", "saved.json")
    assert again.returncode == 1, "the file knows it as well"
    allowed = scouter(*LOST, *flags, *gate, "--allow-lost", "--json", "r.json")
    stopped = 1 if agent is POOL else 0  # nothing is left that could be judged
    assert allowed.returncode == stopped, allowed.stdout
    report = json.loads((project / "r.json").read_text())
    assert report["lost"][0]["count"] == count
    assert report["policy"]["allow_lost"]


def test_a_run_that_loses_nothing_says_nothing_of_it(project: Path, scouter: Scouter) -> None:
    write(project, POOL)
    done = scouter(*LOST, "--json", "r.json", "--html", "r.html")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((project / "r.json").read_text())
    assert report["lost"] == []
    assert report["checks"] == {**report["checks"], "passed": 1, "total": 6}
    assert "Lost" not in (project / "r.html").read_text()
    assert "lost" not in done.stdout


@pytest.mark.filterwarnings("ignore:.*in no result")
def test_a_resumed_run_knows_what_was_lost_before(project: Path, scouter: Scouter) -> None:
    write(project, NO_JSON)
    for _ in range(2):
        done = scouter(*LOST, "--resume", "run.jsonl", "--json", "r.json")
        assert done.returncode == 1, done.stdout
        report = json.loads((project / "r.json").read_text())
        assert [(each["reason"], each["count"]) for each in report["lost"]] == [("invalid", 5)]


SILENT = """
def answer(message):
    return message
"""
TWO_ALIASES = """
from scouter.drift import AgentEvalProfile
from scouter.evaluate import AssertionTask, ComparisonOperator, EvalRecord
from scouter.queue import ScouterQueue
from scouter.tracing import init_tracer
from scouter.transport import MockConfig

tasks = [AssertionTask("right", "answer", "right", ComparisonOperator.Equals)]
queue = ScouterQueue.from_profile(
    [AgentEvalProfile(alias=alias, tasks=tasks) for alias in ("desk", "rare")], MockConfig()
)
tracer = init_tracer("shop", scouter_queue=queue)


def answer(message):
    with tracer.start_as_current_span("answer") as span:
        span.add_queue_item("desk", EvalRecord(context={"answer": "right"}))
    return message


def silent(message):
    return message
"""
GONE = """
import os


def answer(message):
    os._exit(0)
"""
GONE_AT_ONCE = "import os; os._exit(0)"


def test_a_profile_that_got_no_record_passes_no_gate(project: Path, scouter: Scouter) -> None:
    """The scenarios' own checks pass; those of the profile were never made."""
    write(project, SILENT)
    right = (
        "{task_type: Assertion, id: own, context_path: response, operator: Equals, "
        "expected_value: q0}"
    )
    (project / "six.yaml").write_text(f"- {{id: s0, initial_query: q0, tasks: [{right}]}}")
    done = scouter(*LOST, "--min-pass-rate", "1.0", "--json", "r.json")
    assert done.returncode == 1, done.stdout
    report = json.loads((project / "r.json").read_text())
    assert report["decision"] == "nothing was judged"
    assert "no record came for the profile 'desk'" in " ".join(done.stdout.split())
    assert scouter(*LOST, "--min-pass-rate", "1.0", "--allow-unjudged").returncode == 0


def test_of_an_agents_own_profiles_one_has_to_get_a_record(project: Path, scouter: Scouter) -> None:
    write(project, TWO_ALIASES)
    assert scouter("eval", "six.yaml", "--agent", "desk_agent:answer").returncode == 0
    done = scouter("eval", "six.yaml", "--agent", "desk_agent:silent")
    assert done.returncode == 1, done.stdout


@pytest.mark.parametrize("agent", [GONE, GONE_AT_ONCE])
def test_an_agent_that_ends_the_process_ends_it_with_1(project: Path, agent: str) -> None:
    write(project, agent)
    command = [sys.executable, "-m", "scouter.cli.app", *LOST]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "ended the run with os._exit(0)" in done.stderr
