"""Who is let in: without a token from this machine only, then with one."""

import pytest

from collector.access.caller import ALL_SCOPES, Scope
from collector.access.gate import Gate
from collector.access.tokens import TokenFile
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
    return Gate(tokens, "home", requests_per_s=5, clock=clock)


def refusal(gate: Gate, authorization: str | None, address: str = "10.0.0.1") -> ProblemError:
    with pytest.raises(ProblemError) as caught:
        gate.caller(authorization, address)
    return caught.value


def test_without_a_token_anybody_may_do_everything(gate: Gate) -> None:
    caller = gate.caller(None, "127.0.0.1")
    assert (caller.space, caller.scopes) == ("home", ALL_SCOPES)
    assert gate.caller("Bearer nonsense", "127.0.0.1") == caller


def test_from_the_first_token_on_one_is_asked_for(
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
        ("[::", None, 421),
        ("user@localhost", None, 0),
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
    gate.check_headers("scouter.example:4318", None)
    with pytest.raises(ProblemError) as caught:
        gate.check_headers("scouter.example:4318", "https://attacker.example")
    assert caught.value.status == 403
