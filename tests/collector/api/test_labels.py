"""Labels: queues, what counts, agreement, and the file that a calibration reads."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from collector.access.caller import Scope
from collector.access.tokens import TokenFile
from collector.labelling.agreement import agreement_of
from collector.labelling.queue import doubt
from collector.store.labels import LabelRow
from collector.store.rows import TaskRow
from scouter.agent.calibration.drawn import confusion_of
from scouter.agent.calibration.labels import read_labels
from scouter.client.client import ScouterClient
from scouter.client.models.labels import LabelAgreement
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.statistics.agreement import cohen_kappa
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.model.otlp import encode_request
from tests.collector.conftest import Service, Start
from tests.contracts.store_data import TRACE, span
from tests.support.files import files_with
from tests.support.processes import wait_until
from tests.support.served import serve

JSON = {"Content-Type": "application/json"}


@pytest.fixture
def service(start: Start, answers: Path) -> Service:
    """Six records; the last two fail."""
    service = start(profile=[str(answers)])
    records = [
        {"uid": f"u{number}", "record_id": f"r{number}", "profile": "answers",
         "session_id": f"s{number}", "context": {"answer": 42 if number < 4 else 41}}
        for number in range(6)
    ]  # fmt: skip
    service.send(*records[:5])
    service.wait_for(5)
    service.send(records[5])  # is the last one that is evaluated
    service.wait_for(6)
    return service


def label(service: Service, uid: str, is_good: bool | None, rater: str = "ada", **more: Any) -> Any:
    body = {"uid": uid, "task_id": "right", "label": is_good, "rater": rater, **more}
    answer = service.http.post("/api/v1/labels", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def queue(service: Service, **more: str | int) -> Any:
    return service.get("/api/v1/labels/queue", profile="answers", task_id="right", limit=20, **more)


def uids(found: Any) -> list[str]:
    return [each["uid"] for each in found["items"]]


def test_a_queue_hides_the_outcome_until_it_is_requested(service: Service) -> None:
    found = queue(service, rater="ada")
    assert sorted(uids(found)) == [f"u{number}" for number in range(6)]
    assert (found["labelled"], found["waiting"]) == (0, 6)
    assert {each["result"] is None for each in found["items"]} == {True}
    assert found["items"][0]["context"]["answer"] in (41, 42)
    assert uids(queue(service, rater="bob")) == uids(found), "people meet on the same records"
    shown = queue(service, rater="ada", order="failed", reveal="true")
    assert uids(shown) == ["u5", "u4"]
    assert shown["items"][0]["result"]["outcome"] == "failed"


def test_a_label_knows_how_its_record_was_drawn(service: Service) -> None:
    """Of six records four pass; the server counts them, and the order of the first label stays."""
    found = queue(service, rater="ada", order="outcome")
    assert sorted(uids(found)) == [f"u{number}" for number in range(6)]
    kinds = ["FP"[int(uid[1]) < 4] for uid in uids(found)]
    assert [{*kinds[:2]}, {*kinds[2:4]}, {*kinds[4:]}] == [{"P", "F"}, {"P", "F"}, {"P"}]
    assert {each["result"] is None for each in found["items"]} == {True}

    def origin(uid: str, **more: Any) -> tuple[str | None, str | None, int | None]:
        item = label(service, uid, True, **more)
        return item["order"], item["stratum"], item["size"]

    assert origin("u1", order="outcome", is_blind=True) == ("outcome", "passed", 4)
    assert origin("u5", order="outcome") == ("outcome", "failed", 2)
    assert origin("u2", order="random") == ("random", "all", 6)
    assert origin("u4", order="failed", is_blind=False) == ("failed", None, None)
    assert origin("u3") == (None, None, None)
    # a new label, and one that is taken back, keep the origin; of another person it is their own
    assert origin("u4", order="outcome") == ("failed", None, None)
    assert origin("u4", order="outcome", rater="bob") == ("outcome", "failed", 2)
    taken = label(service, "u1", None)
    assert (taken["order"], taken["size"]) == ("outcome", 4)
    item = service.get("/api/v1/labels", uid="u5")["items"][0]
    assert (item["order"], item["stratum"], item["size"]) == ("outcome", "failed", 2)


def test_what_more_labels_would_tell(service: Service) -> None:
    """Only blind labels of records that were drawn count; more labels make it narrower."""
    none = queue(service, order="outcome")["plan"]
    assert (none["passed"], none["failed"]) == (0, 0)
    label(service, "u1", True, order="outcome", is_blind=True)
    label(service, "u5", False, order="random", is_blind=True)
    label(service, "u2", True, order="outcome", is_blind=False)
    label(service, "u4", True, order="failed")
    plan = queue(service, order="failed")["plan"]
    assert (plan["passed"], plan["failed"]) == (1, 1)
    assert plan["width_50"] < plan["width_20"] < plan["width"] <= 1


def test_lines_to_fill_in(service: Service, tmp_path: Path) -> None:
    """As `scouter judge sample` asks for: no outcome but by the stratum, which comes last."""
    query = {"profile": "answers", "task_id": "right", "draw": 4}
    answer = service.http.get("/api/v1/labels/file", params=query)
    lines = [json.loads(line) for line in answer.text.splitlines()]
    drawn = {each["uid"]: (each["order"], each["stratum"], each["size"]) for each in lines}
    assert sorted(drawn.values()) == [
        ("outcome", "failed", 2), ("outcome", "failed", 2),
        ("outcome", "passed", 4), ("outcome", "passed", 4),
    ]  # fmt: skip
    assert all(
        (stratum == "failed") is (uid in ("u4", "u5")) for uid, (_, stratum, _) in drawn.items()
    )
    for each in lines:
        assert list(each)[:2] == ["label", "rater"]
        assert list(each)[-3:] == ["order", "stratum", "size"]
        assert (each["label"], each["session"]) == (None, f"s{each['uid'][1:]}")
        assert each["context"]["answer"] in (41, 42)
        assert "judge" not in each
    assert lines == [
        json.loads(line)
        for line in service.http.get("/api/v1/labels/file", params=query).text.splitlines()
    ]
    (tmp_path / "lines.jsonl").write_text(answer.text, encoding="utf-8")
    found = read_labels(tmp_path / "lines.jsonl")
    assert (found.labels, found.problems, found.waiting) == ((), (), 4)


def test_the_file_says_how_records_were_drawn(service: Service, tmp_path: Path) -> None:
    label(service, "u1", True, order="outcome", is_blind=True)
    label(service, "u2", True)
    query = {"profile": "answers", "task_id": "right", "contexts": "false"}
    for ending in ("jsonl", "csv"):
        answer = service.http.get("/api/v1/labels/file", params={**query, "format": ending})
        (tmp_path / f"l.{ending}").write_text(answer.text, encoding="utf-8", newline="")
        found = read_labels(tmp_path / f"l.{ending}")
        assert found.problems == ()
        said = {each.uid: (each.order, each.stratum, each.size) for _, each in found.labels}
        assert said == {"u1": ("outcome", "passed", 4), "u2": (None, None, None)}
        assert {each.uid: each.session for _, each in found.labels} == {"u1": "s1", "u2": "s2"}


def test_a_labelled_record_leaves_the_queue_of_its_rater_alone(service: Service) -> None:
    label(service, "u1", True, notes="fine")
    assert "u1" not in uids(queue(service, rater="ada"))
    assert "u1" in uids(queue(service, rater="bob"))
    assert queue(service, rater="ada")["labelled"] == 1
    shown = queue(service, rater="bob", reveal="true")["items"]
    (mine,) = [each["labels"] for each in shown if each["labels"]]
    assert (mine[0]["rater"], mine[0]["notes"]) == ("ada", "fine")


def test_the_last_label_of_a_person_counts_and_can_be_taken_back(service: Service) -> None:
    label(service, "u1", True)
    label(service, "u1", False)
    label(service, "u2", True, rater="bob")
    found = service.get("/api/v1/labels", profile="answers", task_id="right")["items"]
    assert [(each["uid"], each["label"], each["rater"]) for each in found] == [
        ("u2", True, "bob"), ("u1", False, "ada"),
    ]  # fmt: skip
    label(service, "u1", None)
    assert [each["uid"] for each in service.get("/api/v1/labels")["items"]] == ["u2"]
    assert "u1" in uids(queue(service, rater="ada"))


def test_a_name_is_spelt_as_it_was_first(service: Service) -> None:
    """Anna, anna and ' ANNA ' are one person, wherever they are named."""
    label(service, "u1", True, rater="Anna")
    assert label(service, "u1", False, rater=" anna ")["rater"] == "Anna"
    (found,) = service.get("/api/v1/labels", rater="ANNA")["items"]
    assert (found["rater"], found["label"]) == ("Anna", False)
    query = queue(service, rater="anna")
    assert (query["labelled"], query["people"]) == (1, ["Anna"])
    body = {"uid": "u1", "task_id": "right", "label": True, "rater": "  "}
    assert service.http.post("/api/v1/labels", json=body).status_code == 400


def test_a_person_returns_to_a_record(service: Service) -> None:
    """It comes with their own label, and with those of others where these are requested."""
    label(service, "u1", True, notes="fine", is_blind=False)
    label(service, "u1", False, rater="bob")
    (item,) = queue(service, rater="ada", uid="u1")["items"]
    assert (item["uid"], item["labels"], item["result"]) == ("u1", [], None)
    own = item["own"]
    assert (own["label"], own["notes"], own["is_blind"]) == (True, "fine", False)
    (item,) = queue(service, rater="ada", uid="u1", reveal="true")["items"]
    assert [each["rater"] for each in item["labels"]] == ["bob"]
    path = "/api/v1/labels/queue?profile=answers&task_id=right&uid=none"
    assert service.http.get(path).status_code == 404


def test_records_by_how_people_and_task_stand(service: Service) -> None:
    """Of six records u4 and u5 fail; people are tied on u1, and two of three say bad of u2."""
    said = {"u0": "G", "u1": "GB", "u2": "GBB", "u3": "B", "u4": "G", "u5": "BB"}
    for uid, letters in said.items():
        for rater, letter in zip(("ada", "bob", "cy"), letters, strict=False):
            label(service, uid, letter == "G", rater=rater)

    def listed(**query: str | int) -> list[str]:
        path = "/api/v1/labels/records"
        return uids(service.get(path, profile="answers", task_id="right", **query))

    listed_by = {
        "contested": ["u2", "u1"], "tied": ["u1"], "differs": ["u4", "u3", "u2"],
        "undecided": [], "good_passed": ["u0"], "good_failed": ["u4"],
        "bad_passed": ["u3", "u2"], "bad_failed": ["u5"],
    }  # fmt: skip
    assert {each: listed(standing=each) for each in listed_by} == listed_by
    assert listed(rater="BOB") == ["u5", "u2", "u1"]
    assert listed(rater="bob", standing="differs") == ["u2"]
    assert listed(offset=1, limit=2) == ["u4", "u3"]
    found = service.get("/api/v1/labels/records", profile="answers", task_id="right", limit=1)
    (item,) = found["items"]
    assert (found["total"], item["record_id"], item["outcome"]) == (6, "r5", "failed")
    assert (item["context"], len(item["labels"])) == ({"answer": 41}, 2)


def test_labels_come_in_pages(service: Service) -> None:
    for number in range(5):
        label(service, f"u{number}", True)
    seen: list[str] = []
    page = service.get("/api/v1/labels", limit=2)
    while page["next_cursor"]:
        seen += uids(page)
        page = service.get("/api/v1/labels", limit=2, cursor=page["next_cursor"])
    assert [*seen, *uids(page)] == ["u4", "u3", "u2", "u1", "u0"]


def test_the_queue_of_disagreement(service: Service) -> None:
    """The check passes u0 and fails u5; ada says the opposite of u0 only."""
    label(service, "u0", False)
    label(service, "u5", False)
    assert uids(queue(service, rater="bob", order="disagrees")) == ["u0"]


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        (dict(outcome="errored", reason=Reason.ABSTAINED), 1.0),
        (dict(outcome="passed", actual=True, expected=True, stated_score=0.6), 0.8),
        (dict(outcome="passed", actual=True, expected=True, stated_score=0.5), 1.0),
        (dict(outcome="passed", actual=True, expected=True), None),
        (dict(outcome="failed", actual=3, expected=4), 0.5),
        (dict(outcome="passed", actual=4, expected=4), 1.0),
        (dict(outcome="failed", actual="no", expected="yes"), None),
        (dict(outcome="failed", actual=10**400, expected=0.5), None),
    ],
)
def test_doubt(task: dict[str, Any], expected: float | None) -> None:
    outcome = Outcome(task.pop("outcome"))
    found = doubt(TaskRow(task_id="j", task_type="LLMJudge", outcome=outcome, **task))
    assert found == (None if expected is None else pytest.approx(expected))


def rows(said: dict[str, str]) -> list[LabelRow]:
    """By person one letter for each item: G good, B bad, a dot for none."""
    return [
        LabelRow(
            space="s", uid=f"u{at}", record_id="", alias="a", task_id="t", rater=rater,
            is_good=letter == "G", notes="", at_ns=1, by="",
        )
        for rater, letters in said.items()
        for at, letter in enumerate(letters)
        if letter != "."
    ]  # fmt: skip


def agreement(
    labels: list[LabelRow], outcomes: Mapping[str, Outcome] = MappingProxyType({})
) -> LabelAgreement:
    """Sum up labels on a task that nothing else is known of."""
    task = AssertionTask("t", None, 1, ComparisonOperator.Equals)
    return agreement_of("a", task, labels, outcomes, {}, confusion_of(()))


def test_agreement_by_hand() -> None:
    """Cohen 1960 on 2 x 2: 45 and 25 agreed, 15 and 15 not: kappa 0.4 (his po 0.7, pe 0.5)."""
    ada, bob = "G" * 45 + "G" * 5 + "B" * 50, "G" * 45 + "B" * 5 + "G" * 5 + "B" * 45
    found = agreement(rows({"ada": ada, "bob": bob}))
    (pair,) = found.pairs
    assert (pair.records, pair.agreed) == (100, 90)
    assert pair.kappa.value == pytest.approx((0.9 - 0.5) / 0.5)
    assert (found.records, found.good, found.tied) == (100, 45, 10)
    assert len(found.contested) == 10


def test_pairs_are_of_the_busiest_people() -> None:
    """Of 30, p10 to p29 label most; p00 to p09 are left out of the pairs, and of nothing else."""
    said = {f"p{n:02}": "GB" * (1 if n < 10 else 2) for n in range(30)}
    found = agreement(rows(said))
    busiest = {f"p{n}" for n in range(10, 30)}
    assert {name for each in found.pairs for name in (each.first, each.second)} == busiest
    assert len(found.pairs) == 20 * 19 // 2
    assert (found.left_out, len(found.raters)) == (10, 30)
    kappa = cohen_kappa([[2, 0], [0, 2]])
    kappas = {(each.kappa.value, each.kappa.lower, each.kappa.upper) for each in found.pairs}
    assert kappas == {(kappa.value, *kappa.interval)}


def test_a_judge_beside_the_majority() -> None:
    """Two of three say good of u0, all of u1, none of u2; u3 is a tie and left out."""
    labels = rows({"a": "GGBG", "b": "GGBB", "c": "BGB."})
    outcomes = {
        "u0": Outcome.PASSED, "u1": Outcome.FAILED, "u2": Outcome.FAILED, "u3": Outcome.PASSED,
    }  # fmt: skip
    judge = agreement(labels, outcomes).judge
    counts = (judge.good_passed, judge.good_failed, judge.bad_passed, judge.bad_failed)
    assert counts == (1, 1, 0, 1)


def test_agreement_is_answered(service: Service) -> None:
    for uid, ada, bob in (("u0", True, True), ("u4", False, False), ("u5", True, False)):
        label(service, uid, ada)
        label(service, uid, bob, rater="bob", is_blind=uid != "u5")
    found = service.get("/api/v1/labels/agreement", profile="answers", task_id="right")
    assert (found["raters"], found["left_out"]) == ({"ada": 3, "bob": 3}, 0)
    assert (found["records"], found["tied"], found["contested"]) == (3, 1, ["u5"])
    assert found["not_blind"] == 1
    assert found["judge"]["good_passed"] == 1
    assert found["judge"]["bad_failed"] == 1
    (pair,) = found["pairs"]
    assert (pair["records"], pair["agreed"]) == (3, 2)
    # By hand: both good 1, both bad 1, ada good and bob bad 1; po 2/3, pe (2*1 + 1*2)/9.
    assert pair["kappa"]["value"] == pytest.approx((2 / 3 - 4 / 9) / (5 / 9))


def test_the_file_is_what_a_calibration_reads(service: Service, tmp_path: Path) -> None:
    label(service, "u0", True, notes="says 42")
    label(service, "u5", True, rater="bob", is_blind=False)
    with serve(service.collector.app) as url, ScouterClient(url) as client:
        data = b"".join(client.label_file("answers", "right"))
        bare = b"".join(client.label_file("answers", "right", contexts=False))
    file = tmp_path / "labels.jsonl"
    file.write_bytes(data)
    read = read_labels(file)
    assert read.problems == ()
    first, second = (label for _, label in read.labels)
    assert (first.uid, first.record_id, first.label, first.judge) == ("u0", "r0", True, True)
    assert (first.rater, first.task, first.notes) == ("ada", "right", "says 42")
    assert first.context == {"answer": 42}
    assert (second.label, second.judge, second.rater) == (True, False, "bob")
    assert (first.is_blind, second.is_blind) == (None, False)
    assert all("context" not in json.loads(line) for line in bare.splitlines())


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"uid": "none"}, 404, "no record 'none' was evaluated"),
        ({"task_id": "wrong"}, 404, "has no task 'wrong'; it has: right"),
        ({"rater": ""}, 400, "rater"),
        ({"label": "maybe"}, 400, "label"),
        ({"colour": "red"}, 400, "no such field"),
    ],
)
def test_what_is_no_label_is_refused(
    service: Service, body: dict[str, str], status: int, words: str
) -> None:
    usual = {"uid": "u0", "task_id": "right", "label": True, "rater": "ada"}
    answer = service.http.post("/api/v1/labels", json={**usual, **body})
    assert answer.status_code == status
    assert words in answer.json()["detail"]
    assert service.get("/api/v1/labels")["items"] == []


def test_a_task_that_is_not_there_has_no_queue(service: Service) -> None:
    for path in ("queue", "records", "agreement", "file"):
        answer = service.http.get(f"/api/v1/labels/{path}?profile=answers&task_id=x")
        assert answer.status_code == 404, path


def test_labels_go_with_their_record(service: Service, tmp_path: Path) -> None:
    """Erased, they leave no byte; the others stay, until retention takes their records."""
    secret = "only-the-labeller-knew"
    label(service, "u0", True, notes=secret)
    label(service, "u1", True)
    assert service.http.post("/api/v1/erase", json={"record_uid": "u0"}).json()["records"] == 1
    assert uids(service.get("/api/v1/labels")) == ["u1"]
    wait_until(lambda: not files_with(tmp_path / "data", secret.encode()), what="bytes that go")
    body = {"uid": "u0", "task_id": "right", "label": True, "rater": "ada"}
    assert service.http.post("/api/v1/labels", json=body).status_code == 404
    service.collector.store.remove_before(2**62)
    assert service.get("/api/v1/labels")["items"] == []


def test_notes_on_a_record_that_read_what_is_erased_are_blank(
    start: Start, traced: Path, tmp_path: Path
) -> None:
    """The record stays, with its label: a span of its trace belonged to the erased session."""
    service = start(profile=[str(traced)])
    secret = "what-the-span-had-said"
    spans = [
        span(1, name="step"),
        span(2, parent_span_id=f"{1:016x}", name="step", attributes={"session.id": "s1"}),
    ]
    media = {"Content-Type": "application/x-protobuf"}
    data = encode_request(spans).SerializeToString()
    assert service.http.post("/v1/traces", content=data, headers=media).is_success
    service.send({"uid": "u", "profile": "traced", "session_id": "s2", "trace_id": TRACE})
    service.wait_for(1)
    body = {"uid": "u", "task_id": "two_steps", "label": True, "rater": "ada", "notes": secret}
    assert service.http.post("/api/v1/labels", json=body).status_code == 200
    done = service.http.post("/api/v1/erase", json={"session_id": "s1"}).json()
    assert (done["records"], done["spans"]) == (0, 1)
    (stored,) = service.get("/api/v1/labels")["items"]
    assert (stored["uid"], stored["label"], stored["notes"]) == ("u", True, "")


def test_a_label_that_an_erasure_overtakes_is_dropped(service: Service) -> None:
    service.http.post("/api/v1/erase", json={"record_uid": "u0"})
    row = LabelRow(
        space="default", uid="u0", record_id="", alias="answers", task_id="right", rater="ada",
        is_good=True, notes="", at_ns=1, by="",
    )  # fmt: skip
    service.collector.store.append_labels([row])
    assert service.get("/api/v1/labels")["items"] == []


def test_a_backup_has_the_labels(start: Start, answers: Path, tmp_path: Path) -> None:
    service = start(backups=str(tmp_path / "copies"), profile=[str(answers)])
    service.send({"uid": "u0", "profile": "answers", "context": {"answer": 42}})
    service.wait_for(1)
    label(service, "u0", True)
    assert service.http.post("/api/v1/backup", json={"folder": "one"}).status_code == 201
    (tmp_path / "again").mkdir()
    (tmp_path / "copies" / "one").rename(tmp_path / "again" / "data")
    again = Service(tmp_path / "again")
    assert uids(again.get("/api/v1/labels")) == ["u0"]
    again.stop()


def test_who_labels_is_stored_and_spaces_hold(start: Start, answers: Path, tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path / "data")
    token, labeller = tokens.create("ada", [Scope.LABEL], "default")
    _, reader = tokens.create("", [Scope.READ, Scope.INGEST], "default")
    _, foreign = tokens.create("eve", Scope, "bank")
    service = start(profile=[str(answers)])

    def ask(text: str, method: str, path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {text}"}
        return service.http.request(method, path, headers=headers, json=body)

    sent = {"records": [{"uid": "u0", "profile": "answers", "context": {"answer": 42}}]}
    assert ask(reader, "POST", "/v1/records", sent).status_code == 200
    wait_until(
        lambda: bool(ask(reader, "GET", "/api/v1/evaluations").json()["items"]), what="evaluation"
    )
    body = {"uid": "u0", "task_id": "right", "label": True, "rater": "ada"}
    assert ask(reader, "POST", "/api/v1/labels", body).status_code == 403
    assert ask(foreign, "POST", "/api/v1/labels", body).status_code == 404
    assert ask(labeller, "POST", "/api/v1/labels", body).json()["by"] == token.id
    assert ask(labeller, "GET", "/api/v1/labels").status_code == 403
    assert ask(foreign, "GET", "/api/v1/labels").json()["items"] == []
    records = "/api/v1/labels/records?profile=answers&task_id=right"
    assert ask(foreign, "GET", records).status_code == 404
    assert len(ask(reader, "GET", records).json()["items"]) == 1
    (stored,) = ask(reader, "GET", "/api/v1/labels").json()["items"]
    assert (stored["rater"], stored["by"]) == ("ada", token.id)
