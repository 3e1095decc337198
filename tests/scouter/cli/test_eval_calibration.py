"""`scouter eval --calibration`: what is known of a judge stands beside its pass rate."""

import json
from pathlib import Path

import pytest

from scouter.agent.calibration.calibration import Calibration
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.api.replay import ScenarioEvalResults
from tests.scouter.cli.conftest import Scouter
from tests.scouter.cli.test_eval import one_line
from tests.scouter.cli.test_eval_judges import PROFILE, RUN
from tests.support.calibrations import NINE_OF_TEN, Counts, calibration

JUDGE = "def judge(request):\n    return {'polite': '9 to 18' in str(request.messages)}\n"
FORTY = (*RUN, "--judge", "own:judge", "--repeats", "20")
"""Of two records in each of 20 attempts the judge passes one: 20 of 40."""


@pytest.fixture
def shop(project: Path) -> Path:
    (project / "judged.yaml").write_text(PROFILE.format(provider="openai"))
    (project / "own.py").write_text(JUDGE)
    return project


def save(
    shop: Path, counts: Counts = NINE_OF_TEN, judge: str = "own:judge", model: str = "gpt-4o"
) -> None:
    text = PROFILE.format(provider="openai").replace("gpt-4o", model)
    (shop / "calibrated.yaml").write_text(text)
    profile = AgentEvalProfile.from_file(shop / "calibrated.yaml")
    calibration(profile, counts, judge=judge).save(shop / "judge.json")


def test_every_report_shows_the_corrected_rate(shop: Path, scouter: Scouter) -> None:
    """By hand: (0.5 + 0.8 - 1) / (0.9 + 0.8 - 1) = 3/7 = 42.9 %."""
    save(shop)

    done = scouter(
        *FORTY, "-v", "--calibration", "judge.json", "--save", "r.json", "--json", "j.json",
        "--html", "h.html", "--markdown", "m.md",
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    _, judges = done.stdout.split("Judge tasks: as the judge says")
    row = next(line for line in judges.splitlines() if "· polite" in line)
    assert "400 (200 good, 200 bad)" in row
    for cell in ("50.0% (20/40)", "42.9%", "90.0%", "80.0%", "400", "200 good, 200 bad"):
        assert cell in row
        for name in ("h.html", "m.md"):
            text = (shop / name).read_text().replace("\\", "")
            assert cell in text, (name, cell)
    (found,) = ScenarioEvalResults.load(shop / "r.json").judge_rates
    assert found.rate == pytest.approx(3 / 7, abs=1e-6)
    (rate,) = json.loads((shop / "j.json").read_text())["judge_rates"]
    assert rate["rate"] == found.rate
    assert (rate["judge_rate"], rate["standing"]) == (0.5, "corrected")
    assert rate["calibration"]["sensitivity"] == 0.9


def test_a_folder_of_calibrations(shop: Path, scouter: Scouter) -> None:
    (shop / "known").mkdir()
    save(shop)
    (shop / "judge.json").rename(shop / "known" / "a.json")
    save(shop, judge="elsewhere:judge")
    (shop / "judge.json").rename(shop / "known" / "b.json")

    done = scouter(*FORTY, "-v", "--calibration", "known")

    assert done.returncode == 0, done.stderr
    assert "42.9%" in done.stdout


@pytest.mark.parametrize(
    ("model", "judge", "said"),
    [
        ("gpt-4", "own:judge", 'model is "gpt-4o", calibrated was "gpt-4"'),
        ("gpt-4o", "", "own:judge is called, calibrated was the provider entry"),
    ],
)
def test_another_judges_calibration_is_not_applied(
    model: str, judge: str, said: str, shop: Path, scouter: Scouter
) -> None:
    save(shop, judge=judge, model=model)

    done = scouter(
        *FORTY, "-v", "--calibration", "judge.json", "--save", "r.json", "--html", "h.html",
        "--markdown", "m.md",
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "50.0% (20/40)" in text
    assert "calibration of another judge" in text
    assert said in text
    assert "42.9%" not in text
    page = (shop / "h.html").read_text().replace("&#34;", '"')
    assert said in page
    assert "another judge" in (shop / "m.md").read_text()
    (found,) = ScenarioEvalResults.load(shop / "r.json").judge_rates
    assert (found.standing, found.rate, found.calibration) == ("another_judge", None, None)


def test_few_labels_say_nothing(shop: Path, scouter: Scouter) -> None:
    save(shop, ((4, 1), (2, 2)))

    done = scouter(*FORTY, "-v", "--calibration", "judge.json")

    text = " ".join(done.stdout.split())
    assert "cannot say" in text
    assert "too few labels to tell the judge from one that does not look" in text


def test_without_a_calibration_that_is_said(shop: Path, scouter: Scouter) -> None:
    done = scouter(*FORTY, "-v")

    _, judges = done.stdout.split("Judge tasks: as the judge says")
    row = next(line for line in judges.splitlines() if "· polite" in line)
    assert "no calibration" in row


def test_what_calibrate_saves_is_what_eval_takes(shop: Path, scouter: Scouter) -> None:
    """The way that the page on calibration goes, from labels to a corrected rate."""
    rows = [("9 to 18", "pass")] * 18 + [("never", "pass")] * 2
    rows += [("9 to 18", "fail")] * 4 + [("never", "fail")] * 16
    lines = [{"context": {"answer": answer, "n": n}, "label": label, "order": "gold"}
             for n, (answer, label) in enumerate(rows)]  # fmt: skip
    (shop / "labels.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    first = scouter(
        "judge", "calibrate", "labels.jsonl", "--profile", "judged.yaml", "--judge", "own:judge",
        "--save", "judge.json",
    )  # fmt: skip
    assert first.returncode == 0, first.stderr
    assert Calibration.load(shop / "judge.json").counts.table == ((18, 2), (4, 16))
    done = scouter(*FORTY, "-v", "--calibration", "judge.json", "--save", "r.json")

    assert "42.9%" in done.stdout
    corrected = scouter("judge", "correct", "r.json", "--calibration", "judge.json")
    assert corrected.returncode == 0, corrected.stderr
    assert "42.9%" in corrected.stdout


def test_verdicts_of_another_judge_are_not_corrected(shop: Path, scouter: Scouter) -> None:
    """A file of results knows who judged."""
    save(shop, judge="")
    scouter(*FORTY, "--save", "r.json")

    done = scouter("judge", "correct", "r.json", "--calibration", "judge.json")

    assert "own:judge is called, calibrated was the provider entry" in one_line(done)


def test_a_bad_file_is_said_before_anything_runs(shop: Path, scouter: Scouter) -> None:
    (shop / "judge.json").write_text("[]")

    done = scouter(*FORTY, "-v", "--calibration", "judge.json")

    assert "judge.json" in one_line(done)
    assert "asked:" not in done.stderr
