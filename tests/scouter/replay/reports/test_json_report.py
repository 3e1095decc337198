"""The JSON report: everything, with its version."""

import json
from pathlib import Path

from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.compare.gate_checks import check_gates
from scouter.evaluate.compare.gates import Gates
from scouter.replay.reports import json_report
from scouter.replay.reports.report import Report
from tests.support.replay_results import record, results, scenario


def test_it_holds_decision_gates_rates_comparison_and_results(tmp_path: Path) -> None:
    before = results([scenario("paris", {"right": True})])
    after = results(
        [scenario("paris", {"right": False})], {"answers": [("paris", record("r", {"t": True}))]}
    )
    gates = check_gates(after, Gates(min_pass_rate=0.9))
    json_report.write(tmp_path / "r.json", Report(after, after.compare_to(before), gates))
    body = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))

    assert (body["schema_version"], body["decision"], body["exit_code"]) == (2, "below a gate", 1)
    assert body["comparison"]["decision"] == "inconclusive"
    assert (body["scenarios_passed"]["passed"], body["scenarios_passed"]["total"]) == (0, 1)
    assert body["provenance"]["git_revision"].startswith("0123456789")
    (gate,) = body["gates"]
    assert (gate["met"], gate["passed"], gate["total"]) == (False, 1, 2)
    assert body["scenarios"] == [
        {
            "scenario_id": "paris", "outcome": "failed", "change": "regressed", "attempts": 1,
            "passed": 0, "is_flaky": False,
        }
    ]  # fmt: skip
    rates = {(t["alias"], t["task_id"]): t["now"] for t in body["tasks"]}
    assert (rates[None, "right"]["passed"], rates[None, "right"]["total"]) == (0, 1)
    assert body["comparison"]["regressed"] is True
    assert ScenarioEvalResults.model_validate(body["results"]) == after


def test_half_characters_do_not_stop_it(tmp_path: Path) -> None:
    run = results([scenario("a\ud800", {"t": False}, answer="\udfff")])
    json_report.write(tmp_path / "r.json", Report(run))
    body = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    assert body["scenarios"][0]["scenario_id"] == "a\ufffd"


def test_flips_say_whose_they_are(tmp_path: Path) -> None:
    run = results([scenario("rome", {"t": at != 1}, attempt=at) for at in range(3)], repeats=3)
    json_report.write(tmp_path / "r.json", Report(run))
    assert json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["flips"] == [
        {
            "scenario_id": "rome", "alias": None, "task_id": "t", "agent": 1, "judge": 0,
            "user": 0, "unknown": 0, "is_flaky": True, "text": "the agent's",
        }
    ]  # fmt: skip
