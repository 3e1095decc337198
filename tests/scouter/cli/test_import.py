"""`scouter import`: from an export to judged traces, to a collector, and what it says."""

import json
import re
from pathlib import Path
from typing import Any

import yaml

from scouter.client.client import ScouterClient
from tests.collector.conftest import Service
from tests.scouter.cli.conftest import Scouter
from tests.support.served import serve

CASES = Path(__file__).parents[1] / "formats" / "exports" / "cases.yaml"
PAGE = Path(__file__).parents[3] / "docs" / "import.md"


def export(folder: Path, number: int = 0) -> Path:
    """The first file of a case."""
    cases: list[dict[str, Any]] = yaml.safe_load(CASES.read_text("utf-8"))
    path = folder / "export.json"
    path.write_text(json.dumps(next(iter(cases[number]["files"].values()))), "utf-8")
    return path


def test_from_an_export_to_a_decision(tmp_path: Path, scouter: Scouter) -> None:
    """The ready-made profile fails the trace, as its tool failed; a name of one's own counts."""
    out = tmp_path / "traces.otlp.jsonl"
    done = scouter("import", export(tmp_path), "--out", out, "--service", "desk")
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 traces of Langfuse: 4 spans, 3 scores" in done.stdout
    [line] = out.read_text("utf-8").splitlines()
    named = {"key": "service.name", "value": {"stringValue": "desk"}}
    groups = json.loads(line)["resourceSpans"]
    assert [named in group["resource"]["attributes"] for group in groups] == [True, True]
    done = scouter("eval", "--traces", out, "--profile", "agent_health", "-v")
    assert "tools_recovered" in done.stdout
    assert "0 of 1 scenarios passed" in done.stdout


def test_the_page(project: Path, scouter: Scouter) -> None:
    """Its commands, on the tables of Langfuse's blob storage; one score has no trace."""
    cases = yaml.safe_load(CASES.read_text("utf-8"))
    [case] = [each for each in cases if "tables" in each["case"]]
    for name, rows in case["files"].items():
        (project / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    commands = re.findall(r"^\$ scouter (.*)$", PAGE.read_text("utf-8"), re.MULTILINE)
    found = [scouter(*line.split()) for line in commands[:2]]
    assert [done.returncode for done in found] == [1, 0]
    assert "1 traces of Langfuse: 2 spans, 2 scores; 1 parts could not be read" in found[0].stdout


def test_to_a_collector(tmp_path: Path, scouter: Scouter) -> None:
    """Trace and scores are there; what was written as OTLP is the same, and not stored twice."""
    service = Service(tmp_path / "there")
    out = tmp_path / "out.jsonl"
    with serve(service.collector.app) as url:
        for file, more in ((export(tmp_path), ("--out", out)), (out, ())):
            done = scouter("import", file, "--to", url, *more)
            assert done.returncode == 0, done.stderr
        assert "1 traces of OTLP: 4 spans, 3 scores" in done.stdout
        with ScouterClient(url) as client:
            trace = client.trace("0123456789abcdef0123456789abcdef")
        assert len(trace.spans) == 4
        assert [(each.name, each.score) for each in trace.foreign_results] == [
            ("helpfulness", 0.8), ("tone", None), ("tone", None),
        ]  # fmt: skip
    service.stop()


def test_what_cannot_be_read_is_said(tmp_path: Path, scouter: Scouter) -> None:
    """1 where a part is lost, 2 where nothing is left, and no file then."""
    good, out = export(tmp_path), tmp_path / "out.jsonl"
    bad = tmp_path / "bad.json"
    bad.write_text('[{"x": 1}]', "utf-8")
    done = scouter("import", good, bad)
    assert done.returncode == 1
    assert "1 parts could not be read" in done.stdout
    assert "bad.json: no known export; its keys: x; expected LangSmith runs" in done.stderr
    good.write_text(f"[{good.read_text('utf-8').strip()[1:-1]},\n{{]", "utf-8")
    done = scouter("import", good)
    assert (done.returncode, "1 traces of Langfuse: 4 spans" in done.stdout) == (1, True)
    assert "export.json, line 2: not JSON: Expecting" in done.stderr
    assert "not read: the object that begins on line 2, column 1" in done.stderr
    done = scouter("import", bad, tmp_path / "none", "--out", out)
    assert (done.returncode, out.exists()) == (2, False)
    assert "no known export" in done.stderr
    assert "cannot read the file: No such file" in done.stderr
    assert scouter("import", good, "--to", "nowhere").returncode == 2
