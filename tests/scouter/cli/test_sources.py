"""Every source of cases takes every option, or says why it cannot: the table of docs/eval.md."""

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from scouter.model.otlp_json import spans_to_otlp_json
from tests.scouter.cli.conftest import ROOT, Scouter
from tests.scouter.cli.test_eval_traces import RIGHT, trace
from tests.scouter.formats.nvidia.project import make_project
from tests.support.journeys import GOOD, HR

PAGE: Final = (Path(ROOT) / "docs" / "eval.md").read_text(encoding="utf-8")
BASE: Final = ("--baseline", "base.json")
SOURCES: Final = {
    "SCENARIOS": ("eval", "shop.yaml", "--agent", "others:hours"),
    "--format vertex": ("eval", "rows.json", "--format", "vertex", "--agent", "rows:answer"),
    "… stored": ("eval", "rows.json", "--format", "vertex"),
    "--config": (
        "eval", "--config", "config.yml", "--agent", "vss_agent:answer", "--judge",
        "vss_agent:judge",
    ),
    "… stored ": ("eval", "answered.json", "--config", "config.yml", "--judge", "vss_agent:judge"),
    "--format watsonx": (
        "eval", "hr.json", "--format", "watsonx", "--agent", "hr:answer", "--simulated-user",
        "hr:play",
    ),
    "--recorded": ("eval", "hr.json", "--format", "watsonx", "--recorded", "recorded"),
    "--traces": ("eval", "--traces", "traces.jsonl", "--profile", "watching.yaml"),
}  # fmt: skip
"""The columns of the table, each with its command."""
TASKS: Final = ("right_hours", "trajectory_recall", "trajectory_recall", "qa_evaluator",
                "qa_evaluator", "is_success", "is_success", "answered")  # fmt: skip
USERS: Final = {"--format watsonx": "hr:play"}
AGENTS: Final = {
    "SCENARIOS": "others:hours", "--format vertex": "rows:answer", "--config": "vss_agent:answer",
    "--format watsonx": "hr:answer",
}  # fmt: skip
OTHERS: Final = """
import json
from pathlib import Path

from scouter.tracing import get_tracer


def play(first, last, history):
    return "I am nwaters" if not history else None


def answer(message):
    return "Your time off schedule is on January 5, 2025."


def hours(message):
    return "From 9 to 18 in Berlin, from 10 to 19 in Paris."


def judge(request):
    return {"score": 5, "explanation": "so"}
"""
ROWS: Final[list[dict[str, Any]]] = [
    {
        "prompt": "Turn it off.",
        "predicted_trajectory": [{"tool_name": "off", "tool_input": {}}],
        "reference_trajectory": [{"tool_name": "off", "tool_input": {}}],
    }
]
REASONS: Final = {
    "a": "there once",
    "b": "recorded once",
    "c": "rows have all their turns",
    "d": "result files of another system; it needs --format",
    "e": "names the folder of its results itself",
    "f": "only scenario files have the mark",
}
"""By the letter of a reason in the table, what the command says."""
WATCHING: Final = """\
alias: watching
watch: {}
tasks:
  - {task_type: Assertion, id: answered, context_path: answer, operator: IsNotEmpty,
     expected_value: true}
"""


def options(source: str) -> dict[str, tuple[str, ...]]:
    """The words of each option of the table, behind the command of a source."""
    task = dict(zip(SOURCES, TASKS, strict=True))[source]
    return {
        "--save": ("--save", "out.json"),
        "--baseline": BASE,
        "--regression-threshold": (*BASE, "--regression-threshold", "0.1"),
        "--require-ruled-out": (*BASE, "--require-ruled-out", "99"),
        "--min-score": ("--min-score", f"{task}=0"),
        "--min-pass-rate": ("--min-pass-rate", "0"),
        "--min-scenario-pass-rate": ("--min-scenario-pass-rate", "0"),
        "--allow-errors": ("--allow-errors",),
        "--allow-lost": ("--allow-lost",),
        "--allow-unjudged": ("--allow-unjudged",),
        "--allow-unreviewed": ("--allow-unreviewed",),
        "--html": ("--html", "r.html"),
        "--junit": ("--junit", "r.xml"),
        "--markdown": ("--markdown", "r.md"),
        "--json": ("--json", "r.json"),
        "--push": ("--push", "http://127.0.0.1:9"),
        "--judge": ("--judge", "others:judge"),
        "--judge-cache": ("--judge-cache", "cache.db"),
        "--concurrency": ("--concurrency", "2"),
        "--agent-version": ("--agent-version", "v2"),
        "--repeats": ("--repeats", "2"),
        "--confirm": (*BASE, "--confirm", "1"),
        "--sequential": (*BASE, "--repeats", "2", "--sequential"),
        "--interleave": ("--interleave", AGENTS.get(source, "others:hours")),
        "--plan": (*BASE, "--plan"),
        "--resume": ("--resume", "journal.jsonl"),
        "--retries": ("--retries", "1"),
        "--timeout": ("--timeout", "60"),
        "--profile": ("--profile", "answers.yaml"),
        "--simulated-user": ("--simulated-user", USERS.get(source, "shop:judge")),
        "--output": ("--output", "results"),
    }


def table() -> dict[str, dict[str, str]]:
    """By source the cell of each option."""
    start = PAGE.index("| option | `SCENARIOS`")
    lines = PAGE[start : PAGE.index("\n\n", start)].splitlines()
    heads, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    assert len(heads) == 1 + len(SOURCES)
    found: dict[str, dict[str, str]] = {source: {} for source in SOURCES}
    for names, *cells in rows:
        for option in re.findall(r"`(--[\w-]+)`", names):
            for source, cell in zip(SOURCES, cells, strict=True):
                found[source][option] = cell
    return found


@pytest.fixture
def sources(project: Path) -> Path:
    """A folder with the files of all sources."""
    make_project(project)
    for name in ("hr", "rows", "others"):
        (project / f"{name}.py").write_text(OTHERS, encoding="utf-8")
    agent = OTHERS.replace(
        'return "Your time off schedule is on January 5, 2025."',
        'return {"response": "off", "predicted_trajectory": [{"tool_name": "off", '
        '"tool_input": {}}]}',
    )
    (project / "rows.py").write_text(agent, encoding="utf-8")
    (project / "rows.json").write_text(json.dumps(ROWS), encoding="utf-8")
    (project / "hr.json").write_text(json.dumps(HR), encoding="utf-8")
    (project / "recorded").mkdir()
    (project / "recorded" / "hr.messages.json").write_text(json.dumps(GOOD), encoding="utf-8")
    (project / "watching.yaml").write_text(WATCHING, encoding="utf-8")
    spans = json.dumps(spans_to_otlp_json(trace(RIGHT, "Capital of Australia?", "Canberra")))
    (project / "traces.jsonl").write_text(f"{spans}\n", encoding="utf-8")
    answered = [{"id": "2", "query": "What?", "ground_truth": "a street",
                 "evaluation_method": ["qa"], "generated_answer": "a street"}]  # fmt: skip
    (project / "answered.json").write_text(json.dumps(answered), encoding="utf-8")
    return project


@pytest.mark.parametrize("source", SOURCES)
def test_the_table_of_options_is_right(source: str, sources: Path, scouter: Scouter) -> None:
    """An option that works ends with a decision, any other with 2 and the reason."""
    start, cells = SOURCES[source], table()[source]
    options_of_source = options(source)
    assert cells.keys() == options_of_source.keys()
    saved = scouter(*start, "--save", "base.json")
    assert saved.returncode in {0, 1}, saved.stderr
    assert (sources / "base.json").exists()
    for option, words in options_of_source.items():
        done, cell = scouter(*start, *words), cells[option]
        if cell == "works":
            assert done.returncode in {0, 1, 3}, f"{option}: {done.stderr}"
            continue
        (letter,) = re.fullmatch(r"no \(([a-f])\)", cell).groups()  # type: ignore[union-attr]
        assert done.returncode == 2, f"{option}: {done.stdout}"
        assert REASONS[letter] in done.stderr, f"{option}: {done.stderr}"
        assert f"- ({letter}) " in PAGE
