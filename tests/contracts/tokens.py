"""Duties of every place that tokens are stored in. A new one adds one small subclass."""

from collections.abc import Callable, Sequence
from typing import Final

import pytest

from collector.access.caller import Scope
from collector.access.tokens import Tokens
from scouter.errors import ConfigError

BEGIN_NS: Final = 1_000 * 10**9
"""The moment at which each test begins."""


class Clock:
    """Time that the test moves: wall clock and monotonic alike, in seconds."""

    def __init__(self) -> None:
        self.now = 1000.0

    def ns(self) -> int:
        return int(self.now * 1e9)

    def __call__(self) -> float:
        return self.now


Make = Callable[[], Tokens]
"""Opens the tokens of this test as one more process would; there is none the first time."""
PassTime = Callable[[float], None]
"""Lets seconds pass, of which half a second is enough for all to follow each other."""


class TokensContract:
    """The tests; a subclass gives the fixtures `make` and `pass_time`."""

    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    @pytest.fixture
    def make(self, clock: Clock) -> Make:
        """Opens tokens."""
        raise NotImplementedError

    @pytest.fixture
    def pass_time(self, clock: Clock) -> PassTime:
        """Moves the clock."""
        raise NotImplementedError

    @pytest.fixture
    def tokens(self, make: Make) -> Tokens:
        return make()

    def test_a_token_lets_in_with_its_scopes_and_space(
        self, tokens: Tokens, pass_time: PassTime
    ) -> None:
        assert not tokens.has_any()
        made, text = tokens.create("ci", [Scope.READ, Scope.INGEST], "shop")
        assert tokens.has_any() is False  # a moment ago: it is followed, not read each time
        assert tokens.all() == [made]
        pass_time(0.5)
        found = tokens.find(text)
        assert found is not None
        assert found == made
        assert (found.space, found.scopes) == ("shop", {Scope.READ, Scope.INGEST})
        assert tokens.spaces() == {"shop"}
        assert tokens.has_any()

    def test_it_ends_when_it_expires(self, tokens: Tokens, pass_time: PassTime) -> None:
        _, text = tokens.create("", [Scope.READ], "default", expires_ns=BEGIN_NS + 10**10)
        pass_time(9.9)
        assert tokens.find(text) is not None
        pass_time(0.1)
        assert tokens.find(text) is None
        assert tokens.has_any()

    def test_another_process_that_revokes_it_is_followed(
        self, make: Make, pass_time: PassTime
    ) -> None:
        collector, command = make(), make()
        made, text = command.create("", [Scope.READ], "default")
        other, _ = command.create("", [Scope.READ], "default")
        pass_time(0.5)
        assert collector.find(text) is not None
        assert command.revoke(made.id)
        pass_time(0.5)
        assert collector.find(text) is None
        assert not command.revoke(made.id)
        assert not command.revoke("0" * 12)
        assert {each.id: each.revoked_ns for each in collector.all()} == {
            made.id: BEGIN_NS + 5 * 10**8, other.id: None,
        }  # fmt: skip

    def test_a_text_that_is_almost_a_token(self, tokens: Tokens, pass_time: PassTime) -> None:
        _, text = tokens.create("", [Scope.READ], "default")
        pass_time(1)
        assert tokens.find(text) is not None
        for wrong in (
            text[:-1],
            text + "A",
            text.swapcase(),
            text.replace("sct_", "sct-", 1),
            text[:17] + "A" * 43,
            "sct_" + "0" * 12 + text[16:],
            f"{text} ",
            "",
        ):
            assert tokens.find(wrong) is None

    def test_all_are_listed_oldest_first(self, tokens: Tokens, pass_time: PassTime) -> None:
        made: list[str] = []
        for name in ("a", "b", "c"):
            made.append(tokens.create(name, Scope, "default")[0].id)
            pass_time(1)
        tokens.revoke(made[1])
        assert [each.id for each in tokens.all()] == made

    def test_without_a_token_there_is_nothing(self, tokens: Tokens) -> None:
        assert (tokens.has_any(), tokens.all(), tokens.spaces()) == (False, [], frozenset())
        assert not tokens.revoke("3f9c2ab04d11")
        assert tokens.find("sct_3f9c2ab04d11_" + "A" * 43) is None

    def test_a_token_without_scope_is_refused(self, tokens: Tokens) -> None:
        with pytest.raises(ConfigError, match="needs a scope: ingest, read, label, profile, admin"):
            tokens.create("", [], "default")

    @pytest.mark.parametrize("space", ["", "a\nb", "\x1b[31m", "\u2028", "x" * 129])
    def test_a_space_that_can_be_none_is_refused(self, tokens: Tokens, space: str) -> None:
        with pytest.raises(ConfigError, match=r"--space.*1 to 128 printable"):
            tokens.create("", [Scope.READ], space)
        assert not tokens.all()

    @pytest.mark.parametrize("space", ["x", "a b", "Zürich / 1", "x" * 128])
    def test_spaces_come_back_as_they_were(self, tokens: Tokens, space: str) -> None:
        tokens.create("Jürg 🙂", [Scope.READ], space)
        assert [(each.name, each.space) for each in tokens.all()] == [("Jürg 🙂", space)]

    @pytest.mark.parametrize("age_ns", [0, -1, 2**63 - BEGIN_NS, 2**80])
    def test_a_token_that_never_lets_in_or_ends_too_late_is_refused(
        self, tokens: Tokens, age_ns: int
    ) -> None:
        """The last nanosecond that a column holds is 2**63 - 1."""
        with pytest.raises(ConfigError, match=r"^--expires: .* before the year 2262"):
            tokens.create("", [Scope.READ], "default", BEGIN_NS + age_ns)
        assert not tokens.all()

    def test_the_longest_and_the_shortest_life(self, tokens: Tokens) -> None:
        ends: Sequence[int] = (2**63 - 1, BEGIN_NS + 1)
        for end_ns in ends:
            assert tokens.create("", [Scope.READ], "default", end_ns)[0].expires_ns == end_ns
        assert {each.expires_ns for each in tokens.all()} == set(ends)
