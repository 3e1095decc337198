"""Regular expressions: what they mean, that it is what RE2 means, and that they are fast."""

import time

import pytest
import re2
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scouter.errors import ConfigError
from scouter.evaluate.outcome import Reason, TaskFault
from scouter.evaluate.patterns import MAX_PATTERN, MAX_TEXT, compile_pattern
from tests.support.examples import examples


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("b", "abc", True),
        ("^b", "abc", False),
        ("a$", "a\n", False),  # not before a newline at the end
        (r"a\z", "a", True),
        (r"\d", "٣", False),
        (r"\pN", "٣", True),
        (r"^\w+$", "größe", False),
        (r"^[\pL]+$", "größe", True),
        (r"\s", "\v", False),
        (r"[^\s]", "\v", True),
        (r"\bgr\b", "größe", True),  # ö is no ASCII word character
        ("(?i)GRÖSSE", "grösse", True),
        ("(?i)k", "\u212a", True),  # the Kelvin sign folds to k
        ("(?i)straße", "STRASSE", False),  # simple folding: one character stays one
        (".", "\n", False),
        ("(?s).", "\n", True),
        ("^a.c$", "a\U0001f600c", True),
        ("a\0b", "xa\0b", True),
        ("(?P<year>[0-9]{4})", "in 1999", True),
        ("(?m)^b$", "a\nb\nc", True),
        ("", "", True),
        ("^$", "\n", False),
        ("a{,2}", "a{,2}", True),  # no counts, so the brace stands for itself
    ],
)
def test_meaning(pattern: str, text: str, found: bool) -> None:
    """RE2's rules, on the points where engines differ."""
    assert compile_pattern(pattern).found_in(text) is found


@pytest.mark.parametrize(
    ("pattern", "advice"),
    [
        ("(?=a)", "look-around"),
        ("(?!a)", "look-around"),
        ("(?<=a)b", "look-around"),
        ("(?<!a)b", "look-around"),
        (r"(a)\1", "backreferences"),
        (r"(?P<n>a)(?P=n)", "backreferences"),
        (r"(?<n>a)\k<n>", "backreferences"),
        ("a++", "possessive"),
        ("a{2}+", "possessive"),
        ("(?>a)", "atomic"),
        ("(a)?(?(1)b|c)", "atomic and conditional"),
        ("(?#note)a", "comments"),
        (r"a\Z", r"write \z"),
        ("a{2000}", "smaller counts"),
        (r"(?:\pL{900}){1}", "smaller counts"),
        ("[a-z0-9]{1000}[a-z]{1000}" * 6, "smaller counts"),
        ("(", "missing )"),
        ("*a", "no argument"),
        ("[z-a]", "z-a"),
        ("a**", "bad repetition"),
        ("\ud800", "half a character"),
        ("a" * (MAX_PATTERN + 1), f"at most {MAX_PATTERN}"),
    ],
)
def test_what_is_not_supported_says_what_to_write_instead(
    pattern: str, advice: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """The library's own log stays silent."""
    with pytest.raises(ConfigError, match=r"span name") as caught:
        compile_pattern(pattern, "span name")

    assert advice in str(caught.value)
    assert len(str(caught.value)) < 400
    assert capfd.readouterr() == ("", "")


@pytest.mark.pace
@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("^(a+)+$", "a" * 100_000 + "!"),
        ("(a|a)*b", "a" * 100_000),
        ("(x+x+)+y", "x" * 100_000),
        ("(.*a){20}", "a" * 19 + "b" * 100_000),
        (r"\d+ items", "1" * 100_000),
        ("(a?){30}a{30}$", "a" * 100_000 + "!"),
        (r"^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 100_000),
        ("(?:a|b)*a(?:a|b){100}c", "ab" * 50_000),
        (r"([a-zA-Z0-9])(([\-.]|[_]+)?([a-zA-Z0-9]+))*(@){1}[a-z0-9]+", "a" * 100_000),
    ],
)
def test_catastrophic_patterns_end_fast(pattern: str, text: str) -> None:
    """A backtracking engine takes years for some of them; here none takes a noticeable time."""
    compiled = compile_pattern(pattern)
    started = time.perf_counter()

    for size in (30, len(text)):
        assert not (compiled.found_in(text[-size:]) and pattern != "(.*a){20}")

    assert time.perf_counter() - started < 5


def test_limits_of_the_text() -> None:
    assert compile_pattern("b").found_in("a" * (MAX_TEXT - 1) + "b")
    with pytest.raises(TaskFault, match=f"at most {MAX_TEXT}") as caught:
        compile_pattern("b").found_in("a" * MAX_TEXT + "b")
    assert caught.value.reason is Reason.LIMIT
    with pytest.raises(TaskFault, match="instructions") as caught:
        compile_pattern("(?:a|b)*a(?:a|b){900}").found_in("ab" * 200_000)
    assert caught.value.reason is Reason.LIMIT


def test_half_a_character_in_a_text_is_replaced() -> None:
    assert compile_pattern("a\ufffdb").found_in("a\ud800b")


ODD = [
    "[[:alpha:]]", r"[\d-z]", r"[!-\-]", r"[\--/]", "[+--]", r"[a-\x7a]", "[^]]", "[a^]", r"[\]]",
    "[-a]",
    "(" * 25 + "a" + ")" * 25, "(?:^)*a", "^*a", r"\Ba", r"\pL", r"\x61", "(?P<n>a)", "(?i:a)b",
    "a|", "|a", "()", "(?:)", "(|a)+", "a{0}", "a{3}b?", "(?:ab?){2}", "a{,2}", "a{2,1}x", "{",
    "a{x}",
    "(?s)a.b", "(?is)A.b", "(?si)a.B", "(?U)a+", r"\Qa.b\E", r"[\w-]", r"\-", r"\a", "[a-cx-z]",
    "]",
    "}",
]  # fmt: skip


@pytest.mark.parametrize("pattern", ODD)
def test_odd_corners_mean_what_they_mean_to_re2(pattern: str) -> None:
    """Patterns that RE2 takes, and that it refuses."""
    options = re2.Options()
    options.log_errors = False
    try:
        reference = re2.compile(pattern, options)
    except re2.error:
        with pytest.raises(ConfigError):
            compile_pattern(pattern)
        return
    for text in (
        "",
        *(chr(code) for code in range(128)),
        "ab",
        "a\nb",
        "abab",
        "aaab",
        "a{x}",
        "A.B",
    ):
        found = reference.search(text) is not None
        assert compile_pattern(pattern).found_in(text) is found, text


CHARS = "abkKsS019_-. \t\n\v\r\f!é\u212aſ"
literals = st.sampled_from(["a", "b", "k", "S", "0", "_", "-", " ", "!", r"\.", r"\-", r"\n", "ab"])
classes = st.sampled_from(
    [
        ".", r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", "[ab]", "[^ab]", "[a-k]", r"[\w.]",
        r"[^\W_]", r"[\s\d]", "[^k]", "[]a]", "[a-]", r"[\D]", r"[\x00-\x1f]", "[--/]", "[S-s]",
    ]
)  # fmt: skip
edges = st.sampled_from(["^", "$", r"\b", r"\A", r"\z"])
counts = st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,3}", "{2,}", "*?", "+?", "??"])


def _repeat(body: str, count: str) -> str:
    return f"(?:{body}){count}"


def _group(shape: str, body: str) -> str:
    return shape.format(body)


def _join(*parts: str) -> str:
    return "".join(parts)


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    group = st.sampled_from(["({})", "(?:{})", "(?P<n>{})"])
    return (
        st.lists(inner, min_size=2, max_size=4).map("".join)
        | st.lists(inner, min_size=2, max_size=3).map("|".join).map("(?:{})".format)
        | st.builds(_repeat, inner, counts)
        | st.builds(_group, group, inner)
    )


bodies = st.recursive(
    literals | classes | edges | st.builds(_join, classes | literals, counts),
    _larger,
    max_leaves=8,
)
patterns = st.builds(
    _join,
    st.sampled_from(["", "", "(?i)", "(?s)", "(?is)", "(?m)"]),
    st.sampled_from(["", "^", "^"]),
    bodies,
    st.sampled_from(["", "$"]),
)
texts = st.text(alphabet=CHARS, max_size=12) | st.text(
    alphabet=st.characters(max_codepoint=127), max_size=8
)


@settings(max_examples=examples(300))
@given(pattern=patterns, candidates=st.lists(texts, min_size=1, max_size=6))
@example(pattern=r"a$", candidates=["a\n", "a"])
@example(pattern=r"^[^\S]$", candidates=["\v", " "])
@example(pattern=r"(?i)[^k]", candidates=["K", "k", "s"])
@example(pattern=r"(?i)\W", candidates=["k", "s", "_"])
@example(pattern=r"^(?:a|b)+\z", candidates=["abab", "abc"])
@example(pattern="[--/]", candidates=["-", ".", "/", "0"])
@example(pattern=r"\b", candidates=["", "a", " "])
def test_a_verdict_is_that_of_re2(pattern: str, candidates: list[str]) -> None:
    """The same as of the library itself, whose options and encoding are ours to choose."""
    options = re2.Options()
    options.log_errors = False
    try:
        reference = re2.compile(pattern, options)
    except re2.error:
        with pytest.raises(ConfigError):
            compile_pattern(pattern)
        return
    compiled = compile_pattern(pattern)

    for text in candidates:
        assert compiled.found_in(text) is (reference.search(text) is not None), repr(text)
