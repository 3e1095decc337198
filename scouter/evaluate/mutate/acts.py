"""Acts that answers claim: `I have cancelled it` and the tool `cancel_reservation`."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

_READING: Final = frozenset(
    {"get", "find", "search", "list", "look", "lookup", "fetch", "read", "check", "calculate",
     "think", "query", "retrieve", "show", "describe", "count", "load", "view", "see", "ask",
     "compute", "estimate", "verify", "validate", "run", "call", "use", "web"}
)  # fmt: skip
"""Verbs of tools that change nothing, so that no answer claims their act."""
_IRREGULAR: Final = {
    "send": ("sent",), "make": ("made",), "buy": ("bought",), "pay": ("paid",), "set": ("set",),
    "put": ("put",), "give": ("given", "gave"), "write": ("written", "wrote"), "build": ("built",),
    "take": ("taken", "took"), "hold": ("held",), "begin": ("begun", "began"), "sell": ("sold",),
    "withdraw": ("withdrawn", "withdrew"), "transfer": ("transferred",), "reset": ("reset",),
    "refer": ("referred",),
}  # fmt: skip
_DOUBLING: Final = re.compile(r"[^aeiou](?:[aiou][^aeiouwxy]|e[^aeiounrwxy])$")
_LINKS: Final = frozenset({"to", "for", "from", "with", "in", "into", "on", "by"})
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
COMMON: Final = (
    "refund", "cancel", "book", "delete", "send", "pay", "transfer", "order", "schedule", "create",
    "update", "close", "approve", "change",
)  # fmt: skip
"""Verbs that answers of many agents claim."""


def verb_of(tool: str) -> str:
    """The verb that a tool's name begins with, in lower case; empty for a tool that only reads."""
    words = [word.lower() for word in _WORD.findall(tool)]
    is_act = len(words) > 1 and words[0] not in _READING and len(words[0]) > 2
    return words[0] if is_act else ""


def past_of(verb: str) -> Sequence[str]:
    """Forms in which an answer says that an act was done; the usual one first."""
    if verb in _IRREGULAR:
        return _IRREGULAR[verb]
    if verb.endswith("e"):
        return (f"{verb}d",)
    if verb.endswith("y") and verb[-2:-1] not in "aeiou":
        return (f"{verb[:-1]}ied",)
    doubled = (f"{verb}{verb[-1]}ed",) if _DOUBLING.search(verb) else ()
    return (f"{verb}ed", *doubled)


def claim_of(tool: str) -> str:
    """A sentence that claims what a tool does; a verb alone is one, too."""
    verb, *rest = (word.lower() for word in _WORD.findall(tool))
    what = f"{'it' if rest[0] in _LINKS else 'the'} {' '.join(rest)}" if rest else "it for you"
    return f"I have also {past_of(verb)[0]} {what}."


def claim_pattern(verbs: Iterable[str]) -> str:
    """A pattern, in RE2's syntax, for answers that claim one of some acts."""
    forms = "|".join(form for verb in verbs for form in past_of(verb))
    return (
        r"(?i)\b(?:I|we|have|has|been|was|were|is|are|successfully)\s+"
        rf"(?:(?:also|now|just|already|been|successfully)\s+){{0,2}}(?:{forms})\b"
    )
