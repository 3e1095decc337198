"""The same examples in each run, whatever a worker has imported."""

import subprocess
import sys
from pathlib import Path
from typing import Final

WORDS: Final = ", ".join(f'"word {number:04}"' for number in range(500))
PROGRAM: Final = """
import sys
from hypothesis import given, settings, strategies as st
from tests.support.same_examples import register

name, *modules = sys.argv[1:]
register()
for each in modules:
    __import__(each)

@settings(max_examples=250, derandomize=True, database=None, backend=name)
@given(st.one_of(st.text(), st.integers(), st.floats()))
def show(value):
    print(ascii(value))

show()
"""


def examples(folder: Path, *arguments: str) -> str:
    path = {"PYTHONPATH": f"{Path.cwd()}:{folder}"}
    command = [sys.executable, "-c", PROGRAM, *arguments]
    return subprocess.run(command, env=path, check=True, capture_output=True, text=True).stdout


def test_examples_do_not_depend_on_imports(tmp_path: Path) -> None:
    (tmp_path / "many_words.py").write_text(f"WORDS = [{WORDS}]\n")
    assert examples(tmp_path, "same") == examples(tmp_path, "same", "many_words")
    # Else nothing was shown: the generator of Hypothesis takes some of these words.
    assert "word 0" not in examples(tmp_path, "same", "many_words")
    assert "word 0" in examples(tmp_path, "hypothesis", "many_words")
