"""`scouter drift …` on a store whose results are known: by the API, and from the data folder."""

import json
import random
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner, Result

from scouter.alert.config import AgentAlertConfig, AlertCondition, AlertThreshold
from scouter.cli.app import make_app
from scouter.drift.config import AgentEvalConfig
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.model.span import AttributeValue
from tests.collector.conftest import Service, Start
from tests.contracts.store_data import evaluation, span
from tests.contracts.store_data import profile as profile_row
from tests.support.served import serve
from tests.support.store_appends import AppendingStore

START_S: Final = 1_790_000_000
HOUR_S: Final = 3_600
UNTIL: Final = "2026-12-31T00:00:00Z"
HEALTHY: Final = 1_400
FALLEN: Final = 200


def scouter(*words: object) -> Result:
    return CliRunner().invoke(
        make_app(), [str(word) for word in words], env={"COLUMNS": "300", "SCOUTER_URL": ""}
    )


def bits(rate: float, count: int) -> list[bool]:
    found = [True] * round(rate * count) + [False] * (count - round(rate * count))
    random.Random(36).shuffle(found)
    return found


def fill(folder: Path, passes: Sequence[bool]) -> AgentEvalProfile:
    """A result each minute; each second one after the fall used the tool `search`."""
    condition = AlertCondition(0.8, AlertThreshold.Below, 0.0)
    task = AssertionTask("t1", "answer", 42, ComparisonOperator.Equals)
    made = AgentEvalProfile(
        [task],
        AgentEvalConfig(name="answers", alert_config=AgentAlertConfig(alert_condition=condition)),
        alias="answers",
    )
    folder.mkdir(parents=True, exist_ok=True)
    store = AppendingStore(folder)
    store.append_profile(
        profile_row(
            made.uid,
            is_active=True,
            digest=made.digest,
            name=made.name,
            body=made.model_dump_json(),
        )
    )
    rows = [
        evaluation(
            f"u{at}",
            Outcome.PASSED if passed else Outcome.FAILED,
            session_id="",
            trace_id=f"{at + 1:032x}",
            profile_uid=made.uid,
            profile_digest=made.digest,
            service_name="bot",
            service_version="1",
            evaluated_ns=(START_S + 60 * at) * 10**9,
            tags={"half": "a" if passed or at < HEALTHY else "b"},
        )
        for at, passed in enumerate(passes)
    ]
    store.append_evaluations(rows).result()
    store.append_spans(
        "default",
        [
            span(
                number,
                trace_id=f"{at + 1:032x}",
                start_ns=(START_S + 60 * at) * 10**9,
                end_ns=(START_S + 60 * at + 1) * 10**9,
                attributes=attributes,
            )
            for at in range(len(passes))
            for number, attributes in enumerate(calls_of(at), start=1)
        ],
        START_S * 10**9,
    ).result()
    store.close()
    return made


def calls_of(at: int) -> tuple[dict[str, AttributeValue], dict[str, AttributeValue]]:
    """A tool's call and a model's; every second one changes with the fall, of both."""
    is_changed = at >= HEALTHY and at % 2 == 1
    reason = "max_tokens" if is_changed else ("stop", "end_turn")[at % 2]
    return (
        {"gen_ai.operation.name": "execute_tool",
         "gen_ai.tool.name": "search" if is_changed else "book"},
        {"gen_ai.operation.name": "chat", "gen_ai.response.model": "m",
         "gen_ai.response.finish_reasons": (reason,)},
    )  # fmt: skip


@pytest.fixture(scope="module")
def fallen_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder: 90 % pass for 1,400 minutes, then 40 % for 200."""
    folder = tmp_path_factory.mktemp("fallen") / "data"
    fill(folder, bits(0.9, HEALTHY) + bits(0.4, FALLEN))
    return folder


@pytest.fixture
def fallen(fallen_once: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(fallen_once, tmp_path / "data"))


def series_of(done: Result) -> dict[tuple[str, str], Any]:
    found = json.loads(done.stdout)["series"]
    return {(each["task"], each["kind"]): each for each in found if not each["slice"]}


def test_a_folder_and_its_collector_say_the_same(fallen: Path, start: Start) -> None:
    options = ("drift", "backtest", "--until", UNTIL, "--seeds", 3, "--json")
    offline = scouter(*options, "--data", fallen)
    stored = scouter("drift", "report", "--until", UNTIL, "--json", "--data", fallen)
    assert offline.exit_code == 1, offline.output
    service: Service = start()
    with serve(service.collector.app) as url:
        online = scouter(*options, "--url", url)
        unknown = scouter(*options, "--url", url, "--profile", "nobody")
        refused = scouter(*options, "--data", fallen)
        report = scouter("drift", "report", "--until", UNTIL, "--json", "--url", url)
    assert json.loads(offline.stdout) == json.loads(online.stdout)
    assert json.loads(stored.stdout) == json.loads(report.stdout)
    assert (online.exit_code, unknown.exit_code) == (1, 1)
    assert "nobody" in str(unknown.exception)
    assert "a collector has it open" in str(refused.exception) or refused.exit_code == 1

    (seen,) = json.loads(offline.stdout)["alerts"]  # task and record fell together
    assert (seen["task"], [each["task"] for each in seen["together"]]) == ("t1", ["", "t1"])
    found = series_of(offline)
    assert found.keys() == {("", "pass"), ("", "error"), ("t1", "pass"), ("t1", "error")}
    each = found["t1", "pass"]
    assert (each["units"], each["failed"]) == (1_600, 140 + 120)
    (alarm,) = each["fired"]
    assert alarm["since"].startswith("2026-09-22T")  # 1,400 minutes after 2026-09-21T14:13:20Z
    assert each["healthy_units"] == HEALTHY + FALLEN  # nobody said until when it was healthy
    assert found["t1", "error"]["fired"] == []
    # The record has the level of the alert's condition, too.
    assert "the stated level of 80.0%" in found["", "pass"]["against"]
    assert "the stated level" not in each["against"]
    assert [fall["points"] for fall in each["falls"]] == [5, 10, 20]
    assert all(fall["draws"] <= 3 for fall in each["falls"])


def test_a_healthy_history_ends_with_0(tmp_path: Path) -> None:
    fill(tmp_path / "data", bits(0.9, HEALTHY))
    given = ("drift", "backtest", "--data", tmp_path / "data", "--seeds", 3)
    done = scouter(*given, "--fall", 30, "--fall", 20, "--healthy-until", UNTIL)
    assert done.exit_code == 0, done.output
    head, *lines = (re.split(r"  +", line.strip()) for line in done.stdout.splitlines())
    assert head == [
        "series", "units", "rate", "would have fired", "false alarms", "fall of 20", "fall of 30",
    ]  # fmt: skip
    (line,) = [each for each in lines if each[0].endswith("version 1, t1") and len(each) > 1]
    assert line[1:5] == ["1,400", "90.0%", "never", "0 in history, 0 of 3 draws"]
    assert re.fullmatch(r"\d+ units \(\d+ to \d+\), \d+\.\d h, seen 3 of 3", line[6])
    assert "people would have seen" not in done.stdout
    assert f"{line[0]}: compared with its own first records, healthy or not (" in done.stdout


def test_a_report_has_pictures_and_needs_no_script(fallen: Path, tmp_path: Path) -> None:
    page = tmp_path / "drift.html"
    done = scouter(
        "drift", "report", "--data", fallen, "--until", UNTIL, "--output", page, "--json"
    )
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    first = found["series"][0]
    assert len(first["fired"]) == 1  # those that fired come first
    assert [len(each["fired"]) for each in found["series"]] == [1, 1, 0, 0]
    assert sum(bucket["units"] for bucket in first["buckets"]) == HEALTHY + FALLEN
    assert len(first["fired"][0]["examples_before"]) == 3
    # Half of the records since call `search`, which none did before; both tools fell alike.
    assert first["cause"].startswith("Records passed fell by ")
    assert first["explained_by"] == []
    assert max(bucket["log_evidence"] for bucket in first["buckets"]) > found["line"]
    # A hundred of the 200 calls after the fall are of `search`, and about none before.
    tools = {each["name"]: each for each in found["mixes"]["tool"]["shares"]}
    assert tools["search"]["since"] == pytest.approx(0.5, abs=0.02)
    assert tools["search"]["before"] < 0.02
    assert found["mixes"]["agent"] is None
    assert found["mixes"]["model"]["psi"] == 0
    # Finish reasons moved as the tools did, whose distances `test_mix` holds against scipy.
    reasons = found["mixes"]["finish_reason"]
    renamed = {"stop": "book", "length": "search"}
    shares = [{**each, "name": renamed[each["name"]]} for each in reasons["shares"]]
    assert sorted(shares, key=str) == sorted(found["mixes"]["tool"]["shares"], key=str)
    for distance in ("psi", "jensen_shannon", "chance"):
        assert reasons[distance] == pytest.approx(found["mixes"]["tool"][distance])
    # A trace has one call, so the routes are the tools; so far apart by lot is next to impossible.
    assert found["mixes"]["route"] == found["mixes"]["tool"]
    assert found["mixes"]["route"]["chance"] < 1e-9
    text = page.read_text(encoding="utf-8")
    assert text.count("<svg") == 2 * 4
    assert "<script" not in text
    assert "2 of 4 series would have fired" in text
    assert "<h3>finish reason</h3>" in text
    empty = scouter("drift", "report", "--data", fallen, "--until", START_S, "--output", page)
    assert empty.exit_code == 0
    assert "No final result of that time is stored" in page.read_text(encoding="utf-8")


def test_a_report_on_the_terminal_names_alarms_and_what_explains_them(fallen: Path) -> None:
    """The same figures as in the file for programs."""
    options = ("drift", "report", "--data", fallen, "--until", UNTIL)
    done = scouter(*options)
    assert done.exit_code == 0, done.output
    first = json.loads(scouter(*options, "--json").stdout)["series"][0]
    heads, line, *_ = done.stdout.splitlines()
    assert heads.split()[:3] == ["series", "units", "rate"]
    (fired,) = first["fired"]
    assert fired["opened_at"] in line
    assert f"{HEALTHY + FALLEN:,}" in line
    assert (
        f"{fired['failed']:,} of {fired['records']:,} were bad since {fired['since']}"
        in done.stdout
    )
    assert first["cause"] in done.stdout
    assert done.stdout.count(" never") == 2
    empty = scouter("drift", "report", "--data", fallen, "--until", START_S)
    assert "no final result of that time is stored" in empty.stdout


def test_too_little_history_is_no_evidence(tmp_path: Path) -> None:
    fill(tmp_path / "data", bits(0.9, 500))
    options = ("drift", "backtest", "--data", tmp_path / "data")
    early = scouter(*options, "--until", f"{START_S}")
    assert (early.exit_code, early.stdout.splitlines()[-1]) == (
        3, "no final result of that time is stored",
    )  # fmt: skip
    done = scouter(*options, "--json")
    # The whole record is compared with its stated level from the first result on.
    assert done.exit_code == 0
    assert "nothing yet: 500" in series_of(done)["t1", "pass"]["against"]


def test_one_result_is_drawn(tmp_path: Path) -> None:
    """Its only bucket is a nanosecond wide, which seconds since 1970 cannot tell from none."""
    fill(tmp_path / "data", [True])
    page = tmp_path / "drift.html"
    done = scouter("drift", "report", "--data", tmp_path / "data", "--output", page)
    assert done.exit_code == 0, done.output
    assert "<svg" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--fall", "100"), "--fall: expected points above 0 and below 100"),
        (("--since", "2026-01-01"), "expected RFC 3339 with its zone"),
        (("--url", "http://127.0.0.1:1"), "--data and --url: give one of them"),
        (("--data", "/nowhere"), "no store in /nowhere"),
    ],
)
def test_wrong_input_is_reported(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    done = scouter("drift", "backtest", "--data", tmp_path, *words)
    assert done.exit_code
    assert said in str(done.exception)


def test_a_past_time_is_what_is_healthy(start: Start, tmp_path: Path) -> None:
    """The first 1,400 results, 1,260 of them passed; each is a conversation by itself."""
    made = fill(tmp_path / "data", bits(0.9, HEALTHY) + bits(0.4, FALLEN))
    service = start()
    file, out = made.save_to_json(tmp_path / "p.json"), tmp_path / "out.json"
    options = ("profile", "healthy", file, "--since", START_S - 60, "--save", out)
    with serve(service.collector.app) as url:
        until = START_S + 60 * HEALTHY
        done = scouter(*options, "--url", url, "--until", until, "--version", "1")
        none = scouter(*options, "--url", url, "--version", "2")
    both = scouter(*options, file, "--url", "http://127.0.0.1:1")
    assert done.exit_code == 0, done.output
    healthy = AgentEvalProfile.from_file(out).config.healthy
    assert healthy is not None
    assert healthy.run is not None
    assert healthy.run.tasks == {name: {0: 140, 1000: 1260} for name in ("", "t1")}
    assert healthy.run.margin == 0
    assert "no results of version '2'" in str(none.exception)
    assert "either RESULTS or --since" in str(both.exception)
