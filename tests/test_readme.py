"""The README's example runs, and what it says about commands is true."""

import contextlib
import io
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_example_runs_and_passes() -> None:
    """Both tasks of the one record pass, and the table reaches standard output."""
    code = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len(code) == 1
    names: dict[str, Any] = {}
    out = io.StringIO()

    with contextlib.redirect_stdout(out):
        exec(compile(code[0], "README.md", "exec"), names)  # noqa: S102 our own example

    results = names["results"]
    record = next(iter(results.dataset_results["geographer"]))
    assert [(task.task_id, task.outcome) for task in record.eval_set.records] == [
        ("paris", "passed"),
        ("looked_up", "passed"),
    ]
    assert results.metrics.overall_pass_rate == 1.0
    assert "geographer" in out.getvalue()


def test_linked_files_exist() -> None:
    """Every relative link leads somewhere."""
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_named_make_targets_exist() -> None:
    """The two commands are targets of the Makefile."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^    make (\w+)", README, flags=re.MULTILINE):
        assert f"\n{target}:" in makefile, target
