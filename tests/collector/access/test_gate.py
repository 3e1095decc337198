"""Callers that are let in: without a token from this machine only, then with one."""

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.access.caller import ALL_SCOPES, Scope
from collector.access.gate import Gate, RateLimit
from collector.access.tokens import FILE_NAME, TokenFile
from collector.problem import ProblemError


class Clock:
    """Seconds that the test moves."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tokens(tmp_path_factory: pytest.TempPathFactory, clock: Clock) -> TokenFile:
    return TokenFile(tmp_path_factory.mktemp("data"), lambda: int(clock.now * 1e9), clock)


@pytest.fixture
def gate(tokens: TokenFile, clock: Clock) -> Gate:
    return Gate(tokens, "home", requests_per_s=5, is_reachable=False, clock=clock)


def refusal(gate: Gate, authorization: str | None, address: str = "10.0.0.1") -> ProblemError:
    with pytest.raises(ProblemError) as caught:
        gate.caller(authorization, address)
    return caught.value


def test_without_a_token_anybody_may_do_everything(gate: Gate) -> None:
    caller = gate.caller(None, "127.0.0.1")
    assert (caller.space, caller.scopes) == ("home", ALL_SCOPES)
    assert gate.caller("Bearer nonsense", "127.0.0.1") == caller


def test_from_the_first_token_on_one_is_required(
    gate: Gate, tokens: TokenFile, clock: Clock
) -> None:
    made, text = tokens.create("", [Scope.READ], "shop")
    clock.now += 1
    missing = refusal(gate, None)
    assert (missing.status, missing.headers["WWW-Authenticate"]) == (401, "Bearer")
    for wrong in (f"Basic {text}", text, f"Bearer {text[:-1]}", "Bearer", ""):
        assert refusal(gate, wrong).status == 401
    for right in (f"Bearer {text}", f"bearer  {text} "):
        caller = gate.caller(right, "10.0.0.1")
        assert (caller.space, caller.scopes, caller.token_id) == ("shop", {"read"}, made.id)
    tokens.revoke(made.id)
    clock.now += 1
    assert refusal(gate, f"Bearer {text}").status == 401


def emptied(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM tokens")


def without_table(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TABLE tokens")


def with_other_rows(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE tokens SET scopes = 'everything'")


FATES: Final[Mapping[str, Callable[[Path], object]]] = {
    "nothing": lambda path: path,
    "removed": Path.unlink,
    "of-no-bytes": lambda path: path.write_bytes(b""),
    "nonsense": lambda path: path.write_bytes(b"nonsense" * 1000),
    "emptied": emptied,
    "without-table": without_table,
    "other-rows": with_other_rows,
    "a-folder": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.mark.parametrize("is_reachable", [False, True], ids=["loopback", "reachable"])
@pytest.mark.parametrize("end", ["revoked", "expired"])
@pytest.mark.parametrize("fate", FATES)
def test_what_was_guarded_never_opens(
    tmp_path: Path, clock: Clock, is_reachable: bool, end: str, fate: str
) -> None:
    """When its last token has ended, and whatever becomes of the file: at once, and later."""
    tokens = TokenFile(tmp_path, lambda: int(clock.now * 1e9), clock)
    gate = Gate(tokens, "home", requests_per_s=5, is_reachable=is_reachable, clock=clock)
    made, text = tokens.create("", [Scope.READ], "home", int((clock.now + 5) * 1e9))
    clock.now += 1
    assert gate.caller(f"Bearer {text}", "127.0.0.1").token_id == made.id
    if end == "revoked":
        assert tokens.revoke(made.id)
    FATES[fate](tmp_path / FILE_NAME)
    for passed_s in (5.0, 0.0, 1.0, 11.0, 3600.0):
        clock.now += passed_s
        for authorization in (None, f"Bearer {text}", "Bearer nonsense"):
            assert refusal(gate, authorization, "127.0.0.1").status in (401, 429, 503)


def test_what_others_can_reach_is_guarded_without_any_token(
    tokens: TokenFile, clock: Clock
) -> None:
    gate = Gate(tokens, "home", requests_per_s=5, is_reachable=True, clock=clock)
    assert refusal(gate, None, "127.0.0.1").status == 401
    gate.check_headers("scouter.example:4318", None)


def test_who_cannot_read_the_tokens_tells_no_path(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """The log does, once for each fault."""
    tokens = TokenFile(tmp_path, clock=clock)
    gate = Gate(tokens, "home", requests_per_s=5, is_reachable=False, clock=clock)
    tokens.create("", [Scope.READ], "shop")
    clock.now += 1
    assert tokens.has_any()
    path = tmp_path / FILE_NAME
    path.unlink()
    for _ in range(3):
        clock.now += 11
        assert (refusal(gate, None).status, refusal(gate, None).detail) == (
            503, "tokens cannot be read now",
        )  # fmt: skip
    assert [str(path) in each.getMessage() for each in caplog.records] == [True]


@pytest.mark.parametrize(
    ("address", "is_let_in"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.0.0.7", False),
        ("::ffff:10.0.0.7", False),
        ("0.0.0.0", False),  # noqa: S104 nothing listens in this test
        ("::", False),
        ("fe80::1%eth0", False),
        ("localhost", False),
        ("", False),
    ],
)
def test_without_a_token_only_this_machine_is_answered(
    gate: Gate, address: str, is_let_in: bool
) -> None:
    if is_let_in:
        assert gate.caller(None, address).space == "home"
    else:
        assert refusal(gate, None, address).status == 403


def test_a_lacking_scope_is_named(gate: Gate, tokens: TokenFile, clock: Clock) -> None:
    made, text = tokens.create("", [Scope.READ, Scope.INGEST], "shop")
    clock.now += 1
    caller = gate.caller(f"Bearer {text}", "10.0.0.1")
    caller.check(Scope.INGEST)
    with pytest.raises(ProblemError) as caught:
        caller.check(Scope.ADMIN)
    assert caught.value.status == 403
    assert (
        caught.value.detail == f"this needs the scope admin; the token {made.id} has ingest, read"
    )


def test_guessing_is_slowed_down_and_keeps_nobody_else_out(
    gate: Gate, tokens: TokenFile, clock: Clock
) -> None:
    """Ten at once from one address, then one in six seconds."""
    _, text = tokens.create("", [Scope.READ], "shop")
    clock.now += 1
    found = [refusal(gate, "Bearer x").status for _ in range(12)]
    assert found == [401] * 10 + [429] * 2
    assert refusal(gate, "Bearer x").headers["Retry-After"] == "6"
    assert refusal(gate, "Bearer x", "10.0.0.2").status == 401
    assert gate.caller(f"Bearer {text}", "10.0.0.1").space == "shop"
    clock.now += 6
    assert refusal(gate, "Bearer x").status == 401


def test_who_comes_without_a_token_is_slowed_down_like_who_guesses(
    gate: Gate, tokens: TokenFile, clock: Clock
) -> None:
    """The two together: ten at once. A probe without one is no attempt; one with a guess is."""
    tokens.create("", [Scope.READ], "shop")
    clock.now += 1

    def probe(authorization: str | None) -> int:
        with pytest.raises(ProblemError) as caught:
            gate.caller(authorization, "10.0.0.1", is_probe=True)
        return caught.value.status

    assert [probe(None) for _ in range(20)] == [401] * 20
    statuses = [refusal(gate, (None, "Bearer x")[n % 2]).status for n in range(9)]
    assert [*statuses, probe("Bearer x")] == [401] * 10
    assert [refusal(gate, None).status, refusal(gate, "Bearer x").status] == [429, 429]
    assert refusal(gate, None).headers["Retry-After"] == "6"
    assert (probe("Bearer x"), probe(None)) == (429, 401)
    assert refusal(gate, None, "10.0.0.2").status == 401
    clock.now += 6
    assert refusal(gate, None).status == 401


def test_one_token_sends_so_many_requests_from_one_address(
    gate: Gate, tokens: TokenFile, clock: Clock
) -> None:
    """Five a second, ten at once; another address or token has its own."""
    _, first = tokens.create("", [Scope.READ], "shop")
    _, second = tokens.create("", [Scope.READ], "shop")
    clock.now += 1
    for _ in range(10):
        gate.caller(f"Bearer {first}", "10.0.0.1")
    assert refusal(gate, f"Bearer {first}").status == 429
    gate.caller(f"Bearer {first}", "10.0.0.2")
    gate.caller(f"Bearer {second}", "10.0.0.1")
    clock.now += 0.2
    gate.caller(f"Bearer {first}", "10.0.0.1")
    assert refusal(gate, f"Bearer {first}").status == 429


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("localhost:4318", None, 0),
        ("127.0.0.1:4318", None, 0),
        ("127.1.2.3", None, 0),
        ("[::1]:4318", None, 0),
        ("LOCALHOST", None, 0),
        ("scouter.localhost:4318", None, 0),
        (None, None, 421),
        ("", None, 421),
        ("attacker.example:4318", None, 421),
        ("localhost.attacker.example", None, 421),
        ("127.0.0.1.attacker.example", None, 421),
        ("192.168.0.7:4318", None, 421),
        ("0.0.0.0:4318", None, 421),
        ("localhost:", None, 0),  # RFC 3986 lets a port be empty
        ("[::1]", None, 0),
        ("[::ffff:127.0.0.1]:4318", None, 0),
        ("Scouter.LocalHost", None, 0),
        ("localhost.", None, 421),
        ("127.0.0.1.", None, 421),
        ("localhost.attacker.example.", None, 421),
        ("attackerlocalhost", None, 421),
        ("127.1", None, 421),
        ("2130706433", None, 421),
        ("0177.0.0.1", None, 421),
        ("[::]", None, 421),
        ("[::ffff:10.0.0.7]", None, 421),
        ("[:::1]", None, 421),
        ("[::", None, 400),
        ("::1", None, 400),
        ("::1]:4318", None, 400),
        ("[::1]4318", None, 400),
        ("[::1%25lo]", None, 400),
        ("[127.0.0.1", None, 400),
        ("[localhost]", None, 400),
        ("user@localhost", None, 400),
        ("attacker.example@localhost", None, 400),
        ("attacker.example:80@localhost:4318", None, 400),
        ("attacker.example:@127.0.0.1", None, 400),
        ("@localhost", None, 400),
        ("localhost@attacker.example", None, 400),
        ("localhost:4318:4318", None, 400),
        ("localhost:http", None, 400),
        ("localhost:+80", None, 400),
        ("localhost:\xb2", None, 400),
        ("localhost:431800", None, 400),
        (":4318", None, 400),
        ("localhost attacker.example", None, 400),
        ("attacker.example localhost", None, 400),
        (" localhost", None, 400),
        ("localhost\n", None, 400),
        ("localhost\t", None, 400),
        ("localhost\0", None, 400),
        ("localhost, attacker.example", None, 400),
        ("attacker.example/localhost", None, 400),
        ("attacker.example#.localhost", None, 400),
        ("attacker.example?.localhost", None, 400),
        ("attacker.example\\.localhost", None, 400),
        ("http://localhost", None, 400),
        ("local%68ost", None, 400),
        ("l\xf6calhost", None, 400),
        ("a" * 256 + ".localhost", None, 400),
        ("user@localhost", "http://user@localhost", 400),
        ("localhost:4318", "http://localhost:4318", 0),
        ("localhost:4318", "http://localhost:9999", 403),
        ("localhost:4318", "https://attacker.example", 403),
        ("localhost:4318", "null", 403),
        ("localhost:4318", "http://[x", 403),
        ("attacker.example", "http://attacker.example", 421),
    ],
)
def test_what_other_sites_make_a_browser_send(
    gate: Gate, host: str | None, origin: str | None, status: int
) -> None:
    """A name that was made to point at this machine is still the name of another site."""
    if not status:
        gate.check_headers(host, origin)
        return
    with pytest.raises(ProblemError) as caught:
        gate.check_headers(host, origin)
    assert caught.value.status == status


def test_with_tokens_any_host_is_served_but_no_other_sites_pages(
    gate: Gate, tokens: TokenFile, clock: Clock
) -> None:
    tokens.create("", [Scope.READ], "shop")
    clock.now += 1
    for host in ("scouter.example:4318", "my_service", "10.0.0.7:4318", "[fd00::7]", None, ""):
        gate.check_headers(host, None)
    with pytest.raises(ProblemError) as caught:
        gate.check_headers("scouter.example:4318", "https://attacker.example")
    assert caught.value.status == 403
    with pytest.raises(ProblemError) as caught:
        gate.check_headers("attacker.example@scouter.example", None)
    assert caught.value.status == 400


@given(
    st.integers(1, 5),
    st.integers(1, 4),
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 8)), max_size=60),
)
def test_a_bucket_holds_what_the_definition_says(
    per_s: int, burst: int, calls: list[tuple[str, int]]
) -> None:
    """Time moves in quarters of a second; the level is computed anew from all that went before."""
    now = Fraction(0)
    limit = RateLimit(per_s, burst, lambda: float(now))
    taken: dict[str, list[Fraction]] = {"a": [], "b": []}
    for key, quarters in calls:
        now += Fraction(quarters, 4)
        level, at = Fraction(burst), Fraction(0)
        for each in taken[key]:
            level, at = min(Fraction(burst), level + (each - at) * per_s) - 1, each
        level = min(Fraction(burst), level + (now - at) * per_s)
        assert abs(limit.take(key) - max(0, (1 - level) / per_s)) < 1e-9
        if level >= 1:
            taken[key].append(now)


def test_only_so_many_are_remembered() -> None:
    limit = RateLimit(1, 1, lambda: 0.0)
    assert limit.take("first") == 0
    assert limit.take("first") == 1
    for n in range(10_000):
        limit.take(n)
    assert limit.take("first") == 0
