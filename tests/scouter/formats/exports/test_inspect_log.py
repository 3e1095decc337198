"""A log that Inspect 0.3.285 wrote: three samples, a tool that asks a model, a scorer that does.

It was run against Inspect's mock model, and packed by zstd, as all its logs are.
"""

import shutil
import zipfile
from pathlib import Path

import pytest

from scouter.errors import FileFormatError
from scouter.formats.exports.inspect_runs import runs_of
from scouter.formats.exports.read import read_exports
from tests.scouter.formats.exports.test_cases import seen

LOG = Path(__file__).with_name("orders.eval")


def test_a_real_log() -> None:
    """The answers are scripted: the first sample's alone is right."""
    faults: list[FileFormatError] = []
    found = [seen(name, spans) for name, spans in read_exports([LOG], faults.append)]
    assert not faults
    assert [each["question"] for each in found] == [f"Where is order {at}?" for at in range(3)]
    assert [each["answer"] for each in found] == ["Sent on Monday", "No idea", "No idea"]
    for at, each in enumerate(found):
        [[name, arguments, result, error]] = each["calls"]
        assert (name, arguments, error) == ("find_order", {"order": at}, "")
        assert result == "sent on Monday " + "x" * 200  # was an attachment
        assert {tuple(score[:3]) for score in each["scores"]} == {
            ("includes", float(at == 0), "C" if at == 0 else "I"),
            ("length", 0.14 if at == 0 else 0.07, ""),
            ("model_graded_fact", 1.0, "C"),
        }
    spans = found[1]["spans"]  # what the tool requested is inside of it
    assert spans[spans.index("execute_tool find_order") :][:3] == [
        "execute_tool find_order", "find_order", "chat mockllm/model",
    ]  # fmt: skip


def test_it_is_its_own_baseline() -> None:
    before, after = runs_of(LOG, LOG)
    comparison = after.compare_to(before)
    assert (comparison.exit_code, comparison.decision) == (0, "no regression seen")
    assert {task.task_id for each in after.scenario_results for task in each.task_results} == {
        "includes", "length", "model_graded_fact",
    }  # fmt: skip


@pytest.mark.parametrize("size", [200, 9_000])
def test_a_cut_log(size: int, tmp_path: Path) -> None:
    """A log that was cut while it was copied is named, and nothing else."""
    path = tmp_path / "cut.eval"
    path.write_bytes(LOG.read_bytes()[:size])
    faults: list[FileFormatError] = []
    assert not [*read_exports([path], faults.append)]
    assert "cut.eval" in str(faults[0])


def test_a_broken_sample(tmp_path: Path) -> None:
    """One sample that is no JSON loses no other one."""
    path = tmp_path / "broken.eval"
    shutil.copy(LOG, path)
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("samples/q9_epoch_1.json", "{")
    faults: list[FileFormatError] = []
    assert len([*read_exports([path], faults.append)]) == 3
    assert [str(fault).partition(": not")[0] for fault in faults] == [
        f"{path}: samples/q9_epoch_1.json"
    ]
    assert runs_of(LOG, path)[1].lost
    with pytest.raises(FileFormatError, match="q9_epoch_1"):
        runs_of(path, LOG)
