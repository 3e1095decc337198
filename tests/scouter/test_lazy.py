"""Packages give their names when they are requested, and load nothing before."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.test_public import promised

ROOT = Path(__file__).parents[2]
LAZY = [name for name in promised() if "__getattr__" in vars(import_module(name))]


def fresh(code: str) -> str:
    """The output of a program that starts anew."""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_packages_are_lazy() -> None:
    assert {"scouter", "scouter.evaluate", "scouter.tracing", "scouter.transport"} <= set(LAZY)


@pytest.mark.parametrize("package", LAZY)
def test_the_imports_for_type_checkers_are_the_public_names(package: str) -> None:
    module = import_module(package)
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    names = {
        alias.asname or alias.name
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert names == set(module.__all__) - set(vars(module).get("_ROOMS", ()))
    assert set(module.__all__) <= set(dir(module))


def test_a_name_loads_its_module_and_stays() -> None:
    assert fresh(
        "import sys, scouter.evaluate as package\n"
        "before = 'scouter.evaluate.outcome' in sys.modules, 'Outcome' in vars(package)\n"
        "from scouter.evaluate import Outcome\n"
        "from scouter.evaluate.outcome import Outcome as real\n"
        "print(before, Outcome is real, vars(package)['Outcome'] is real)"
    ) == "(False, False) True True"  # fmt: skip


def test_a_renamed_name_is_the_one_that_was_defined() -> None:
    from scouter.tracing import Tracer
    from scouter.tracing.tracer import ScouterTracer

    assert Tracer is ScouterTracer


def test_a_model_is_the_model_itself() -> None:
    assert fresh(
        "from scouter.evaluate import AssertionTask\n"
        "from pydantic import BaseModel\n"
        "print(issubclass(AssertionTask, BaseModel), type(AssertionTask).__name__)"
    ) == "True ModelMetaclass"  # fmt: skip


def test_many_threads_get_one_model() -> None:
    assert fresh(
        "import threading, scouter.evaluate as package\n"
        "start, found = threading.Barrier(8), []\n"
        "def use():\n"
        "    start.wait()\n"
        "    found.append((package.AssertionTask, package.EvalScenario))\n"
        "threads = [threading.Thread(target=use) for _ in range(8)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
        "print(len(found), len(set(found)))"
    ) == "8 1"  # fmt: skip


@pytest.mark.parametrize("package", LAZY)
def test_an_unknown_name_is_reported_in_pythons_words(package: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'no_such'"):
        _ = import_module(package).no_such
