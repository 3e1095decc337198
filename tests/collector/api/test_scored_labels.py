"""Labels with a score: on the judge's scale, with agreement, errors of the judge, and a file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scouter.agent.calibration.labels import read_labels
from scouter.cli.calibrating import Wanted, run
from scouter.client.client import ScouterClient
from tests.collector.conftest import Service
from tests.support.scored_desk import profile, scored_desk
from tests.support.served import serve

JUDGE = (1, 5, 3, 4, 2, 5)
ADA = (1, 4, 3, 5, 2, 3)
BOB = (1, 4, 4, 5)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Six records with the scores of `JUDGE`; ada scored all of them, bob the first four."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOUSE_KEY", "sk-house")
        with scored_desk(tmp_path_factory.mktemp("desk"), JUDGE) as service:
            for rater, scores in (("ada", ADA), ("bob", BOB)):
                for at, score in enumerate(scores):
                    assert post(service, uid=f"u{at}", score=score, rater=rater).is_success
            yield service


def post(service: Service, **fields: Any) -> Any:
    given = {"task_id": "tone", "rater": "ada"} | fields
    return service.http.post("/api/v1/labels", json=given)


def test_a_score_says_whether_the_record_is_good(service: Service) -> None:
    """As the task does: from 4 on."""
    found = service.get("/api/v1/labels", rater="ada", task_id="tone")["items"]
    assert [(each["uid"], each["score"], each["label"]) for each in found[::-1]] == [
        (f"u{at}", score, score >= 4) for at, score in enumerate(ADA)
    ]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"score": 6}, "score: expected a number from 1 to 5, got 6"),
        ({"score": 0.5}, "from 1 to 5"),
        ({"score": 3, "label": True}, "expected one of them"),
        ({}, "label and score are missing"),
        ({"score": "many"}, "score"),
        ({"score": 3, "task_id": "bare"}, "this task has no scale"),
    ],
    ids=["above", "below", "both", "neither", "text", "no scale"],
)
def test_what_is_no_score_is_refused(service: Service, fields: Any, words: str) -> None:
    answer = post(service, uid="u0", rater="eve", **fields)
    assert answer.status_code == 400
    assert words in answer.json()["detail"]
    assert service.get("/api/v1/labels", rater="eve")["items"] == []


def test_a_queue_tells_the_scale(service: Service) -> None:
    scales = {
        task: service.get("/api/v1/labels/queue", profile="desk", task_id=task)["scale"]
        for task in ("tone", "wide", "bare")
    }
    assert scales == {
        "tone": {"least": 1, "most": 5, "steps": [1, 2, 3, 4, 5]},
        "wide": {"least": 0, "most": 100, "steps": []},
        "bare": None,
    }


def test_tasks_have_the_number_of_their_labels(service: Service) -> None:
    found = service.get("/api/v1/labels/tasks")["items"]
    assert [(each["task_id"], each["is_judge"]) for each in found] == [
        ("tone", True), ("wide", True), ("bare", True),
    ]  # fmt: skip
    assert [(each["records"], each["raters"]) for each in found if each["task_id"] != "wide"] == [
        (6, 2), (0, 0),
    ]  # fmt: skip


def test_agreement_of_scores_by_hand(service: Service) -> None:
    """Both scored (1, 1) (4, 4) (3, 4) (5, 5): sum 27, squares 109; one pair differs by 1.

    Alpha is 1 - 7 / 8 * 2 * (1 / 2) / (109 - 27**2 / 8). The means are 1 4 3.5 5 2 3, the judge's
    scores less them 0 1 -0.5 -1 0 2.
    """
    found = service.get("/api/v1/labels/agreement", profile="desk", task_id="tone")
    alpha = 1 - 7 / 8 / (109 - 27**2 / 8)
    scores = found["scores"]
    assert (scores["records"], scores["compared"]) == (6, 6)
    assert scores["everybody"]["value"] == pytest.approx(alpha)
    assert scores["mean_absolute_error"]["value"] == pytest.approx(4.5 / 6)
    assert scores["bias"]["value"] == pytest.approx(1.5 / 6)
    (pair,) = found["pairs"]
    assert (pair["records"], pair["scored"]) == (4, 4)
    assert pair["alpha"]["value"] == pytest.approx(alpha)
    other = service.get("/api/v1/labels/agreement", profile="desk", task_id="wide")
    assert other["scores"] is None


def test_the_client_scores(service: Service) -> None:
    with serve(service.collector.app) as url, ScouterClient(url) as client:
        given = client.label("u0", "wide", None, "ada", score=12.5)
        assert (given.score, given.label) == (12.5, True)
        assert client.label_queue("desk", "wide", rater="ada").labelled == 1
        assert client.label("u0", "wide", None, "ada").label is None
        assert client.label_agreement("desk", "wide").scores is None


def test_a_calibration_reads_the_scores(service: Service, tmp_path: Path) -> None:
    """The same figures as the agreement, and the judge's scores with them."""
    file = profile().save_to_json(tmp_path / "desk.json")
    with serve(service.collector.app) as url:
        with ScouterClient(url) as client:
            (tmp_path / "labels.jsonl").write_bytes(b"".join(client.label_file("desk", "tone")))
        wanted = Wanted(labels=url, profile=str(file), task="tone")
        found = run(wanted, is_quiet=True)
    read = read_labels(tmp_path / "labels.jsonl")
    assert read.problems == ()
    assert [(each.rater, each.score, each.label) for _, each in read.labels] == [
        *(("ada", score, None) for score in ADA),
        *(("bob", score, None) for score in BOB),
    ]
    assert [each.judge_score for _, each in read.labels] == [*JUDGE, *JUDGE[:4]]
    assert found.score_errors is not None
    assert found.score_errors.mean_absolute_error.value == pytest.approx(4.5 / 6)
