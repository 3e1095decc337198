"""Requests of the client, its further tries, and its errors when it is refused."""

import datetime
import pickle
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from pydantic import SecretStr

from scouter.client.client import ScouterClient
from scouter.client.connection import Retry
from scouter.client.errors import ApiError, BusyError
from scouter.client.models.alerts import Alerts
from scouter.client.models.records import ProfileItem
from scouter.errors import ConfigError, DataError, TransientError
from scouter.transport.config import HttpConfig, MockConfig
from tests.support.answers import whole
from tests.support.far_side import ENDLESS, dripping, far_side, head
from tests.support.processes import free_ports
from tests.support.served import Say, Script, run_script

PROBLEM = {"type": "about:blank", "title": "", "status": 0, "detail": "such is life"}
NONE = whole(Alerts, next_cursor=None)
"""No alerts, and an empty page of any list."""
LETTER = {"letter_id": "a/b", "result": "accepted", "message": ""}


@pytest.fixture
def script() -> Iterator[Script]:
    with run_script() as running:
        yield running


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SCOUTER_URL", "SCOUTER_SERVER_URI", "SCOUTER_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)


class Pauses(list[float]):
    """Sleeps that take no time."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def client(script: Script, **options: Any) -> ScouterClient:
    given: dict[str, Any] = {"sleep": Pauses(), **options}
    return ScouterClient(script.url, **given)


# --- where it is sent ---


def test_a_transports_settings_say_where(monkeypatch: pytest.MonkeyPatch) -> None:
    kind: Any = ScouterClient
    monkeypatch.setenv("SCOUTER_SERVER_URI", "http://other:1")  # the original's name
    assert kind().url == "http://other:1"
    monkeypatch.setenv("SCOUTER_URL", "http://collector:2")
    given = HttpConfig(server_uri="http://here:3/", auth_token=SecretStr("secret"))
    assert kind(HttpConfig()).url == "http://collector:2"
    assert kind(given).url == kind(config=given).url == "http://here:3"
    assert kind().url == "http://collector:2"
    with pytest.raises(ConfigError, match="twice, by url and by config"):
        kind("http://here:3", config=given)
    with pytest.raises(ConfigError, match="an address or an HttpConfig, not a MockConfig"):
        kind(MockConfig())


@pytest.mark.parametrize(
    ("token", "sent"), [(None, "Bearer of-config"), ("own", "Bearer own")], ids=["config", "own"]
)
def test_its_token_is_sent(script: Script, token: str | None, sent: str) -> None:
    script.answers = [Say(body=NONE)]
    config = HttpConfig(server_uri=script.url, auth_token=SecretStr("of-config"))
    with ScouterClient(config, token) as ask:
        assert list(ask.spans()) == []
    assert script.asked[0].headers["authorization"] == sent


# --- what is sent ---


PROFILE = whole(ProfileItem, **{
    "space": "default", "name": "a", "alias": "a", "uid": "u1", "profile_version": "d",
    "version": "1", "is_active": False, "reads_spans": False, "tasks": ["t"],
    "registered_at": "2026-01-02T12:00:00Z",
})  # fmt: skip


def test_a_profile_is_registered_and_activated(script: Script) -> None:
    def register(**options: bool) -> bool:
        with client(script) as ask:
            return ask.register_profile({"alias": "a"}, **options).is_active

    active = PROFILE | {"is_active": True}
    script.answers = [Say(body=body) for body in (PROFILE, active, active)]
    assert not register()
    assert register(set_active=True)
    assert register(set_active=True, deactivate_others=True)
    with pytest.raises(ConfigError, match="leave the alias without a profile"):
        register(deactivate_others=True)
    known, activated = "/api/v1/profiles", "/api/v1/profiles?activate=true"
    assert [request.path for request in script.asked] == [known, activated, activated]
    assert script.asked[0].body == {"alias": "a"}


def test_parameters_become_a_query_and_none_is_left_out(script: Script) -> None:
    script.answers = [Say(body=NONE)]
    noon = datetime.datetime(2026, 1, 2, 12, tzinfo=datetime.UTC)
    with client(script) as ask:
        found = ask.spans(
            name="chat é", min_duration_ms=1.5, attributes={"a.b": "c=d", "e": "&"}, since=noon,
            until=7, limit=3,
        )  # fmt: skip
        assert list(found) == []
    assert script.asked[0].path == (
        "/api/v1/spans?limit=3&name=chat%20%C3%A9&min_duration_ms=1.5&attribute=a.b%3Dc%3Dd"
        "&attribute=e%3D%26&since=2026-01-02T12%3A00%3A00%2B00%3A00&until=7"
    ).replace("%20", "+")


@pytest.mark.parametrize("method", ["spans", "evaluations", "export", "canary"])
def test_a_misspelt_argument_is_named(script: Script, method: str) -> None:
    given = {"export": ("records",), "canary": ("1", "2")}.get(method, ())
    with client(script) as ask, pytest.raises(TypeError, match=r"no argument 'untill'; .* since"):
        list(getattr(ask, method)(*given, since=1, untill=2))
    assert script.asked == []


@pytest.mark.parametrize(
    ("id", "path"),
    [
        ("a/b", "/api/v1/records/a%2Fb"),
        ("a?b#c", "/api/v1/records/a%3Fb%23c"),
        ("../erase", "/api/v1/records/..%2Ferase"),
        ("a b%2F", "/api/v1/records/a%20b%252F"),
        ("日", "/api/v1/records/%E6%97%A5"),
    ],
)
def test_an_id_stays_one_segment_of_the_path(script: Script, id: str, path: str) -> None:
    """Ids come from senders; none of them may lead to another route."""
    script.answers = [Say(404, PROBLEM)]
    with client(script) as ask, pytest.raises(ApiError):
        ask.record(id)
    assert script.asked[0].path == path


@pytest.mark.parametrize("id", ["", ".", ".."])
def test_an_id_that_is_no_segment_is_refused(script: Script, id: str) -> None:
    with client(script) as ask, pytest.raises(ConfigError, match="names nothing"):
        ask.record(id)
    assert script.asked == []


def test_a_time_without_a_zone_is_refused(script: Script) -> None:
    with client(script) as ask, pytest.raises(ConfigError, match="no time zone"):
        ask.tasks(since=datetime.datetime(2026, 1, 2))  # noqa: DTZ001 what is refused


def test_the_token_is_sent_and_never_shown(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    script.answers = [Say(body=NONE), Say(401, PROBLEM)]
    monkeypatch.setenv("SCOUTER_AUTH_TOKEN", "sct_from_environment\n")
    monkeypatch.setenv("SCOUTER_URL", script.url + "/")
    with ScouterClient() as ask:
        ask.alerts()
    with ScouterClient(token="sct_given") as ask:
        with pytest.raises(ApiError) as caught:
            ask.alerts()
        shown = f"{caught.value} {caught.value!r} {vars(ask)}"
    sent = [request.headers["authorization"] for request in script.asked]
    assert sent == ["Bearer sct_from_environment", "Bearer sct_given"]
    assert "sct_given" not in shown
    assert "`scouter token create`" in str(caught.value)
    assert "SCOUTER_AUTH_TOKEN" in str(caught.value)


@pytest.mark.parametrize(
    ("url", "token", "says"),
    [
        ("localhost:4318", None, "no address"),
        ("ftp://host", None, "no address"),
        ("http://", None, "no address"),
        ("http://host?token=x", None, "no address"),
        ("http://[::1", None, "cannot be read"),
        ("http://host", "two words", "letters that no token has"),
        ("http://host", "line\n", "letters that no token has"),
    ],
)
def test_addresses_and_tokens_that_cannot_be(url: str, token: str | None, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        ScouterClient(url, token)


def test_a_secret_in_the_address_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigError, match="holds a user") as caught:
        ScouterClient("http://me:hidden@host")
    assert "hidden" not in str(caught.value)


# --- pages ---


def letter(number: int) -> dict[str, Any]:
    return {
        "letter_id": str(number), "kind": "record", "reason": "r", "message": "", "source": "http",
        "uid": "", "received_at": "2026-01-02T03:04:05.678901Z", "was_accepted": True,
        "size_bytes": 0, "payload": "", "payload_base64": None, "of_a_later_version": [1],
    }  # fmt: skip


def test_pages_are_read_one_after_the_other_and_only_when_needed(script: Script) -> None:
    script.answers = [
        Say(body={"items": [letter(1), letter(2)], "next_cursor": "x=="}),
        Say(body={"items": [letter(3)], "next_cursor": None}),
    ]
    with client(script) as ask:
        letters = ask.dead_letters(reason="r")
        assert script.asked == []
        first = [next(letters).letter_id, next(letters).letter_id]
        assert len(script.asked) == 1
        assert [*first, *(each.letter_id for each in letters)] == ["1", "2", "3"]
    assert [request.path for request in script.asked] == [
        "/api/v1/dead-letters?reason=r",
        "/api/v1/dead-letters?reason=r&cursor=x%3D%3D",
    ]


def test_times_are_read_and_unknown_fields_passed_over(script: Script) -> None:
    script.answers = [Say(body={"items": [letter(1)]})]
    with client(script) as ask:
        (found,) = ask.dead_letters()
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901, datetime.UTC)
    assert found.received_at == moment
    assert not hasattr(found, "of_a_later_version")


# --- asking again ---


@pytest.mark.parametrize(
    ("answers", "deliveries", "pauses"),
    [
        ([(503, "0"), (200, None)], 2, [0]),
        ([(429, "2"), (502, "3"), (504, "4"), (200, None)], 4, [2, 3, 4]),
        ([(503, "1"), (503, "1"), (503, "1"), (503, "1")], 4, [1, 1, 1]),
        ([(503, "11")], 1, []),  # longer than the longest pause
        ([(500, "1")], 1, []),
        ([(404, "1")], 1, []),
        ([(302, "1")], 1, []),
    ],
)
def test_what_is_tried_again(
    script: Script, answers: list[tuple[int, str | None]], deliveries: int, pauses: list[float]
) -> None:
    """The script ends with a failure where there is no 200."""
    status = answers[-1][0]
    script.answers = [
        Say(each, PROBLEM if each != 200 else NONE, {"Retry-After": wait} if wait else {})
        for each, wait in answers
    ]
    waited = Pauses()
    error = _error_of(script, waited)
    assert (len(script.asked), waited) == (deliveries, pauses)
    if status == 200:
        assert error is None
    else:
        assert isinstance(error, ApiError)
        assert (error.status, error.detail) == (status, "such is life")
        assert isinstance(error, BusyError) == error.retryable == (status == 503)


def _error_of(script: Script, waited: Pauses) -> ApiError | None:
    try:
        with client(script, sleep=waited) as ask:
            ask.alerts()
    except ApiError as error:
        return error
    return None


def test_pauses_grow_and_are_not_the_same_for_all(script: Script) -> None:
    script.answers = [Say(503, PROBLEM) for _ in range(6)]
    waited = Pauses()
    retry = Retry(tries=6, first_pause_s=1, longest_pause_s=5)
    with client(script, sleep=waited, retry=retry) as ask, pytest.raises(BusyError):
        ask.alerts()
    for seconds, longest in zip(waited, [1, 2, 4, 5, 5], strict=True):
        assert longest / 2 <= seconds <= longest
    assert len(set(waited)) == 5


@pytest.mark.parametrize(("status", "deliveries"), [(429, 2), (503, 1)])
def test_an_order_that_must_not_be_given_twice(
    script: Script, status: int, deliveries: int
) -> None:
    """A letter that was taken in is gone, so that a second order would say 404."""
    script.answers = [Say(status, PROBLEM, {"Retry-After": "0"}), Say(body=LETTER)]
    with client(script) as ask, suppress(BusyError):
        ask.replay_letter("a/b")
    path = "/api/v1/dead-letters/a%2Fb/replay"
    assert [(request.method, request.path) for request in script.asked] == [
        ("POST", path)
    ] * deliveries


ERASED: dict[str, Any] = {
    "records": 1, "spans": 2, "evaluations": 3, "dead_letters": 0, "runs": 0, "is_gone": True,
    "backups": [],
}  # fmt: skip
REPLAYED: dict[str, Any] = {
    "items": [], "accepted": 0, "waiting": 0, "refused": 0, "next_cursor": None,
}  # fmt: skip
JUDGED: dict[str, Any] = {
    "profile": "a", "profile_version": "d", "dry_run": True, "checked": 0, "flipped": 0,
    "stored": 0, "gone": 0, "moved": 0, "still_open": 0, "new_tasks": [], "removed_tasks": [],
    "items": [], "next_cursor": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("order", "given", "answer"),
    [
        ("erase", {"session_id": "s"}, ERASED),
        ("replay_letter", {"letter_id": "a/b"}, LETTER),
        ("replay_letters", {}, REPLAYED),
        ("reevaluate", {"profile": "a"}, JUDGED),
    ],
)
def test_an_order_that_takes_long_is_waited_for(
    script: Script, order: str, given: dict[str, Any], answer: dict[str, Any]
) -> None:
    """A connection that a busy machine makes too late is tried again."""
    options: dict[str, Any] = {"timeout_s": 0.2, "retry": Retry(tries=8, first_pause_s=0.0)}
    script.answers = [Say(body=answer, delay_s=0.5)]
    with client(script, **options) as ask:
        done = getattr(ask, order)(**given)
        assert done.model_dump(mode="json") == answer


def test_a_question_is_given_up_as_the_client_was_configured(script: Script) -> None:
    """The client waits whole seconds."""
    options: dict[str, Any] = {"timeout_s": 0.1, "retry": Retry(tries=1)}
    script.answers = [Say(body=NONE, delay_s=1.5)]
    with client(script, **options) as ask, pytest.raises(TransientError, match="Timeout"):
        ask.alerts()


def test_nobody_there(script: Script) -> None:
    """An order that was never delivered is given again, too."""
    (port,) = free_ports(1)
    waited = Pauses()
    ask = ScouterClient(f"http://127.0.0.1:{port}", sleep=waited)
    with ask, pytest.raises(TransientError, match="does a collector listen there"):
        ask.erase(session_id="s")
    assert len(waited) == 3


@pytest.mark.parametrize("body", [b"<html>", b'{"items": 5}', b'{"items": [{}]}', b""])
def test_an_answer_of_somebody_else(script: Script, body: bytes) -> None:
    script.answers = [Say(body=body), Say(404, body)]
    with client(script) as ask:
        with pytest.raises(DataError, match="is this a Scouter collector"):
            list(ask.records())
        with pytest.raises(ApiError, match="is this a Scouter collector"):
            list(ask.records())


def test_an_export_is_read_in_parts_and_a_broken_one_is_requested_again(script: Script) -> None:
    """Of a part that was cut off nothing is used; the client goes on at its cursor."""
    script.answers = [
        Say(503, PROBLEM, {"Retry-After": "0"}),
        Say(body=b"a\n", headers={"Scouter-Next-Cursor": "c1"}),
        Say(body=b"b\nc", is_cut_off=True),
        Say(503, PROBLEM, {"Retry-After": "0"}),
        Say(body=b"b\nc\n", headers={"Scouter-Next-Cursor": "c2"}),
        Say(body=b"d\n"),
    ]
    with client(script) as ask:
        assert list(ask.export("records", since=1)) == [b"a\n", b"b\nc\n", b"d\n"]
    first = "/api/v1/export/records?format=jsonl&since=1&part_bytes=4194304"
    cursors = ["", "", "&cursor=c1", "&cursor=c1", "&cursor=c1", "&cursor=c2"]
    assert [request.path for request in script.asked] == [first + each for each in cursors]


@pytest.mark.parametrize(("tries", "deliveries"), [(1, 1), (2, 6)])
def test_an_export_that_cannot_go_on_says_that_it_was_cut_off(
    script: Script, tries: int, deliveries: int
) -> None:
    """A part behind the first is requested three times as often; `tries=1` never asks again."""
    script.answers = [Say(body=b"a\n", headers={"Scouter-Next-Cursor": "c1"})]
    script.answers += [Say(body=b"b\n", is_cut_off=True)] * deliveries
    with client(script, retry=Retry(tries=tries)) as ask:
        parts = ask.export("records", "csv")
        assert next(parts) == b"a\n"
        with pytest.raises(TransientError, match="cut off"):
            next(parts)
    assert script.answers == []


# --- errors ---


@pytest.mark.parametrize(
    "given", [{}, {"session_id": "a", "trace_id": "b"}, {"record_uid": "a", "tag": ("b", "c")}]
)
def test_erase_takes_exactly_one(script: Script, given: dict[str, Any]) -> None:
    with client(script) as ask, pytest.raises(ConfigError, match="exactly one"):
        ask.erase(**given)


def test_errors_cross_a_process_boundary() -> None:
    for error in (ApiError(404, "no", "GET x"), BusyError(503, "no", "GET x", 2.0)):
        back = pickle.loads(pickle.dumps(error))  # noqa: S301 our own
        assert (str(back), vars(back)) == (str(error), vars(error))


@pytest.mark.parametrize("packing", ENDLESS)
def test_an_answer_without_an_end_is_refused(packing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not sent again: it would be no shorter."""
    monkeypatch.setattr("scouter.client.connection.MOST_BYTES", 2**20)
    with far_side(ENDLESS[packing]) as far:
        with ScouterClient(far.url) as ask, pytest.raises(DataError, match="larger than"):
            ask.alerts()
        assert far.wait_until_hung_up()
        assert far.asked == 1


def test_an_answer_that_drips_is_given_up_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part comes in time, and the answer never ends."""
    monkeypatch.setattr("scouter.client.connection.ANSWER_S", 1.0)
    with (
        far_side(dripping(head("Content-Length: 1000000"))) as far,
        ScouterClient(far.url, retry=Retry(tries=1)) as ask,
        pytest.raises(TransientError, match="as a whole"),
    ):
        ask.alerts()
