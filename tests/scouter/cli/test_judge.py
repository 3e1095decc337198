"""`scouter judge`: labels in, a calibration out, and pass rates corrected by it."""

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from pydantic import JsonValue

from scouter.agent.calibration.calibration import Calibration
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.judge.port import JudgeRequest
from scouter.mock.llm_protocols import LLMRequest
from scouter.mock.llm_server import LLMTestServer
from scouter.model.record import EvalRecord
from tests.support.served import Say, run_script

Scouter = Callable[..., "CompletedProcess[str]"]

PROFILE = """\
alias: desk
tasks:
  - task_type: LLMJudge
    id: helpful
    prompt:
      {model: small-1, provider: openai, messages: "Is it? ${answer}", settings: {temperature: 0}}
    context_path: score
    operator: GreaterThanOrEqual
    expected_value: 4
  - {task_type: Assertion, id: says, context_path: answer, operator: IsString, expected_value: true}
"""

JUDGE = '''\
"""A judge that reads its score in the answer, and fails at "?!"."""

import re

answers = []


def judge(request):
    text = str(request.messages)
    answers.append(text)
    if "?!" in text:
        raise ValueError("out of order")
    return {"score": int(re.findall("=([1-5])", text)[-1])}


def first(request):
    """Prefers whatever stands first."""
    answers.append(request.messages[-1]["content"])
    return {"score": 5}


def fickle(request):
    """Says one thing and then the other."""
    answers.append("")
    return {"score": 5 if len(answers) % 2 else 1}
'''


@pytest.fixture
def desk(project: Path) -> Path:
    (project / "desk.yaml").write_text(PROFILE, encoding="utf-8")
    (project / "desk_judge.py").write_text(JUDGE, encoding="utf-8")
    return project


def line(answer: str, label: str, **more: object) -> dict[str, object]:
    return {"context": {"answer": answer}, "label": label, **more}


def write(path: Path, rows: Iterable[Mapping[str, object]]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def forty(good_passed: int = 18, bad_failed: int = 16) -> list[dict[str, object]]:
    """Forty labels, half of them good; the judge passes what ends in 4 or 5."""
    is_good = {"label": "pass", "order": "gold"}
    is_bad = {"label": "fail", "order": "gold"}
    rows = [line(f"good {n} ={5 if n < good_passed else 2}", **is_good) for n in range(20)]
    return rows + [line(f"bad {n} ={1 if n < bad_failed else 4}", **is_bad) for n in range(20)]


def calibrate(
    scouter: Scouter, labels: Path | str, *more: str, **environ: str
) -> "CompletedProcess[str]":
    words = "judge", "calibrate", labels, "--profile", "desk.yaml", *more, "--save", "judge.json"
    return scouter(*words, **environ)


def test_a_calibration(desk: Path, scouter: Scouter) -> None:
    """18 of 20 good ones pass, 16 of 20 bad ones fail: kappa (0.85 - 0.5) / 0.5 by hand."""
    labels = write(desk / "labels.jsonl", forty())

    done = calibrate(scouter, labels, "--judge", "desk_judge:judge")

    assert done.returncode == 0, done.stderr
    found = Calibration.load(desk / "judge.json")
    assert found.counts.table == ((18, 2), (4, 16))
    assert found.sensitivity.value == 0.9
    assert found.specificity.value == 0.8
    assert found.accuracy.value == 0.85
    assert found.kappa.value == pytest.approx(0.7)
    assert (found.items, found.labels, found.bad_lines, found.tied) == (40, 40, 0, 0)
    assert found.identity.model == "small-1"
    assert found.identity.settings == {"temperature": 0}
    assert found.models == {"small-1": 40}
    assert found.answered_by == "desk_judge:judge"
    assert "90.0% of 20" in done.stdout
    assert "0.70" in done.stdout
    assert [each.check for each in found.biases] == ["leniency", "length"]


def test_csv_says_the_same(desk: Path, scouter: Scouter) -> None:
    lines = ["context.answer,label,notes"]
    lines += [f"{row['context']['answer']},{row['label']},x" for row in forty()]  # type: ignore[index]
    (desk / "labels.csv").write_text("\n".join(lines), encoding="utf-8")

    done = calibrate(scouter, desk / "labels.csv", "--judge", "desk_judge:judge")

    assert done.returncode == 0, done.stderr
    found = Calibration.load(desk / "judge.json")
    assert found.counts.table == ((18, 2), (4, 16))


def test_the_labels_of_a_collector_say_the_same(desk: Path, scouter: Scouter) -> None:
    lines = "".join(f"{json.dumps(row)}\n" for row in forty()).encode()
    with run_script() as script:
        script.answers = [Say(body=lines), Say(404, {"detail": "no registered profile"})]
        done = calibrate(scouter, script.url, "--judge", "desk_judge:judge")
        gone = calibrate(scouter, script.url, "--judge", "desk_judge:judge")
    assert done.returncode == 0, done.stderr
    assert script.asked[0].path == "/api/v1/labels/file?profile=desk&task_id=helpful"
    found = Calibration.load(desk / "judge.json")
    assert found.counts.table == ((18, 2), (4, 16))
    assert gone.returncode == 2
    assert "no registered profile" in gone.stderr


def test_bad_lines_cost_only_themselves(desk: Path, scouter: Scouter) -> None:
    good = [json.dumps(row) for row in forty()]
    bad = [
        "{broken",
        json.dumps({"context": {"answer": "x 5"}, "label": "perhaps"}),
        json.dumps({"context": {"answer": "x 5"}}),
        json.dumps({"label": "pass"}),
        json.dumps({"context": {"answer": "x 5"}, "lable": "pass", "label": "pass"}),
    ]
    (desk / "labels.jsonl").write_text("\n".join([*bad, *good]), encoding="utf-8")

    done = calibrate(scouter, desk / "labels.jsonl", "--judge", "desk_judge:judge")

    assert done.returncode == 0, done.stderr
    for number in range(1, 6):
        assert f"labels.jsonl, line {number}" in done.stderr
    assert "field 'label'" in done.stderr
    assert "field 'lable'" in done.stderr
    found = Calibration.load(desk / "judge.json")
    assert (found.bad_lines, found.items) == (5, 40)


@pytest.mark.parametrize(
    ("bound", "code"),
    [
        ("--min-kappa=0.69", 0),
        ("--min-kappa=0.71", 1),
        ("--min-sensitivity=0.9", 0),
        ("--min-sensitivity=0.91", 1),
        ("--min-specificity=0.81", 1),
        ("--min-accuracy=0.85", 0),
        ("--min-accuracy=0.86", 1),
        ("--min-kappa=2", 2),
    ],
)
def test_bounds(desk: Path, scouter: Scouter, bound: str, code: int) -> None:
    labels = write(desk / "labels.jsonl", forty())

    done = calibrate(scouter, labels, "--judge", "desk_judge:judge", "-q", bound)

    assert done.returncode == code, done.stderr
    if code == 1:
        assert "missed: " in done.stdout


def test_what_is_not_known_misses_its_bound(desk: Path, scouter: Scouter) -> None:
    labels = write(desk / "labels.jsonl", forty()[:20])

    done = calibrate(
        scouter, labels, "--judge", "desk_judge:judge", "-q", "--min-specificity", "0.1"
    )

    assert done.returncode == 1
    assert "specificity is not known" in done.stdout


def test_raters(desk: Path, scouter: Scouter) -> None:
    """Two of three decide; a tie is left out and counted; who agrees is shown."""
    rows = forty()
    rows += [line("good 0 =5", "fail", rater="bo"), line("good 0 =5", "pass", rater="cy")]
    rows += [line("bad 0 =1", "pass", rater="bo")]
    labels = write(desk / "labels.jsonl", rows)

    done = calibrate(scouter, labels, "--judge", "desk_judge:judge")

    found = Calibration.load(desk / "judge.json")
    assert done.returncode == 0, done.stderr
    assert (found.items, found.tied, found.raters) == (40, 1, 3)
    assert found.counts.table == ((18, 2), (4, 15))
    assert found.raters_agree is not None
    assert found.raters_agree.value == 0.0
    assert "ties, left out: 1" in done.stdout


def test_a_rater_counts_once(desk: Path, scouter: Scouter) -> None:
    """By lines "good 0" would be failed by two of three, and "bad 0" passed and failed at once."""
    rows = [{**row, "rater": "ann"} for row in forty()]
    rows += [line("good 0 =5", "fail", rater="bo")] * 2
    rows += [line("bad 0 =1", "pass", rater="ann")]
    labels = write(desk / "labels.jsonl", rows)

    done = calibrate(scouter, labels, "--judge", "desk_judge:judge")

    assert done.returncode == 0, done.stderr
    found = Calibration.load(desk / "judge.json")
    assert (found.items, found.tied, found.raters, found.bad_lines) == (39, 1, 2, 2)
    assert found.counts.table == ((17, 2), (4, 15))
    assert "labels.jsonl, line 42: says of a record what the same rater says" in done.stderr
    for number in 21, 43:
        assert f"labels.jsonl, line {number}, field 'label': 'ann' says" in done.stderr
    assert "fail in line 21 and pass in line 43" in done.stderr


def test_lines_that_repeat_others_are_named_in_few_words(desk: Path, scouter: Scouter) -> None:
    """Forty lines, and seven of them again: of 41 to 47 five are named."""
    rows = [{**row, "rater": "ann"} for row in forty()]
    labels = write(desk / "labels.jsonl", [*rows, *rows[:7]])

    done = calibrate(scouter, labels, "--judge", "desk_judge:judge")

    assert done.returncode == 0, done.stderr
    assert "labels.jsonl, line 41: says of a record" in done.stderr
    assert "(so does line 42, 43, 44, 45 and 2 more)" in done.stderr
    assert Calibration.load(desk / "judge.json").bad_lines == 0


def test_scores_are_compared_as_the_judges(desk: Path, scouter: Scouter) -> None:
    """A human 4 is a pass, as the task says; the scores themselves agree, too."""
    rows = [
        {"context": {"answer": f"no {n} ={score}"}, "score": score if n % 4 else min(5, score + 1)}
        for n in range(20)
        for score in (1, 3, 4, 5)
    ]
    labels = write(desk / "labels.jsonl", rows)

    done = calibrate(scouter, labels, "--judge", "desk_judge:judge")

    assert done.returncode == 0, done.stderr
    found = Calibration.load(desk / "judge.json")
    # of 20 threes five were a four to people, whom the judge fails; nothing else crosses the bound
    assert found.counts.table == ((40, 5), (0, 35))
    assert found.score_kappa is not None
    assert found.score_kappa.value is not None
    assert found.score_kappa.value > 0.9


def test_errors_of_scores(desk: Path, scouter: Scouter) -> None:
    """Of two people the mean counts; a record on which they differ about passing counts too.

    The judge is 1 off on one of six records. People's scores are 4 squares apart in one of six
    units, of 12 values with the sum 38 and the squares' sum 144: alpha is
    1 - 11 / 12 * 4 / (144 - 38**2 / 12).
    """
    said = zip((1, 2, 3, 4, 5, 5), (1, 2, 3, 4, 5, 3), (2, 2, 3, 4, 5, 4), strict=True)
    rows = [
        {"uid": f"u{at}", "rater": rater, "score": score, "judge_score": judge}
        for at, (ann, bo, judge) in enumerate(said)
        for rater, score in (("ann", ann), ("bo", bo))
    ]
    done = calibrate(scouter, write(desk / "labels.jsonl", rows))

    assert done.returncode == 0, done.stderr
    found = Calibration.load(desk / "judge.json")
    assert (found.items, found.tied, found.counts.total) == (6, 1, 5)
    errors, alpha = found.score_errors, found.rater_alpha
    assert errors is not None
    assert alpha is not None
    assert errors.items == 6
    assert errors.mean_absolute_error.value == pytest.approx(1 / 6)
    assert errors.bias.value == pytest.approx(1 / 6)
    assert alpha.value == pytest.approx(1 - 11 / 12 * 4 / (144 - 38**2 / 12))
    # Student's 2.571 of 5 degrees, and a deviation of the root of 1 / 6.
    assert "mean distance of the scores, of 6" in done.stdout
    assert errors.bias.interval == pytest.approx((1 / 6 - 2.5706 / 6, 1 / 6 + 2.5706 / 6), abs=1e-4)


def test_words_have_no_errors_of_scores(desk: Path, scouter: Scouter) -> None:
    done = calibrate(scouter, write(desk / "labels.jsonl", forty()), "--judge", "desk_judge:judge")

    assert done.returncode == 0, done.stderr
    found = Calibration.load(desk / "judge.json")
    assert (found.score_errors, found.rater_alpha) == (None, None)
    assert "scores" not in done.stdout


def test_repeats_show_a_fickle_judge(desk: Path, scouter: Scouter) -> None:
    labels = write(desk / "labels.jsonl", forty())

    steady = calibrate(scouter, labels, "--judge", "desk_judge:judge", "--repeats", "3")
    first = Calibration.load(desk / "judge.json")
    fickle = calibrate(
        scouter, labels, "--judge", "desk_judge:fickle", "--repeats", "2", "--concurrency", "1"
    )
    second = Calibration.load(desk / "judge.json")

    assert (steady.returncode, fickle.returncode) == (0, 0)
    assert (first.repeats, second.repeats) == (3, 2)
    by_check = {each.check: each for each in first.biases}
    assert by_check["consistency"].value == 1.0
    assert first.models == {"small-1": 120}
    assert second.biases[-1].check == "consistency"


def test_swapped_places(desk: Path, scouter: Scouter) -> None:
    """A judge that always prefers the first place does so after the swap, too."""
    text = PROFILE.replace("Is it? ${answer}", "Is ${a} better than ${b}?")
    (desk / "desk.yaml").write_text(text, encoding="utf-8")
    rows = [{"context": {"a": f"x{n}", "b": "y", "answer": ""}, "label": "pass"} for n in range(12)]
    labels = write(desk / "labels.jsonl", rows)

    done = calibrate(scouter, labels, "--judge", "desk_judge:first", "--swap", "a,b")

    assert done.returncode == 0, done.stderr
    position = Calibration.load(desk / "judge.json").biases[-1]
    assert position.check == "position"
    assert position.value == 1.0
    assert position.p_value == pytest.approx(2 / 2**12)
    assert "prefers the first place" in done.stdout


def test_records_without_a_verdict_are_counted(desk: Path, scouter: Scouter) -> None:
    labels = write(desk / "labels.jsonl", [*forty(), line("bad ?! =1", "fail")])

    done = calibrate(scouter, labels, "--judge", "desk_judge:judge")

    assert done.returncode == 0, done.stderr
    found = Calibration.load(desk / "judge.json")
    assert found.without_verdict == {"errored: provider": 1}
    assert found.counts.total == 40


def test_a_judge_that_decides_nothing_says_why(desk: Path, scouter: Scouter) -> None:
    labels = write(desk / "labels.jsonl", [line("bad ?! =1", "fail")])

    done = calibrate(scouter, labels, "--judge", "desk_judge:judge")

    assert done.returncode == 2
    assert "decided none of the 1 labelled records" in done.stderr
    assert "out of order" in done.stderr


def results(folder: Path, name: str, rows: Iterable[tuple[str, int]]) -> Path:
    """Judge records of these answers as `desk_judge:judge` does, and save the results."""
    profile = AgentEvalProfile.from_file(folder / "desk.yaml")
    records = [
        EvalRecord({"answer": f"{text} ={score}"}, uid=f"{text}-{at}", record_id=text)
        for at, (text, score) in enumerate(rows)
    ]

    def judge(request: JudgeRequest) -> dict[str, JsonValue]:
        return {"score": int(re.findall("=([1-5])", str(request.messages))[-1])}

    judge.__module__, judge.__qualname__ = "desk_judge", "judge"
    EvalDataset(records, list(profile.tasks)).evaluate(judge=judge).save(folder / name)
    return folder / name


def test_a_corrected_pass_rate(desk: Path, scouter: Scouter) -> None:
    """Sensitivity 0.9, specificity 0.8, 76 % passed: (0.76 + 0.8 - 1) / 0.7 = 0.8."""
    labels = write(desk / "labels.jsonl", hundred())
    assert calibrate(scouter, labels, "--judge", "desk_judge:judge").returncode == 0
    saved = results(desk, "today.json", [("live", 5)] * 380 + [("live", 1)] * 120)

    done = scouter("judge", "correct", saved, "--calibration", "judge.json")

    assert done.returncode == 0, done.stderr
    assert "(380/500)" in done.stdout
    assert "76.0%" in done.stdout
    assert "80.0%" in done.stdout
    low = scouter(
        "judge", "correct", saved, "--calibration", "judge.json", "--min-pass-rate", "0.81"
    )
    assert low.returncode == 1


def hundred() -> list[dict[str, object]]:
    """Chosen for what they are, half good and half bad."""
    rows = [line(f"good {n} ={5 if n < 90 else 2}", "pass", order="gold") for n in range(100)]
    rows += [line(f"bad {n} ={1 if n < 80 else 4}", "fail", order="gold") for n in range(100)]
    return rows


def test_labels_drawn_from_the_results(desk: Path, scouter: Scouter) -> None:
    """Of 50 passed ones 46 are good, of 50 failed ones 9: 0.6 * 0.92 + 0.4 * 0.18 = 0.624."""
    saved = results(desk, "today.json", [("live", 5)] * 150 + [("live", 1)] * 100)
    rows = [
        {"uid": f"live-{at}", "label": "pass" if at < 46 or at > 240 else "fail",
         "order": "outcome", "stratum": stratum, "size": size}
        for stratum, size, first in (("passed", 150, 0), ("failed", 100, 200))
        for at in range(first, first + 50)
    ]  # fmt: skip
    labels = write(desk / "labels.jsonl", rows)
    done = calibrate(scouter, labels, "--results", "today.json")
    assert done.returncode == 0, done.stderr
    found = Calibration.load(desk / "judge.json")
    assert found.counts.table == ((46, 9), (4, 41))
    assert found.sensitivity.value == pytest.approx(0.6 * 0.92 / 0.624)

    done = scouter("judge", "correct", saved, "--calibration", "judge.json")

    assert done.returncode == 0, done.stderr
    assert "(150/250)" in done.stdout
    assert "62.4%" in done.stdout
    assert "drawn from these very records" in done.stdout


@pytest.mark.parametrize("name", ["labels.jsonl", "labels.csv"])
def test_draw_fill_in_calibrate_correct(desk: Path, scouter: Scouter, name: str) -> None:
    """Of 150 passed and 100 failed ones 25 each; 23 and 4 are good: 0.6 * 0.92 + 0.4 * 0.16."""
    saved = results(desk, "today.json", [("live", 5)] * 150 + [("live", 1)] * 100)
    words = "judge", "sample", saved, "--profile", "desk.yaml", "--save", name
    done = scouter(*words)
    assert done.returncode == 0, done.stderr
    assert "25 of 150 that the judge passed, 25 of 100 that it failed" in done.stdout
    assert "points with 20" in done.stdout
    file = desk / name
    if name.endswith("csv"):
        with file.open(encoding="utf-8", newline="") as lines:
            rows: list[dict[str, Any]] = list(csv.DictReader(lines))
    else:
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert len({row["uid"] for row in rows}) == 50
    assert all(not row["label"] and "live" in row["question"] for row in rows)
    assert [row["stratum"] for row in rows] != sorted(row["stratum"] for row in rows)
    seen: Counter[str] = Counter()
    for row in rows:
        seen[row["stratum"]] += 1
        is_good = seen[row["stratum"]] <= {"passed": 23, "failed": 4}[row["stratum"]]
        row |= {"label": "pass" if is_good else "fail", "rater": "ann"}
    rows[-1]["label"] = ""  # left for later
    if name.endswith("csv"):
        with file.open("w", encoding="utf-8", newline="") as out:
            writer = csv.DictWriter(out, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    else:
        write(file, rows)

    done = calibrate(scouter, file)
    assert done.returncode == 0, done.stderr
    assert "1 line not filled in yet" in done.stderr
    shown = " ".join(done.stdout.split())
    assert "Of the 250 records that 49 labels were drawn from, people would pass" in shown
    assert "20 more labels would make it" in shown
    assert "Labels are taken for the truth" in shown
    done = scouter("judge", "correct", saved, "--calibration", "judge.json")
    assert done.returncode == 0, done.stdout
    last = 24 if rows[-1]["stratum"] == "passed" else 25
    rate = 0.6 * 23 / last + 0.4 * 4 / (49 - last)
    assert f"{rate:.1%}" in done.stdout
    assert "drawn from these very records" in done.stdout
    again = scouter(*words)
    assert again.returncode == 2
    assert "the file is there, maybe with labels" in again.stderr


def test_a_draw_from_a_collector(desk: Path, scouter: Scouter) -> None:
    line = {
        "label": None,
        "rater": "",
        "uid": "u",
        "order": "outcome",
        "stratum": "passed",
        "size": 9,
    }
    lines = [line, line | {"uid": "v", "stratum": "failed", "size": 4}]
    body = "".join(f"{json.dumps(each)}\n" for each in lines).encode()
    with run_script() as script:
        script.answers = [Say(body=body), Say(body=b"")]
        command = "judge", "sample", script.url, "--profile", "desk.yaml", "--save"
        done = scouter(*command, "l.jsonl", "--labels", "2")
        none = scouter(*command, "m.jsonl")
    assert done.returncode == 0, done.stderr
    assert script.asked[0].path == "/api/v1/labels/file?profile=desk&task_id=helpful&draw=2"
    assert "1 of 9 that the judge passed, 1 of 4 that it failed" in done.stdout
    assert (desk / "l.jsonl").read_bytes() == body
    assert none.returncode == 2
    assert "has decided no record yet" in none.stderr
    assert not (desk / "m.jsonl").exists()


def test_a_judge_that_passes_all_is_drawn_from_at_random(desk: Path, scouter: Scouter) -> None:
    saved = results(desk, "today.json", [("live", 5)] * 30)
    done = scouter("judge", "sample", saved, "--profile", "desk.yaml", "--save", "l.jsonl")
    assert "30 of 30 in all" in done.stdout
    rows = [json.loads(line) for line in (desk / "l.jsonl").read_text().splitlines()]
    assert {(row["order"], row["stratum"], row["size"]) for row in rows} == {("random", "all", 30)}


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({}, "100 without `order`, which says how the record was chosen"),
        ({"order": "failed"}, "100 from the order `failed`, which looks for examples"),
        ({"order": "disagrees"}, "100 from the order `disagrees`, which looks for examples"),
        (
            {"order": "random", "is_blind": False},
            "100 given with the judge's outcome or other labels in view",
        ),
        ({"order": "outcome"}, "100 of the order `outcome` without `stratum`"),
        ({"order": "outcome", "stratum": "passed"}, "100 of the order `outcome` without `stratum`"),
        (
            {"order": "outcome", "stratum": "passed", "size": 150},
            "100 of the order `outcome`, and none of the other stratum",
        ),
    ],
)
def test_labels_of_unknown_origin_show_agreement_and_no_rate(
    desk: Path, scouter: Scouter, more: dict[str, object], why: str
) -> None:
    """Half from what the judge passed, half from what it failed: no sample of any traffic."""
    saved = results(desk, "today.json", [("live", 5)] * 150 + [("live", 1)] * 100)
    rows = [
        {"uid": f"live-{at}", "label": "pass" if at < 46 or at > 240 else "fail", **more}
        for at in (*range(50), *range(200, 250))
    ]
    done = calibrate(scouter, write(desk / "labels.jsonl", rows), "--results", "today.json")

    assert done.returncode == 0, done.stderr
    assert why in " ".join(done.stdout.split())
    assert "scouter judge sample" in done.stdout
    found = Calibration.load(desk / "judge.json")
    assert found.accuracy.value == pytest.approx(0.87)
    done = scouter("judge", "correct", saved, "--calibration", "judge.json")
    assert done.returncode == 1
    assert "cannot say" in done.stdout
    assert why in " ".join(done.stdout.split())


def test_labels_of_unknown_origin_beside_drawn_ones_are_left_out(
    desk: Path, scouter: Scouter
) -> None:
    """100 random ones, and 50 from the order `failed`: the 50 count for the agreement alone."""
    rows: list[dict[str, object]] = [
        line(f"{n} ={5 if n < 72 or n > 95 else 1}", "pass" if n < 80 else "fail", order="random",
             rater="ann")
        for n in range(100)
    ]  # fmt: skip
    rows += [line(f"more {n} =1", "pass", order="failed", is_blind=False) for n in range(50)]
    done = calibrate(scouter, write(desk / "l.jsonl", rows), "--judge", "desk_judge:judge")

    assert done.returncode == 0, done.stderr
    found = Calibration.load(desk / "judge.json")
    assert found.counts.good == 130
    assert (found.sensitivity.value, found.specificity.value) == (0.9, 0.8)
    assert found.not_drawn == {"from the order `failed`, which looks for examples": 50}
    shown = " ".join(done.stdout.split())
    assert "50 from the order `failed`, which looks for examples" in shown


def test_labels_without_a_name_are_not_in_results(desk: Path, scouter: Scouter) -> None:
    """Contexts alone can be judged, and not be looked up."""
    results(desk, "today.json", [("live", 5)] * 30)
    labels = write(desk / "labels.jsonl", forty())

    done = calibrate(scouter, labels, "--results", "today.json")

    assert done.returncode == 2
    assert "none of the 40 labelled records: no uid or record_id in the label (40)" in done.stderr
    assert "found in --results by `uid` or `record_id`: give the labels one" in done.stderr
    write(labels, [{"uid": "elsewhere", "label": "pass"}])
    done = calibrate(scouter, labels, "--results", "today.json")
    assert "no outcome in any file (1)" in done.stderr
    assert "give the labels" not in done.stderr


def test_results_of_another_profile_are_no_verdicts(desk: Path, scouter: Scouter) -> None:
    saved = results(desk, "today.json", [("live", 5)] * 30)
    (desk / "desk.yaml").write_text(PROFILE.replace("small-1", "large-2"), encoding="utf-8")
    labels = write(desk / "labels.jsonl", [{"uid": "live-1", "label": "pass"}])

    done = calibrate(scouter, labels, "--results", str(saved))

    assert done.returncode == 2
    assert "were judged by another profile" in done.stderr


def test_cannot_say(desk: Path, scouter: Scouter) -> None:
    labels = write(desk / "labels.jsonl", forty()[:22])
    assert calibrate(scouter, labels, "--judge", "desk_judge:judge").returncode == 0
    saved = results(desk, "today.json", [("live", 5)] * 30 + [("live", 1)] * 10)

    done = scouter("judge", "correct", saved, "--calibration", "judge.json")

    # 2 of 2 bad ones failed: with 18 of 20 good ones passed, that tells the judge from a coin
    assert done.returncode == 0, done.stdout
    few = write(desk / "labels.jsonl", forty()[:20])
    assert calibrate(scouter, few, "--judge", "desk_judge:judge").returncode == 0
    done = scouter("judge", "correct", saved, "--calibration", "judge.json")
    assert done.returncode == 1
    assert "cannot say" in done.stdout
    assert "none of the 20 labelled items is bad" in done.stdout


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("small-1", "large-2", 'model is "large-2", calibrated was "small-1"'),
        ("temperature: 0", "temperature: 1", "setting 'temperature' is 1, calibrated was 0"),
        ("Is it?", "Was it?", "the prompt differs"),
        ("expected_value: 4", "expected_value: 3", "field 'expected_value' is 3, calibrated was 4"),
        ("provider: openai", "provider: mine", 'provider is "mine", calibrated was "openai"'),
    ],
)
def test_another_judge_is_refused(
    desk: Path, scouter: Scouter, old: str, new: str, words: str
) -> None:
    labels = write(desk / "labels.jsonl", forty())
    assert calibrate(scouter, labels, "--judge", "desk_judge:judge").returncode == 0
    (desk / "desk.yaml").write_text(PROFILE.replace(old, new, 1), encoding="utf-8")
    saved = results(desk, "today.json", [("live", 5)] * 30 + [("live", 1)] * 10)

    bare = scouter("judge", "correct", saved, "--calibration", "judge.json")
    named = scouter(
        "judge", "correct", saved, "--calibration", "judge.json", "--profile", "desk.yaml"
    )

    assert bare.returncode == named.returncode == 2
    assert "give the profile that judged with --profile" in bare.stderr
    assert words in named.stderr


def test_another_task_of_the_profile_may_differ(desk: Path, scouter: Scouter) -> None:
    labels = write(desk / "labels.jsonl", hundred())
    assert calibrate(scouter, labels, "--judge", "desk_judge:judge").returncode == 0
    (desk / "desk.yaml").write_text(PROFILE.replace("id: says", "id: other"), encoding="utf-8")
    saved = results(desk, "today.json", [("live", 5)] * 30 + [("live", 1)] * 10)

    done = scouter(
        "judge", "correct", saved, "--calibration", "judge.json", "--profile", "desk.yaml"
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["labels.txt"], "Unsupported extension"),
        (["labels.jsonl", "--task", "unhelpful"], "no judge task 'unhelpful'; it has 'helpful'"),
        (
            ["labels.jsonl", "--repeats", "2", "--swap", "a,b", "--results", "r.json"],
            "--repeats and --swap would change nothing. Leave --repeats and --swap out, or "
            "--results to",
        ),
        (["labels.jsonl", "--providers", "p.yaml", "--results", "r.json"], "Leave --providers out"),
        (["labels.jsonl", "--judge-budget", "1", "--results", "r"], "Leave --judge-budget out"),
        (["labels.jsonl", "--judge-timeout", "1", "--results", "r"], "Leave --judge-timeout out"),
        (
            ["labels.jsonl", "--providers", "p.yaml", "--judge", "desk_judge:judge"],
            "Leave one of the two out",
        ),
        (
            ["labels.jsonl", "--judge-budget", "1", "--judge", "desk_judge:judge"],
            "Leave one of the two out",
        ),
        (["judged.jsonl", "--providers", "p.yaml"], "or leave --providers out"),
        (["judged.jsonl", "--repeats", "2"], "no line has a context, so that nobody can be called"),
        (["judged.jsonl", "--judge", "desk_judge:judge"], "or leave --judge out"),
        (["labels.jsonl"], "provider entry 'openai' has no key"),
        (["names.jsonl"], "the lines hold neither outcomes of a judge nor contexts"),
        (["labels.jsonl", "--judge", "desk_judge:nobody"], "has no 'nobody'"),
        (["labels.jsonl", "--judge", "desk_judge:judge", "--swap", "a"], "expected two fields"),
        (
            ["labels.jsonl", "--judge", "desk_judge:judge", "--swap", "a,b"],
            "the context has answer",
        ),
        (["empty.jsonl", "--judge", "desk_judge:judge"], "no label for the task"),
        (["column.csv", "--judge", "desk_judge:judge"], "no such column"),
    ],
)
def test_usage(
    desk: Path, scouter: Scouter, args: list[str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(desk / "labels.jsonl", forty())
    (desk / "labels.txt").write_text("x", encoding="utf-8")
    (desk / "names.jsonl").write_text('{"uid": "1", "label": "pass"}\n', encoding="utf-8")
    verdicts = '{"uid": "1", "label": "pass", "judge": "pass"}\n'
    (desk / "judged.jsonl").write_text(verdicts, encoding="utf-8")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(desk / "config"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    (desk / "empty.jsonl").write_text("\n", encoding="utf-8")
    (desk / "column.csv").write_text("uid,lable\n1,pass\n", encoding="utf-8")

    done = scouter("judge", "calibrate", *args, "--profile", "desk.yaml")

    assert done.returncode == 2
    assert words in done.stderr


def test_help_has_examples(scouter: Scouter) -> None:
    for command in ("sample", "calibrate", "correct"):
        done = scouter("judge", command, "--help")
        assert done.returncode == 0
        assert f"scouter judge {command} " in done.stdout


def test_without_a_judge_the_provider_of_the_prompt_is_called(
    desk: Path, scouter: Scouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each repeat of each record is put, however alike the questions are; by the settings' key."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(desk / "config"))
    labels = write(desk / "labels.jsonl", forty())

    def answer(request: LLMRequest) -> JsonValue:
        return {"score": int(re.findall("=([1-5])", request.text)[-1])}

    with LLMTestServer(answer) as server:
        done = calibrate(scouter, labels, "--repeats", "3")
        assert done.returncode == 0, done.stderr
        assert server.calls == 120
        again = calibrate(scouter, labels)
        assert server.calls == 160, "and nothing of it is stored"

    found = Calibration.load(desk / "judge.json")
    assert again.returncode == 0
    assert found.counts.table == ((18, 2), (4, 16))
    assert found.answered_by == "provider entry openai"
    assert found.models == {"small-1": 40}


PRICED = (
    "providers: {openai: {prices: {small-1: {input_per_million: 0, output_per_million: 1000}}}}"
)
"""Each token of an answer costs a tenth of a cent."""
ANSWER = '{"score": %s}'
"""Three tokens, as the provider for tests counts them: four letters each."""


@pytest.fixture
def priced(desk: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A task whose answers have three tokens at most: a question may cost $0.003, and does."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(desk / "config"))
    (desk / "p.yaml").write_text(PRICED, encoding="utf-8")
    text = PROFILE.replace("temperature: 0", "max_tokens: 3")
    (desk / "desk.yaml").write_text(text, encoding="utf-8")
    return desk


def scored(request: LLMRequest) -> str:
    return ANSWER % re.findall("=([1-5])", request.text)[-1]


@pytest.mark.parametrize(
    ("more", "usd", "calls", "skipped", "decided"),
    [
        ([], "0.12", 40, 0, 40),
        ([], "0.119", 39, 1, 39),
        ([], "0.03", 10, 30, 10),
        (["--repeats", "3"], "0.15", 50, 70, 40),
        (["--repeats", "3"], "0.36", 120, 0, 40),
    ],
)
def test_a_budget_bounds_the_calls(
    priced: Path, scouter: Scouter, more: list[str], usd: str, calls: int, skipped: int,
    decided: int,
) -> None:  # fmt: skip
    """$0.003 for each of 40 records and each repeat; the first verdicts on all go first."""
    labels = write(priced / "labels.jsonl", forty())
    flags = [*more, "--providers", "p.yaml", "--judge-budget", usd]
    with LLMTestServer(scored) as server:
        done = calibrate(scouter, labels, *flags)
        assert server.calls == calls

    assert done.returncode == 0, done.stderr
    found = Calibration.load(priced / "judge.json")
    assert (found.over_budget, found.counts.total) == (skipped, decided)
    left_out = {"skipped: budget": 40 - decided} if decided < 40 else {}
    assert found.without_verdict == left_out
    outcomes = "1 outcome" if skipped == 1 else f"{skipped} outcomes"
    said = (
        f"{outcomes} skipped, as the budget left too little; the calibration rests on {decided} of "
        "40 labelled records."
    )
    assert (said in " ".join(done.stdout.split())) is (skipped > 0)


@pytest.mark.parametrize(("bound", "code"), [("--min-accuracy=0.1", 0), ("--min-accuracy=1", 1)])
def test_a_spent_budget_is_reported_beside_a_bare_verdict(
    priced: Path, scouter: Scouter, bound: str, code: int
) -> None:
    rows = forty()
    labels = write(priced / "labels.jsonl", [*rows[15:25], *rows[:15]])
    flags = ["--providers", "p.yaml", "--judge-budget", "0.03", "-q", bound]
    with LLMTestServer(scored):
        done = calibrate(scouter, labels, *flags)

    assert done.returncode == code, done.stderr
    assert "15 outcomes skipped" in done.stdout
    assert "rests on 10 of 25 labelled records" in done.stdout


def test_a_budget_for_nothing_calibrates_nothing(priced: Path, scouter: Scouter) -> None:
    labels = write(priced / "labels.jsonl", forty())
    with LLMTestServer(scored) as server:
        done = calibrate(scouter, labels, "--providers", "p.yaml", "--judge-budget", "0")
        bare = calibrate(scouter, labels, "--judge-budget", "5")
        assert server.calls == 0

    assert (done.returncode, bare.returncode) == (2, 2)
    assert "decided none of the 40 labelled records: skipped: budget (40)" in done.stderr
    assert "price" in bare.stderr
    assert not (priced / "judge.json").exists()


def test_a_collector_that_keeps_answers_is_not_called(
    desk: Path, scouter: Scouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A calibration measures the judge, and no cache, wherever the environment names one."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(desk / "config"))
    labels = write(desk / "labels.jsonl", forty())
    with LLMTestServer({"score": 5}) as collector, LLMTestServer({"score": 5}) as server:
        for calls in (40, 80):
            done = calibrate(scouter, labels, SCOUTER_JUDGE_CACHE=collector.root)
            assert (done.returncode, server.calls) == (0, calls), done.stderr

    assert collector.requests == []
    assert not (desk / "cache").exists()


def test_verdicts_that_are_there_are_not_requested(
    desk: Path, scouter: Scouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless a file of entries is named, which says that a model is meant to be called."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(desk / "config"))
    rows = [{**row, "judge": row["label"]} for row in forty()]
    labels = write(desk / "labels.jsonl", rows)
    with LLMTestServer({"score": 5}) as server:
        entries = f"{{house: {{kind: openai, base_url: '{server.url}', keyless: true}}}}"
        (desk / "p.yaml").write_text(f"providers: {entries}")
        profile = PROFILE.replace("provider: openai", "provider: house")
        (desk / "desk.yaml").write_text(profile, encoding="utf-8")
        done = calibrate(scouter, labels)
        assert server.calls == 0
        called = calibrate(scouter, labels, "--providers", "p.yaml")
        assert server.calls == 40
    assert (done.returncode, called.returncode) == (0, 0), called.stderr


def test_a_part_of_the_records_is_all_of_the_labelled_ones(desk: Path, scouter: Scouter) -> None:
    """`sample_rate` is for live traffic."""
    place = "    context_path: score"
    profile = PROFILE.replace(place, f"    sample_rate: 0.01\n{place}")
    (desk / "desk.yaml").write_text(profile, encoding="utf-8")
    labels = write(desk / "labels.jsonl", forty())
    done = calibrate(scouter, labels, "--judge", "desk_judge:judge")
    assert done.returncode == 0, done.stderr
    assert Calibration.load(desk / "judge.json").counts.table == ((18, 2), (4, 16))
