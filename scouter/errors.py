"""Every error that Scouter raises. The tree answers one question: is it worth trying again?

ScouterError
├── ConfigError          the input can never work: fix it
│   ├── FileFormatError  a file's content; names file, line and field
│   └── UnknownProfileError
├── DataError            one value, record or span is unusable; others are not affected
└── TransientError       try again later; says after how long where that is known
"""

from collections.abc import Sequence
from typing import ClassVar


class ScouterError(RuntimeError):
    """Root of all errors of this package.

    A RuntimeError, for those who catch what the original raised.
    """

    retryable: ClassVar[bool] = False


class ConfigError(ScouterError, ValueError):
    """The input can never work; repeating the call is useless."""


class FileFormatError(ConfigError):
    """A file's content is not what it should be.

    Args:
        path: The file, as the user named it.
        problem: The fault, in words.
        line: Line in the file, counted from 1, where known.
        field: Dotted path of the field, where known.
        expected: A right value, in words.
    """

    def __init__(
        self,
        path: str,
        problem: str,
        line: int | None = None,
        field: str | None = None,
        expected: str | None = None,
    ) -> None:
        super().__init__(path, problem, line, field, expected)
        self.path, self.problem, self.line = path, problem, line
        self.field, self.expected = field, expected

    def __str__(self) -> str:
        where = self.path if self.line is None else f"{self.path}, line {self.line}"
        field = f", field {self.field!r}" if self.field else ""
        expected = f"; expected {self.expected}" if self.expected else ""
        return f"{where}{field}: {self.problem}{expected}"


class UnknownProfileError(ConfigError, KeyError):
    """A record names a profile that nobody registered.

    Args:
        alias: Name of the profile in the record.
        known: Names of the registered profiles.
        word: Kind of these names, `alias` or `uid`.
    """

    def __init__(self, alias: str, known: Sequence[str], word: str = "alias") -> None:
        super().__init__(alias, tuple(known), word)
        self.alias, self.known, self.word = alias, tuple(known), word

    def __str__(self) -> str:
        names = ", ".join(repr(name) for name in self.known) or "none"
        return f"no profile has the {self.word} {self.alias!r}; registered: {names}"


class DataError(ScouterError, ValueError):
    """One value, record or span cannot be used; everything else can."""


class TransientError(ScouterError):
    """The far side cannot take a call now; the same call may work later.

    Args:
        message: The fault, in words.
        retry_after_s: Seconds to wait that the far side requested, if it did.
    """

    retryable: ClassVar[bool] = True

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message, retry_after_s)
        self.message, self.retry_after_s = message, retry_after_s

    def __str__(self) -> str:
        if self.retry_after_s is None:
            return self.message
        return f"{self.message} (retry after {self.retry_after_s:g} s)"
