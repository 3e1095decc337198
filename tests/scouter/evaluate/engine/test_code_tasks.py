"""Checks in Python: found by name, run in one process, killed at their limit, alone in faults."""

import os
import pickle
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError
from scouter.evaluate.engine.checks import CheckProcess, check_names, use_checks
from scouter.evaluate.engine.execute import evaluate_record
from scouter.evaluate.engine.plan import compile_plan
from scouter.evaluate.results.record_result import RecordResult
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.function import CodeTask
from scouter.evaluate.tasks.task import Task, parse_tasks
from scouter.model.record import EvalRecord
from tests.scouter.evaluate.spans_support import agent_trace, span

CHECKS = """
import os
import sys
import time
from statistics import mean  # no check of this module


def polite(context, spans):
    return "please" in context["answer"]


def share(context, spans):
    return 0.75, "three of four"


def names(context, spans):
    return [each.name for each in spans] == ["run", "chat", "search", "fetch", "chat", "save"]


def earlier(context, spans):
    return context["first"] == "please"


def process(context, spans):
    return float(os.getpid())


def raises(context, spans):
    raise KeyError("order")


def leaves(context, spans):
    sys.exit(7)


def crashes(context, spans):
    os.kill(os.getpid(), 9)


def hangs(context, spans):
    while True:
        pass


def children(context, spans):
    child = os.fork()
    if child == 0:
        time.sleep(600)
    open(context["file"], "w").write(str(child))
    time.sleep(600)


def prints(context, spans):
    print("this is no answer")
    os.write(1, b"nor is this\\n")
    return True


def reads_a_text(context, spans):
    return "yes"


def no_number(context, spans):
    return float("nan")


def floods(context, spans):
    return True, "x" * 5_000


def _private(context, spans):
    return True
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module of checks beside the working folder; the process that has it ends with the test."""
    (tmp_path / "own_checks.py").write_text(CHECKS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    use_checks("own_checks")
    yield "own_checks"
    use_checks("")


def judged(*tasks: Task, spans: SpanTree | None = None, **context: object) -> RecordResult:
    record = EvalRecord({"answer": "please", **context})
    return evaluate_record(compile_plan(tasks), record, spans)


def outcomes(result: RecordResult) -> dict[str, str]:
    return {
        each.task_id: ":".join(filter(None, (each.outcome, each.reason))) for each in result.tasks
    }


def test_the_functions_of_a_module_are_its_checks(module: str) -> None:
    names = check_names()

    assert {"polite", "share", "leaves"} <= set(names)
    assert not {"mean", "_private", "os"} & set(names)


def test_an_outcome_and_a_score(module: str) -> None:
    result = judged(
        CodeTask("polite", "polite"),
        CodeTask("most", "share", operator="GreaterThanOrEqual", expected_value=0.7),
        CodeTask("all", "share"),
        AssertionTask("first", "answer", True, "IsString"),
        CodeTask("after", "earlier", depends_on=["first"]),
    )

    assert outcomes(result) == {
        "polite": "passed", "most": "passed", "all": "failed", "first": "passed", "after": "passed",
    }  # fmt: skip
    assert [each.score for each in result.tasks] == [1, 0.75, 0.75, 1, 1]
    assert "three of four" in result["all"].message
    assert outcomes(judged(CodeTask("polite", "polite"), answer="now"))["polite"] == "failed"


def test_spans_are_given_where_they_are_requested(module: str) -> None:
    task = CodeTask("t", "names", source="spans")

    assert outcomes(judged(task, spans=agent_trace())) == {"t": "passed"}
    assert outcomes(judged(CodeTask("t", "names"), spans=agent_trace())) == {"t": "failed"}
    assert outcomes(judged(task)) == {"t": "errored:no_spans"}
    lossy = SpanTree([span(1, "run")], lost="a span was refused")
    assert outcomes(judged(task, spans=lossy)) == {"t": "errored:incomplete"}
    assert compile_plan([task]).reads_spans
    assert not compile_plan([CodeTask("t", "names")]).reads_spans


def test_one_process_runs_all(module: str) -> None:
    runs = [judged(CodeTask("t", "process"))["t"].score for _ in range(3)]

    assert len(set(runs)) == 1
    assert runs[0] != os.getpid()


@pytest.mark.parametrize(
    ("check", "words"),
    [
        ("raises", "KeyError: 'order' (own_checks.py:"),
        ("leaves", "its process ended with the code 7"),
        ("crashes", "its process ended with the code -9"),
        ("reads_a_text", "returns true, false or a number, this one 'yes'"),
    ],
)
def test_a_fault_is_that_of_its_own_task(module: str, check: str, words: str) -> None:
    result = judged(CodeTask("before", "polite"), CodeTask("t", check), CodeTask("z", "polite"))

    assert outcomes(result) == {"before": "passed", "t": "errored:check", "z": "passed"}
    assert words in result["t"].message


def test_a_check_that_takes_too_long_is_killed(module: str) -> None:
    before = judged(CodeTask("t", "process"))["t"].score
    result = judged(CodeTask("t", "hangs", timeout_s=0.3), CodeTask("z", "process"))

    assert outcomes(result)["t"] == "errored:check"
    assert "longer than 0.3 s" in result["t"].message
    assert result["z"].score not in (None, before)
    assert before is not None
    with pytest.raises(ProcessLookupError):
        os.kill(int(before), 0)


def test_what_a_check_started_is_killed_with_it(module: str, tmp_path: Path) -> None:
    file = tmp_path / "child"
    result = judged(CodeTask("t", "children", timeout_s=1), file=str(file))

    assert outcomes(result) == {"t": "errored:check"}
    try:
        child = os.pidfd_open(int(file.read_text()))
    except ProcessLookupError:
        return
    ended, _, _ = select.select([child], [], [], 60)
    os.close(child)
    assert ended


def test_what_a_check_prints_is_no_answer(module: str) -> None:
    assert outcomes(judged(CodeTask("t", "prints"), CodeTask("z", "polite"))) == {
        "t": "passed", "z": "passed",
    }  # fmt: skip


def test_what_is_no_score_is_a_fault_of_type(module: str) -> None:
    assert outcomes(judged(CodeTask("t", "no_number"))) == {"t": "errored:type"}


def test_a_message_is_cut(module: str) -> None:
    assert len(judged(CodeTask("t", "floods"))["t"].message) < 3_000


def test_a_fork_has_a_process_of_its_own(module: str) -> None:
    """A fork that used its parent's pipes would take its answers."""
    own = judged(CodeTask("t", "process"))["t"].score
    reads, writes = os.pipe()
    fork = os.fork()
    if fork == 0:
        other = judged(CodeTask("t", "process"))["t"].score
        os.write(writes, str(other).encode())
        use_checks("")
        os._exit(0)
    os.waitpid(fork, 0)

    assert float(os.read(reads, 100)) not in (own, 0.0)
    assert judged(CodeTask("t", "process"))["t"].score == own


def test_an_unknown_name_is_refused_when_the_profile_is_made(module: str) -> None:
    with pytest.raises(ConfigError, match=r"no check is called 'nope'.*'polite'.*scouter\.checks"):
        AgentEvalProfile([CodeTask("t", "nope")], alias="desk")


@pytest.mark.parametrize("name", ["own_checks:polite", "own_checks.polite", "../x", "", "a b"])
def test_a_name_is_no_place_in_a_program(name: str) -> None:
    with pytest.raises(ValueError, match="check"):
        CodeTask("t", name)


def test_an_entry_point_of_a_package_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an installer leaves it; the function is loaded in the other process alone."""
    (tmp_path / "desk_checks.py").write_text(CHECKS, encoding="utf-8")
    info = tmp_path / "desk-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: desk\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[scouter.checks]\nis-polite = desk_checks:polite\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    use_checks("")  # a process that starts now has the path
    (task,) = parse_tasks([{"task_type": "Code", "id": "t", "check": "is-polite"}])

    assert outcomes(judged(task)) == {"t": "passed"}
    assert "desk_checks" not in sys.modules
    use_checks("")


def test_a_module_that_cannot_be_imported_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.py").write_text("raise OSError('no disk')\n")
    (tmp_path / "bare.py").write_text("import os\n")
    with pytest.raises(ConfigError, match="--checks broken: OSError: no disk"):
        use_checks("broken")
    with pytest.raises(ConfigError, match="--checks nowhere: ModuleNotFoundError"):
        use_checks("nowhere")
    with pytest.raises(ConfigError, match="no public function"):
        use_checks("bare")


def test_the_process_ends_with_whoever_asks(module: str) -> None:
    process = CheckProcess(module)
    pid, _ = process.run("process", {}, (), 5)
    process.close()

    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


def test_a_check_of_somebody_who_is_gone_ends_by_itself(module: str) -> None:
    """By its own alarm, as nobody is left to kill it."""
    program = [sys.executable, "-m", "scouter.evaluate.engine.check_process", module]
    message = pickle.dumps(("run", 0.1, "hangs", {}, ()))
    with subprocess.Popen(
        program,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as child:
        child.communicate(len(message).to_bytes(8, "big") + message)

    assert child.returncode == -signal.SIGALRM
