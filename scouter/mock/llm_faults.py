"""Faults between a judge and its provider, to be ordered from a provider for tests."""

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

FaultKind: TypeAlias = Literal[
    "slow", "too_many", "server_error", "unavailable", "malformed", "cut", "truncated", "empty",
    "refusal", "blocked", "wrong_schema", "wrong_key", "unknown_model", "bad_request",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault.

    Args:
        kind: Kind of the fault:

            - `slow`: the answer takes `seconds` more;
            - `too_many`: 429; `server_error`: 500; `unavailable`: 503; `wrong_key`: 401;
              `unknown_model`: 404; `bad_request`: 400, in the provider's words;
            - `malformed`: 200 with a body that is no JSON; `cut`: the connection ends in the middle
              of the body;
            - `truncated`: the answer ends in the middle, as the model ran out of tokens; `empty`:
              it has no text; `wrong_schema`: it is JSON of another form than was requested;
            - `refusal`: the model declines; `blocked`: a filter withholds question or answer.
        message: Words of the provider for a status above 200, instead of its usual ones.
        retry_after: Header `Retry-After`: seconds, or a date of HTTP.
        seconds: Delay of a slow answer.

    Raises:
        ValueError: No such kind.
    """

    kind: FaultKind
    message: str = ""
    retry_after: str = ""
    seconds: float = 30.0

    def __post_init__(self) -> None:
        kinds = get_args(FaultKind)
        if self.kind not in kinds:
            raise ValueError(f"no fault is called {self.kind!r}; there are {', '.join(kinds)}")
