"""`scouter profile mutate`: which faults a profile's checks see."""

import json
from pathlib import Path

import pytest

from scouter.drift.profile import AgentEvalProfile
from scouter.model.otlp_json import spans_to_otlp_json
from tests.scouter.cli.conftest import Scouter
from tests.scouter.evaluate.mutate.desk import traces

PROFILE = """\
alias: desk
tasks:
  - id: spoke
    task_type: AgentAssertion
    assertion: {ResponseIsBlank: {}}
    source: spans
    operator: Equals
    expected_value: false
"""


@pytest.fixture
def recorded(project: Path) -> Path:
    """A profile with one task, and the traces of twenty customers."""
    (project / "desk.yaml").write_text(PROFILE)
    file = project / "traces.json"
    file.write_text(json.dumps(spans_to_otlp_json(traces(0, 20))))
    return file


def test_the_table_and_the_proposals(scouter: Scouter, recorded: Path) -> None:
    done = scouter("profile", "mutate", "desk.yaml", recorded, "--save", "better.json")

    assert (done.returncode, done.stderr) == (0, "wrote better.json\n")
    assert done.stdout.startswith("20 of 20 traces pass 'desk' as they are, and are good.")
    assert "Score: 1 of 12 faults are seen (8%)." in done.stdout
    assert "- id: no_repeated_calls" in done.stdout
    better = AgentEvalProfile.from_file("better.json")
    assert better.alias == "desk"
    assert {"spoke", "no_repeated_calls"} <= {task.id for task in better.tasks}
    done = scouter("profile", "mutate", "better.json", recorded, "--min-score", "0.9", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["profile"], found["good"], found["score"] >= 0.9) == ("desk", 20, True)


def test_a_score_that_is_too_low_ends_with_1(scouter: Scouter, recorded: Path) -> None:
    done = scouter("profile", "mutate", "desk.yaml", recorded, "--min-score", "0.5")

    assert done.returncode == 1
    assert done.stderr == "scouter: 8% is below --min-score 50%\n"


def test_traces_that_all_fail_end_with_1(scouter: Scouter, recorded: Path) -> None:
    Path("strict.yaml").write_text(PROFILE.replace("false", "true"))
    done = scouter("profile", "mutate", "strict.yaml", recorded)

    assert done.returncode == 1
    assert "no trace passes the profile, so none is good; what they fail: spoke (20)" in (
        done.stderr
    )


def test_files_that_cannot_be_read(scouter: Scouter, recorded: Path) -> None:
    Path("rubbish.json").write_text("{")
    done = scouter("profile", "mutate", "desk.yaml", "rubbish.json")
    assert done.returncode == 2
    assert "rubbish.json" in done.stderr

    done = scouter("profile", "mutate", "desk.yaml", recorded, "rubbish.json")
    assert done.returncode == 0, "one bad file loses no other"
    assert "warning" in done.stderr
