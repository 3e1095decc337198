"""Commands that give a collector orders or take data out, against a scripted one."""

import datetime
import json
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from scouter.cli.asking import moment
from scouter.client.models.evaluations import Evaluation, Reevaluation
from scouter.client.models.operation import DeadLetter, Erased, ReplayedLetters
from scouter.client.models.records import ProfileItem, Record
from scouter.errors import ConfigError
from tests.scouter.cli.conftest import Scouter
from tests.support.answers import whole
from tests.support.processes import wait_until
from tests.support.served import Say, Script, run_script

ERASED = whole(Erased, **{
    "records": 2, "spans": 3, "evaluations": 4, "dead_letters": 5, "is_gone": True,
    "backups": [
        {"name": "a\x1b[2J", "path": "/backups/a\x1b[2J", "made_at": "2026-01-02T03:04:05Z"},
        {"name": "b", "path": None, "made_at": "2026-01-02T03:04:06Z"},
    ],
})  # fmt: skip
PROFILE = whole(ProfileItem, **{
    "space": "default", "name": "n", "alias": "a", "uid": "f" * 32, "profile_version": "d" * 64,
    "version": "1", "is_active": False, "reads_spans": False, "tasks": ["t"],
    "registered_at": "2026-01-02T03:04:05Z",
})  # fmt: skip


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    with run_script() as running:
        monkeypatch.setenv("SCOUTER_URL", running.url)
        monkeypatch.delenv("SCOUTER_AUTH_TOKEN", raising=False)
        yield running


@pytest.mark.parametrize(
    ("option", "body"),
    [
        (("--session", "s"), {"session_id": "s"}),
        (("--trace", "A" * 32), {"trace_id": "a" * 32}),
        (("--record", "u/1"), {"record_uid": "u/1"}),
        (("--tag", "who=me=you"), {"tag": {"key": "who", "value": "me=you"}}),
    ],
)
def test_erase(script: Script, scouter: Scouter, option: tuple[str, str], body: Any) -> None:
    script.answers = [Say(body=ERASED)]
    done = scouter("erase", *option, "--yes")
    assert (done.returncode, done.stdout.splitlines()) == (
        0,
        [
            "erased 2 records, 3 spans, 4 evaluations, 5 dead letters",
            "it may still be in the backup /backups/a\\x1b[2J of 2026-01-02 03:04:05Z",
            "it may still be in the backup b of 2026-01-02 03:04:06Z",
        ],
    )
    (request,) = script.asked
    assert (request.method, request.path, request.body) == ("POST", "/api/v1/erase", body)
    assert request.headers["content-type"] == "application/json"


def test_erasing_what_is_not_there_is_no_success(script: Script, scouter: Scouter) -> None:
    """Backups are named all the same: what was erased before may be in them."""
    nothing = {"records": 0, "spans": 0, "evaluations": 0, "dead_letters": 0}
    script.answers = [Say(body={**ERASED, **nothing, "dead_letters": 1})]
    assert scouter("erase", "--session", "s\x1b[2J", "--yes").returncode == 0
    script.answers = [Say(body={**ERASED, **nothing})]
    done = scouter("erase", "--session", "s\x1b[2J", "--yes")
    assert (done.returncode, done.stdout.splitlines(), done.stderr) == (
        1,
        [
            "nothing was found: session 's\\x1b[2J' is not stored, or was erased before",
            "it may still be in the backup /backups/a\\x1b[2J of 2026-01-02 03:04:05Z",
            "it may still be in the backup b of 2026-01-02 03:04:06Z",
        ],
        "",
    )


PAGE = whole(Reevaluation, **{
    "profile": "a", "profile_version": "d" * 64, "dry_run": True, "checked": 0, "flipped": 0,
    "stored": 0, "gone": 0, "items": [], "next_cursor": None,
})  # fmt: skip


def test_a_report_sends_the_file_along(script: Script, scouter: Scouter, tmp_path: Path) -> None:
    """With each page; only what makes revisions registers it."""
    (tmp_path / "p.yaml").write_text(
        "alias: a\ntasks:\n- {task_type: Assertion, id: t, context_path: x, operator: IsString}\n",
        encoding="utf-8",
    )
    pages = [{**PAGE, "next_cursor": "c", "checked": 1}, PAGE, {**PAGE, "still_open": 1}]
    script.answers = [Say(body=page) for page in pages]
    done = scouter("reevaluate", "--profile", "p.yaml")
    assert (done.returncode, done.stdout.splitlines()) == (
        0,
        [
            "0 of 1 evaluations flip; nothing was changed",
            "0 evaluated for the first time, as backfill; nothing was changed; 1 may still go on, "
            "and are left out",
        ],
    )
    first, second, third = script.asked
    assert {request.path for request in script.asked} == {"/api/v1/reevaluations"}
    assert (first.body["dry_run"], first.body.get("profile")) == (True, None)
    assert [task["id"] for task in first.body["profile_body"]["tasks"]] == ["t"]
    assert second.body == {**first.body, "cursor": "c"}
    assert third.body == {**first.body, "missing": True, "limit": 500}
    script.asked.clear()
    nothing = Say(body={**PAGE, "dry_run": False})
    script.answers = [Say(200, PROFILE), nothing, nothing]
    done = scouter("reevaluate", "--profile", "p.yaml", "--apply")
    assert done.stdout.splitlines() == [
        f"registered {'f' * 32}: alias 'a', digest dddddddddddd, not active",
        "0 of 0 evaluations flip; 0 revisions stored",
    ]
    assert done.returncode == 1  # nothing fits, so that nothing was evaluated
    assert (
        "nothing was judged: nothing that is stored fits this profile: no record is of its"
        in done.stderr
    )
    register, apply, _ = script.asked
    assert (register.path, register.body["alias"]) == ("/api/v1/profiles", "a")
    assert (apply.body["profile"], apply.body["dry_run"]) == ("f" * 32, False)
    assert "profile_body" not in apply.body


def test_a_misspelt_profile_is_no_empty_table(script: Script, scouter: Scouter) -> None:
    """The collector knows the names; the command ends as for any wrong input."""
    detail = "profile: 'ailrine' is not registered; did you mean 'airline'?"
    for command in ("tasks", "evaluations"):
        script.answers = [Say(404, {"detail": detail})]
        done = scouter("results", command, "--profile", "ailrine")
        assert (done.returncode, done.stdout, detail in done.stderr) == (2, "", True)


def test_flips_for_programs(script: Script, scouter: Scouter) -> None:
    """One JSON object for each; what people read goes to the standard error."""
    flip = {
        "scope": "record", "uid": "u1", "record_id": "r1", "trace_id": None, "session_id": "",
        "before": "passed", "after": "failed", "before_version": "d", "revision": 2,
        "is_stored": False, "tasks": [{"task_id": "t", "before": "passed", "after": "failed"}],
    }  # fmt: skip
    script.answers = [
        Say(body={**PAGE, "checked": 2, "flipped": 1, "items": [flip]}),
        Say(body=PAGE),
    ]
    done = scouter("reevaluate", "--profile", "name", "--json", "--check")
    assert done.returncode == 1
    (line,) = done.stdout.splitlines()
    flip = json.loads(line)
    assert (flip["uid"], flip["before"], flip["after"]) == ("u1", "passed", "failed")
    assert "1 of 2 evaluations flip" in done.stderr


def test_a_new_task_is_no_flip(script: Script, scouter: Scouter) -> None:
    """Two pages are summed; what is new or gone does not end a check with 1."""
    page = {
        **PAGE, "checked": 2, "moved": 1,
        "new_tasks": [{"task_id": "t\x1b", "outcomes": {"failed": 1, "passed": 1}}],
        "removed_tasks": [{"task_id": "old", "outcomes": {"errored": 2}}],
    }  # fmt: skip
    first = {**PAGE, "checked": 7, "new_tasks": page["new_tasks"]}
    script.answers = [Say(body=each) for each in ({**page, "next_cursor": "c"}, page, first)]
    done = scouter("reevaluate", "--profile", "name", "--check")
    assert (done.returncode, done.stdout.splitlines()) == (
        0,
        [
            "0 of 4 evaluations flip; nothing was changed",
            "new task t\x1b: 2 failed, 2 passed",
            "removed task old: 4 errored",
            "2 evaluations have another outcome for new and removed tasks alone",
            "7 evaluated for the first time, as backfill; nothing was changed",
            "task t\x1b: 1 failed, 1 passed",
        ],
    )


def test_what_was_done_before_a_fault_is_reported(script: Script, scouter: Scouter) -> None:
    """Letters that were taken in are gone, and revisions stay."""
    gone = Say(404, {"detail": "no dead letter"})
    letter = {"letter_id": "a", "result": "accepted", "message": ""}
    script.answers = [Say(body=letter), gone]
    done = scouter("letters", "replay", "a", "b", "c")
    assert (done.returncode, done.stdout) == (2, "1 accepted, 0 waiting, 0 refused\n")
    assert "no dead letter" in done.stderr
    script.answers = [gone]
    done = scouter("letters", "replay", "b", "c")
    assert (done.returncode, done.stdout) == (2, "")
    script.answers = [Say(body={**PAGE, "checked": 9, "stored": 8, "next_cursor": "c"}), gone]
    done = scouter("reevaluate", "--profile", "name", "--apply")
    assert (done.returncode, done.stdout) == (2, "")
    assert "\r9 evaluated again, 0 flipped; 8 stored\n" in done.stderr


def test_a_record_without_a_question_says_where_to_put_one(
    script: Script, scouter: Scouter
) -> None:
    at = "2026-01-02T03:04:05Z"
    verdict = whole(Evaluation, **{
        "evaluation_id": "e", "scope": "record", "record_id": "", "uid": "u1", "profile": "a",
        "profile_version": "d", "revision": 1, "outcome": "failed", "completeness": "complete",
        "created_at": at, "evaluated_at": at, "tasks": [],
    })  # fmt: skip
    record = whole(Record, **{
        "uid": "u1", "record_id": "", "session_id": "", "trace_id": None, "profile": "a",
        "state": "evaluated", "created_at": at, "received_at": at, "context": {"answer": "Lyon"},
        "evaluations": [],
    })  # fmt: skip
    script.answers = [Say(body={"items": [verdict], "next_cursor": None}), Say(body=record)]
    done = scouter("scenarios", "harvest", "f.yaml")
    assert (done.returncode, done.stdout, done.stderr.splitlines()) == (
        1,
        "",
        [
            "left out u1: no stored text has the question",
            "what the user said is read from the messages on spans of model calls, else from the "
            "record's context: put it there as `question`",
            "no record to make a scenario of; nothing was written",
        ],
    )


@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("n\n", 2), ("\n", 2), ("", 2)])
def test_erase_asks_first(
    script: Script, scouter: Scouter, monkeypatch: pytest.MonkeyPatch, typed: str, code: int
) -> None:
    import io

    script.answers = [Say(body=ERASED)]
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    done = scouter("erase", "--session", "s")
    assert "session 's'" in done.stderr
    assert done.returncode == code
    assert ("nothing was erased; --yes does not ask" in done.stderr) is (code == 2)
    assert len(script.asked) == (code == 0)


ROWS: list[dict[str, Any]] = [
    {"uid": "a", "n": 1, "x": 1, "mixed": 1, "nested": {"k": [1]}, "none": None, "yes": True},
    {"uid": "é", "n": 2, "x": 1.5, "mixed": "t", "nested": [], "none": None, "yes": None},
    {"uid": None, "n": None, "x": 2, "mixed": None, "nested": None, "late": "l"},
]
LINES = "".join(f"{json.dumps(row)}\n" for row in ROWS).encode()


def test_export_to_a_file_and_to_the_output(
    script: Script, scouter: Scouter, tmp_path: Path
) -> None:
    script.answers = [Say(body=LINES), Say(body=b"uid\na\n")]
    assert scouter("export", "records", "-o", "r.jsonl", "--since", "5").returncode == 0
    assert (tmp_path / "r.jsonl").read_bytes() == LINES
    assert scouter("export", "task_results", "--format", "csv").stdout == "uid\na\n"
    assert [request.path for request in script.asked] == [
        "/api/v1/export/records?format=jsonl&since=5&part_bytes=4194304",
        "/api/v1/export/task_results?format=csv&part_bytes=4194304",
    ]


def test_a_file_is_there_only_when_it_is_complete(
    script: Script, scouter: Scouter, tmp_path: Path
) -> None:
    before = sorted(tmp_path.iterdir())
    script.answers = [Say(body=LINES, is_cut_off=True)] * 4
    done = scouter("export", "records", "-o", "r.jsonl")
    assert (done.returncode, "cut off" in done.stderr) == (2, True)
    assert "--output r.jsonl is not written: run it again" in done.stderr
    assert sorted(tmp_path.iterdir()) == before


def test_an_export_that_is_killed_leaves_no_file_that_looks_whole(
    script: Script, tmp_path: Path
) -> None:
    """The file that is left says in its name that it is not complete."""
    script.answers = [
        Say(body=LINES, headers={"Scouter-Next-Cursor": "c"}), Say(body=LINES, delay_s=60),
    ]  # fmt: skip
    words = ["-m", "scouter.cli.app", "export", "records", "-o", str(tmp_path / "r.jsonl")]
    process = subprocess.Popen([sys.executable, *words])
    try:
        wait_until(lambda: len(script.asked) == 2, what="the second part is requested")
    finally:
        process.kill()
        process.wait()
    assert [each.name for each in tmp_path.iterdir()] == [f"r.jsonl.{process.pid}.partial"]


def test_parquet_of_long_lines_has_small_row_groups(
    script: Script, scouter: Scouter, tmp_path: Path
) -> None:
    """Of lines of 3 MB three at a time are in memory."""
    rows = [{"n": n, "text": "x" * 3_000_000} for n in range(7)]
    script.answers = [Say(body="".join(f"{json.dumps(row)}\n" for row in rows).encode())]
    done = scouter("export", "records", "--format", "parquet", "-o", "r.parquet")
    assert done.returncode == 0, done.stderr
    pq: Any = import_module("pyarrow.parquet")  # its types are not complete
    file = pq.ParquetFile(tmp_path / "r.parquet")
    sizes = [file.metadata.row_group(at).num_rows for at in range(file.metadata.num_row_groups)]
    assert (sizes, file.read().to_pylist()) == ([3, 3, 1], rows)


def test_parquet_keeps_types_and_writes_the_rest_as_json(
    script: Script, scouter: Scouter, tmp_path: Path
) -> None:
    script.answers = [Say(body=LINES)]
    done = scouter("export", "evaluations", "--format", "parquet", "-o", "e.parquet")
    assert done.returncode == 0, done.stderr
    pq: Any = import_module("pyarrow.parquet")  # its types are not complete
    table = pq.read_table(tmp_path / "e.parquet")
    assert {field.name: str(field.type) for field in table.schema} == {
        "uid": "string", "n": "int64", "x": "double", "mixed": "string", "nested": "string",
        "none": "string", "yes": "bool", "late": "string",
    }  # fmt: skip
    assert table.to_pydict() == {
        "uid": ["a", "é", None], "n": [1, 2, None], "x": [1.0, 1.5, 2.0],
        "mixed": ["1", '"t"', None], "nested": ['{"k":[1]}', "[]", None],
        "none": [None] * 3, "yes": [True, None, None], "late": [None, None, "l"],
    }  # fmt: skip


def test_profiles_are_pushed_and_activated(
    script: Script, scouter: Scouter, tmp_path: Path
) -> None:
    """All files are read before the first is sent."""
    (tmp_path / "p.yaml").write_text(
        "alias: a\ntasks:\n- {task_type: Assertion, id: t, context_path: x, operator: IsString}\n",
        encoding="utf-8",
    )
    assert scouter("profile", "push", "p.yaml", "missing.yaml").returncode == 2
    assert script.asked == []
    script.answers = [Say(201, {**PROFILE, "is_active": True})]
    done = scouter("profile", "push", "p.yaml", "--activate")
    assert done.stdout == f"{'f' * 32}: alias 'a', digest dddddddddddd, active\n"
    (request,) = script.asked
    assert (request.path, request.body["alias"], len(request.body["tasks"])) == (
        "/api/v1/profiles?activate=true",
        "a",
        1,
    )


def test_an_alert_that_watches_nothing_is_reported(script: Script, scouter: Scouter) -> None:
    alert: dict[str, Any] = {"alert": "pass rate below 80.0%"}
    rows = [{**PROFILE, **alert}, {**PROFILE, **alert, "is_active": True}, PROFILE]
    script.answers = [Say(body={"items": rows, "next_cursor": None}), Say(body=rows[0])]
    _, *lines = scouter("profile", "list").stdout.splitlines()
    said = [line.split("yes")[-1] for line in lines]
    assert "watches nothing, not active (pass rate below 80.0%)" in said[0]
    assert "pass rate below 80.0%" in said[1]
    assert ["nothing" in line for line in said] == [True, False, False]
    done = scouter("profile", "deactivate", "f" * 32)
    assert done.stdout.endswith("not active: its alert watches nothing\n")


LETTER = whole(DeadLetter, **{
    "letter_id": "l1", "kind": "span", "reason": "invalid_span", "message": "no id",
    "source": "http", "uid": "", "received_at": "2026-01-02T03:04:05Z", "size_bytes": 9,
    "was_accepted": False, "payload": "{}",
})  # fmt: skip


def test_lists_for_programs(script: Script, scouter: Scouter) -> None:
    script.answers = [
        Say(body={"items": [PROFILE], "next_cursor": None}),
        Say(body={"items": [LETTER], "next_cursor": None}),
    ]
    assert json.loads(scouter("profile", "list", "--json").stdout)["uid"] == "f" * 32
    assert json.loads(scouter("letters", "list", "--json").stdout)["letter_id"] == "l1"


@pytest.mark.parametrize(
    ("command", "known", "said"),
    [
        (("profile", "list", "--alias", "deks"), {**PROFILE, "alias": "desk"}, "'desk'"),
        (("letters", "list", "--reason", "invalid_spn"), LETTER, "'invalid_span'"),
        (("letters", "replay", "--reason", "invalid_spn"), LETTER, "'invalid_span'"),
    ],
)
def test_a_misspelt_filter_is_no_empty_list(
    script: Script, scouter: Scouter, command: tuple[str, ...], known: Any, said: str
) -> None:
    none = whole(ReplayedLetters)
    script.answers = [Say(body=none), Say(body={"items": [known], "next_cursor": None})]
    done = scouter(*command)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"did you mean {said}?" in done.stderr


NOW = datetime.datetime(2026, 1, 8, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("typed", "sent"),
    [
        ("90s", "2026-01-07T23:58:30+00:00"),
        ("30m", "2026-01-07T23:30:00+00:00"),
        ("24h", "2026-01-07T00:00:00+00:00"),
        ("1d", "2026-01-07T00:00:00+00:00"),
        ("1w", "2026-01-01T00:00:00+00:00"),
        ("1767225600000000000", "1767225600000000000"),
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("1767225600", "1767225600"),
        ("1767225600.25", "1767225600.25"),
        (None, None),
    ],
)
def test_times(typed: str | None, sent: str | None) -> None:
    assert moment(typed, "--since", NOW) == sent


@pytest.mark.parametrize("typed", ["yesterday", "1y", "7x", "-5"])
def test_what_is_no_time_names_both_forms(typed: str) -> None:
    with pytest.raises(
        ConfigError, match=r"^--since: .* is no time; expected RFC 3339, .* or an age, .* 24h"
    ):
        moment(typed, "--since", NOW)


def test_a_time_before_all_times() -> None:
    with pytest.raises(ConfigError, match="--since: 999999999w is longer ago"):
        moment("999999999w", "--since", NOW)
