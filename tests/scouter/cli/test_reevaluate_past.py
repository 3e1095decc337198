"""`scouter reevaluate --past`: files in processes, runs that were killed, what is refused."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from scouter.cli.app import make_app
from scouter.cli.reevaluate_past import PastRun, reevaluate_past
from scouter.drift.profile import AgentEvalProfile
from scouter.errors import TransientError
from scouter.evaluate import EvalDataset, EvalResults
from scouter.evaluate.judge.prompt import Prompt
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.mock.llm_server import LLMTestServer
from scouter.model.record import EvalRecord
from scouter.replay import past as past_days
from scouter.replay.named_run import NamedJudging
from scouter.replay.past import past_tasks, run_local
from tests.support.past_days import profile, record, trace, write_day, write_records, write_spans
from tests.support.processes import wait_until


@pytest.fixture
def past(tmp_path: Path) -> Path:
    """Two days: 40 records in four files, and 10 in one."""
    folder = tmp_path / "past"
    write_day(folder / "day=2026-11-27", range(40), 4)
    write_day(folder / "day=2026-11-28", range(40, 50), 1)
    return folder


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    return profile().save_to_json(tmp_path / "desk.json")


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(make_app(), ["reevaluate", "--profile", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return 2, f"{result.output}{result.exception}"
    return result.exit_code, result.output


def outcomes(results: EvalResults) -> dict[str, list[str]]:
    return {row.record_uid: [task.outcome.value for task in row.tasks] for row in results.records}


@pytest.mark.parametrize("workers", [1, 2])
def test_files_are_judged_as_the_engine_judges_them(
    past: Path, desk: Path, tmp_path: Path, workers: int
) -> None:
    save = tmp_path / "new.json"
    code, text = run(
        desk, "--past", past, "--out", tmp_path / "out", "--workers", workers, "--save", save
    )
    assert code == 0, text
    lines = [line.split() for line in text.splitlines()]
    assert ["right", "40", "10", "80.0%"] in lines
    assert ["quick", "25", "25", "50.0%"] in lines
    assert "50 records judged: 20 passed, 30 failed" in text
    results = EvalResults.load(save)
    records = [
        EvalRecord(json.loads(each["context"]), uid=each["uid"], trace_id=each["trace_id"])
        for each in map(record, range(50))
    ]
    spans = [span for n in range(50) for span in trace(n, 4, "")]
    direct = EvalDataset(records, profile().tasks, spans).evaluate()
    assert outcomes(results) == outcomes(direct)
    assert results["r7"].record_uid == "u7"
    assert results.provenance is not None
    assert results.provenance.profile_digests == {"": profile().digest}


def test_progress_is_that_of_files(past: Path, tmp_path: Path) -> None:
    """Two days in five files; no scenario is in them."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    with redirect_stderr(Terminal()) as err:
        reevaluate_past(
            profile(),
            PastRun(
                past=past, engine="local", workers=1, out=tmp_path / "out", save=None, since=None,
                judging=NamedJudging(),
            ),
        )  # fmt: skip
    assert "5/5" in err.getvalue()
    assert "Files" in err.getvalue()
    assert "Scenarios" not in err.getvalue()


def test_two_runs_are_compared(past: Path, desk: Path, tmp_path: Path) -> None:
    other = profile(answer="x").save_to_json(tmp_path / "other.json")
    for path, name in ((desk, "old"), (other, "new")):
        save = tmp_path / f"{name}.json"
        assert run(path, "--past", past, "--out", tmp_path / name, "--save", save)[0] == 0
    result = CliRunner().invoke(
        make_app(), ["compare", *(str(tmp_path / f"{name}.json") for name in ("old", "new"))]
    )
    assert result.exit_code in (0, 1, 3), result.output
    assert "right" in result.output


def test_spans_of_the_days_beside_are_seen(desk: Path, tmp_path: Path) -> None:
    """A trace over midnight; one of two days later is too far off, and of another space none."""
    past = tmp_path / "past"
    write_records(past / "day=2026-11-27" / "records-0.parquet", [record(0), record(1)])
    for day, number in (("26", 0), ("28", 0), ("29", 1)):
        spans = trace(number, 2, "")
        mine = spans[:1] if day == "26" else spans[1:] if day == "28" else spans
        write_spans(past / f"day=2026-11-{day}" / "spans-0.parquet", mine)
    code, text = run(desk, "--past", past, "--out", tmp_path / "out", "--workers", 1)
    assert code == 0, text
    found = EvalResults.load(tmp_path / "out" / "day=2026-11-27" / "records-0.json")
    looked = {row.record_uid: row.tasks[2].outcome.value for row in found.records}
    assert (looked["u0"], looked["u1"] == "passed") == ("passed", False)


def test_only_days_since_and_records_of_the_profile(past: Path, desk: Path, tmp_path: Path) -> None:
    others = [record(90, alias="other"), record(91, space="elsewhere"), record(92, context="null")]
    write_records(past / "day=2026-11-28" / "records-1.parquet", others)
    out = tmp_path / "out"
    code, text = run(desk, "--past", past, "--since", "2026-11-28T01:00:00Z", "--out", out)
    assert code == 0, text
    assert "11 records judged" in text
    assert not (out / "day=2026-11-27").exists()
    unknown = profile("nobody").save_to_json(tmp_path / "nobody.json")
    code, text = run(unknown, "--past", past, "--out", tmp_path / "none", "--workers", 1)
    assert (code, "nothing was judged" in text) == (1, True)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_session_is_judged_once_over_its_records_in_all_files(
    tmp_path: Path, workers: int
) -> None:
    """Seven sessions over five files of two days: the first has eight records, the others seven."""
    past, save, since = tmp_path / "past", tmp_path / "new.json", tmp_path / "since.json"
    records = [record(n, session_id=f"s{n % 7}" if n < 50 else "") for n in range(52)]
    for name, part in (("7/records-0", records[:20]), ("7/records-1", records[20:30]),
                       ("7/records-2", [record(90, session_id="s0", alias="other")]),
                       ("8/records-0", records[30:48]), ("8/records-1", records[48:])):  # fmt: skip
        write_records(past / f"day=2026-11-2{name}.parquet", part)
    spans = [span for n in range(52) for span in trace(n, 4, "")]
    write_spans(past / "day=2026-11-27" / "spans-0.parquet", spans)
    whole = AgentEvalProfile(
        [
            *profile().tasks,
            AssertionTask("eight", "records", 8, ComparisonOperator.HasLengthEqual,
                          scope="session"),
            TraceAssertionTask("many", TraceAssertion.trace_span_count(), 30,
                               ComparisonOperator.GreaterThan, scope="session"),
        ],
        alias="desk",
    )  # fmt: skip
    file = whole.save_to_json(tmp_path / "talk.json")
    options = ("--past", past, "--workers", workers, "--out", tmp_path / "out")
    code, text = run(file, *options, "--save", save)
    assert code == 0, text
    assert "52 records judged" in text
    assert "9 sessions" in text
    assert ["eight", "1", "8", "11.1%"] in [line.split() for line in text.splitlines()]
    found = EvalResults.load(save)
    made = [EvalRecord(json.loads(each["context"]), uid=each["uid"], trace_id=each["trace_id"],
                       session_id=each["session_id"], created_ns=each["created_ns"])
            for each in records]  # fmt: skip
    direct = EvalDataset(made, whole.tasks, spans).evaluate()
    assert outcomes(found) == outcomes(direct)
    assert [row.session_id for row in found.sessions if row.outcome is Outcome.PASSED] == ["s0"]
    code, text = run(
        file, *options[:-1], tmp_path / "later", "--since", "2026-11-28", "--save", since
    )
    assert code == 0, text
    assert outcomes(EvalResults.load(since)).items() <= outcomes(found).items()
    assert len(EvalResults.load(since).sessions) == 9


def test_judges_are_called_within_one_budget(tmp_path: Path) -> None:
    """An answer may cost 4.096 dollars and costs a part of that; a second run asks the rest."""
    past, out, save = tmp_path / "past", tmp_path / "out", tmp_path / "new.json"
    for n in range(5):
        part = [record(k, context=json.dumps({"answer": f"text {k}"})) for k in (2 * n, 2 * n + 1)]
        write_records(past / "day=2026-11-27" / f"records-{n}.parquet", part)
    number = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    prompt = Prompt("Rate ${answer}.", "m", "house", output_type=number)
    asking = AgentEvalProfile(
        [LLMJudgeTask("polite", prompt, 3, "n", "Equals")], alias="desk"
    ).save_to_json(tmp_path / "asking.json")
    providers = tmp_path / "p.yaml"
    options = (asking, "--past", past, "--out", out, "--providers", providers,
               "--judge-cache", tmp_path / "answers.db")  # fmt: skip
    with LLMTestServer({"n": 3}) as server:
        providers.write_text(
            f"providers: {{house: {{kind: openai, base_url: '{server.url}', key_variable: "
            "OPENAI_API_KEY, prices: {m: {input_per_million: 500, output_per_million: 1000}}}}\n"
        )
        code, text = run(*options, "--judge-budget", "5")
        assert (code, "the budget for judges is spent" in text) == (2, True), text
        calls, done = server.calls, len(list(out.glob("day=*/*.json")))
        assert 0 < done < 5, (calls, text)
        code, text = run(*options, "--judge-budget", "100", "--save", save)
        assert code == 0, text
        assert calls < server.calls == 10
    assert f"{done} of 5 files were judged before" in text
    assert outcomes(EvalResults.load(save)) == {f"u{n}": ["passed"] for n in range(10)}


def test_a_killed_run_goes_on_with_the_files_that_are_left(desk: Path, tmp_path: Path) -> None:
    """All of its processes end with it; what is done is not done again."""
    past, out, save = tmp_path / "past", tmp_path / "out", tmp_path / "new.json"
    write_day(past / "day=2026-11-27", range(900), 30)
    command = [
        sys.executable, "-m", "scouter.cli.app", "reevaluate", "--profile", str(desk),
        "--past", str(past), "--workers", "2", "--out", str(out),
    ]  # fmt: skip
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: len(list(out.glob("day=*/*.json"))) >= 3, what="three files are done")
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        wait_until(lambda: not _group(process.pid), what="no process is left")
    finally:
        if _group(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
    done = {path: path.stat().st_mtime_ns for path in out.glob("day=*/*.json")}
    assert 3 <= len(done) < 30
    code, text = run(desk, "--past", past, "--out", out, "--workers", 2, "--save", save)
    assert code == 0, text
    assert f"{len(done)} of 30 files were judged before" in text
    assert {path: path.stat().st_mtime_ns for path in done} == done
    assert len(EvalResults.load(save).records) == 900


def _group(number: int) -> list[str]:
    """The processes of a group that run."""
    found: list[str] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if words[0] != "Z" and words[2] == str(number):
            found.append(stat.parent.name)
    return found


def test_a_process_that_is_killed_is_reported(past: Path, tmp_path: Path) -> None:
    """As by the kernel, for want of memory."""
    tasks = past_tasks(past, profile(), tmp_path / "out")
    broken = tmp_path / "broken"
    shutil.copytree(past, broken)
    with pytest.raises(TransientError, match="the same command goes on"):
        list(run_local([KillingTask(**_fields(each)) for each in tasks], 2))


class KillingTask(past_days.FileTask):
    """A file whose judge is killed."""

    def __setstate__(self, state: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def _fields(task: past_days.FileTask) -> dict[str, Any]:
    return {name: getattr(task, name) for name in ("records", "spans", "results", "profile")}


def test_what_cannot_be_is_refused(past: Path, desk: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    asking = AgentEvalProfile(
        [LLMJudgeTask("polite", Prompt("Rate ${answer}.", "m", "nobody"), 3, "n", "Equals")],
        alias="desk",
    ).save_to_json(tmp_path / "asking.json")  # fmt: skip
    for arguments, words in (
        ((desk, "--past", tmp_path / "none"), "no folder day="),
        ((desk, "--past", past, "--since", "2030-01-01"), "since then"),
        ((desk, "--past", past, "--engine", "spark"), "expected local or ray"),
        ((desk, "--past", past, "--workers", 0), "expected 1 or more"),
        ((desk, "--past", past, "--apply"), "--apply is about a collector's records"),
        (("desk", "--past", past), "is no profile file"),
        ((asking, "--past", past, "--workers", 2), "leave out --engine and --workers"),
        ((asking, "--past", past, "--engine", "ray"), "leave out --engine and --workers"),
        ((asking, "--past", past), "nobody"),
        ((desk, "--workers", 2), "need --past"),
        ((desk, "--judge-budget", 2), "need --past"),
    ):
        code, text = run(*arguments, *(("--out", out) if "--past" in arguments else ()))
        assert (code, words in text) == (2, True), text
    assert run(desk, "--past", past, "--out", out, "--workers", 1)[0] == 0
    other = profile(answer="x").save_to_json(tmp_path / "other.json")
    code, text = run(other, "--past", past, "--out", out)
    assert (code, "another profile, folder or judge" in text) == (2, True)


# --- Ray -----------------------------------------------------------------------------------------


def test_ray_says_how_to_install_it(past: Path, desk: Path, tmp_path: Path) -> None:
    try:
        import ray  # noqa: F401  # pyright: ignore[reportMissingImports, reportUnusedImport]
    except ImportError:
        code, text = run(desk, "--past", past, "--engine", "ray", "--out", tmp_path / "out")
        assert (code, "scouter-agents[ray]" in text) == (2, True)
    else:
        save = tmp_path / "ray.json"
        code, text = run(
            desk, "--past", past, "--engine", "ray", "--workers", 2, "--out", tmp_path / "out",
            "--save", save,
        )  # fmt: skip
        assert code == 0, text
        assert len(EvalResults.load(save).records) == 50
