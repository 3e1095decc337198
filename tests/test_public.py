"""Public names of each package, compared with a committed list; and the cost of an import."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.bench.imports import quick_start_imports

ROOT = Path(__file__).parents[1]
LIST = ROOT / "tests/cases/public.txt"


def promised() -> dict[str, list[str]]:
    """The committed list: a package in brackets, then its names, one a line."""
    packages: dict[str, list[str]] = {}
    names: list[str] = []
    for line in LIST.read_text(encoding="utf-8").splitlines():
        word = line.partition("#")[0].strip()
        if word.startswith("["):
            names = packages[word.strip("[]")] = []
        elif word:
            names.append(word)
    return packages


@pytest.mark.parametrize("package", promised())
def test_names_are_those_of_the_list(package: str) -> None:
    """Adding or removing a public name is a decision, so it shows up here."""
    module = import_module(package)
    assert sorted(module.__all__) == promised()[package]
    assert isinstance(module.__all__, tuple)


@pytest.mark.parametrize("package", promised())
def test_every_name_is_there(package: str) -> None:
    """Lazy names lead somewhere, and an unknown one says so in Python's words."""
    module = import_module(package)
    for name in module.__all__:
        assert getattr(module, name) is not None
    assert set(module.__all__) <= set(dir(module)) | set(module.__all__)
    with pytest.raises(AttributeError, match=f"{package}.*no_such_name"):
        _ = module.no_such_name


NOT_YET = (
    "asyncio",
    "google.protobuf",
    "scouter.evaluate.engine",
    "scouter.evaluate.results.rows",
    "scouter.model.span",
    "scouter.replay.options",
)
"""Modules that the quick start needs only once it runs."""

HEAVY = ("duckdb", "fastapi", "pandas", "kafka", "httpx", "polars", "pyarrow", "uvicorn")


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        (
            "import scouter",
            (*HEAVY, *NOT_YET, "typing", "opentelemetry", "pydantic", "scouter.lazy"),
        ),
        ("from scouter import AssertionTask, EvalRecord, ScouterQueue", (*HEAVY, *NOT_YET)),
        ("from scouter.evaluate import evaluate_journey", (*HEAVY, "scouter.formats", "rapidfuzz")),
        (
            "import scouter.evaluate",
            (
                *HEAVY,
                "rich",
                "yaml",
                "opentelemetry.sdk",
                "scouter.evaluate.trajectory",
                "scouter.formats",
            ),
        ),
        ("from scouter.evaluate import EvalOrchestrator, EvalScenarios", (*HEAVY, "rich")),
        ("import scouter.tracing, scouter.queue, scouter.transport, scouter.drift", HEAVY),
        ("import scouter.formats.vertex, scouter.formats.adk", (*HEAVY, *NOT_YET)),
        (
            "from scouter.formats.vertex import EvalTask, read_dataset",
            (*HEAVY, "rouge_score", "sacrebleu", "nltk"),
        ),
        ("import scouter.client", (*HEAVY, *NOT_YET)),
        (quick_start_imports(), (*HEAVY, *NOT_YET)),
    ],
)
def test_import_loads_nothing_heavy(statement: str, absent: tuple[str, ...]) -> None:
    """Measured in a fresh interpreter: the heavy packages are not among its modules."""
    code = f"import sys\n{statement}\nprint([n for n in {absent!r} if n in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_name_is_the_one_of_its_room() -> None:
    """Whichever way it is imported; `import scouter` alone gives the rooms, too."""
    code = (
        "import scouter\n"
        "from scouter import AgentEvalProfile, GenAIEvalProfile, SpanKind, init_tracer\n"
        "from scouter import *\n"
        "assert scouter.tracing.init_tracer is init_tracer is scouter.init_tracer\n"
        "assert scouter.drift.AgentEvalProfile == AgentEvalProfile == GenAIEvalProfile\n"
        "assert EvalRecord is scouter.queue.EvalRecord is scouter.evaluate.EvalRecord\n"
        "assert scouter.trace.SpanKind is SpanKind\n"
        "assert set(scouter.__all__) <= set(dir(scouter))\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
