"""Mistyped names find the one that was meant, and others find none."""

from scouter.model.visible import did_you_mean, near


def test_near() -> None:
    known = ["evaluations", "eval", "compare", "profile"]
    assert near("evaluate", known)[0] in ("eval", "evaluations")
    assert near("EVAL", known)[0] == "eval"
    assert near("pro-file", known) == ("profile",)
    assert near("zzz", known) == ()
    assert near("", known) == ()


def test_the_question() -> None:
    assert did_you_mean("compre", ["compare"]) == "did you mean 'compare'?"
    assert did_you_mean("aab", ["aaa", "aac"]) == "did you mean 'aac' or 'aaa'?"
    assert did_you_mean("x", []) == ""
    assert did_you_mean("a" * 10**6, ["b" * 10**6]) == ""
