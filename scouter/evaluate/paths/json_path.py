"""JSONPath (RFC 9535), by `python-jsonpath`, made fit for paths and values of strangers.

In filters (`[?…]`) a query leads to one place (names and indexes only), `match` and `search` take
their pattern as a literal, of RE2's syntax (`scouter.evaluate.patterns`), and `count` is left out;
what the library has beyond the standard is refused.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, cast

from jsonpath import JSONPath, JSONPathEnvironment, JSONPathMatch, NodeList
from jsonpath.exceptions import JSONPathError
from jsonpath.filter import (
    UNDEFINED,
    BaseExpression,
    BooleanLiteral,
    FilterExpression,
    FilterQuery,
    FloatLiteral,
    FunctionExtension,
    InfixExpression,
    IntegerLiteral,
    Nil,
    PrefixExpression,
    RelativeFilterQuery,
    RootFilterQuery,
    StringLiteral,
)
from jsonpath.function_extensions import ExpressionType, FilterFunction, Length
from jsonpath.segments import JSONPathRecursiveDescentSegment, JSONPathSegment
from jsonpath.selectors import (
    Filter,
    IndexSelector,
    JSONPathSelector,
    NameSelector,
    SliceSelector,
    WildcardSelector,
)
from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.files.json_text import weight
from scouter.evaluate.operators.equality import deep_equal
from scouter.evaluate.outcome import Reason, TaskFault
from scouter.evaluate.paths.syntax import Getter, check_count, check_size, missing
from scouter.evaluate.patterns import compile_pattern

MAX_LOOKS: Final = 200_000
"""Values that one JSONPath looks at in one record, each once for every selector and every part of
a filter, and once more for `..`; about half a second. Their number is known before a segment is
followed; beyond it the task is errored."""
_COMPARED: Final = 8
"""Values inside a value that are compared in the time of a look."""
_WORK: Final = 2_000
"""Instructions of a pattern times characters of a text, in the time of a look."""
_PLAIN: Final = 10
"""Instructions that the comparison of texts is worth."""


class _Node(JSONPathMatch):
    """A found value; keeps neither its path nor its children."""

    __slots__ = ()

    def __init__(self, obj: object, parent: JSONPathMatch | None, root: object) -> None:
        # the base's own copies a path of texts for every value
        self.obj, self.parent = obj, parent
        self.root = cast("dict[str, object]", root)
        self._filter_context = {}

    def new_child(self, obj: object, key: int | str) -> JSONPathMatch:
        return _Node(obj, self, self.root)

    def add_child(self, *children: JSONPathMatch) -> None:
        pass


class _PatternFunction(FilterFunction):
    """`match` and `search`, which differ in the pattern that they make of theirs."""

    def __init__(self, shape: str) -> None:
        self.shape = shape

    @property
    def arg_types(self) -> list[ExpressionType]:
        return [ExpressionType.VALUE, ExpressionType.VALUE]

    @property
    def return_type(self) -> ExpressionType:
        return ExpressionType.LOGICAL

    def __call__(self, text: object, pattern: object) -> bool:
        if not isinstance(text, str):
            return False
        compiled = compile_pattern(self.shape.format(pattern), "JSONPath")
        return compiled.found_in(text)


class _Environment(JSONPathEnvironment):
    max_recursion_depth = 200  # a record has at most 100 levels

    def setup_function_extensions(self) -> None:
        self.function_extensions["length"] = Length()
        self.function_extensions["match"] = _PatternFunction(r"\A(?:{})\z")
        self.function_extensions["search"] = _PatternFunction("{}")

    def compare(self, left: object, operator: str, right: object) -> bool:
        """Compare as the standard says: typed, deeply, only numbers or texts by order."""
        if operator in ("&&", "||"):
            return super().compare(left, operator, right)
        left, right = _value(left), _value(right)
        nothing = left is UNDEFINED or right is UNDEFINED
        equal = left is right if nothing else _equal(left, right)
        if operator in ("==", "!="):
            return equal is (operator == "==")
        if operator in (">", ">="):
            left, right = right, left
        return (equal and operator in ("<=", ">=")) or _less(left, right)


def _value(side: object) -> object:
    if isinstance(side, NodeList):
        return side[0].obj if side else UNDEFINED
    return side


def _equal(left: object, right: object) -> bool:
    one, other = cast(JsonValue, left), cast(JsonValue, right)
    return deep_equal(one, other)


def _less(left: object, right: object) -> bool:
    if isinstance(left, str) and isinstance(right, str):
        return left < right
    if isinstance(left, bool) or isinstance(right, bool):
        return False
    return isinstance(left, int | float) and isinstance(right, int | float) and left < right


_ENVIRONMENT: Final = _Environment(strict=True, filter_caching=False)


def compile_json_path(text: str) -> Getter:
    """Prepare a JSONPath.

    Args:
        text: Begins with `$`; at most `MAX_BYTES` bytes and `MAX_SEGMENTS` segments.

    Returns:
        A function from a value to what the path finds: for a singular query (names and indexes
        only) the one value, else the list of values in document order, which may be empty. It
        raises `TaskFault` where a singular query finds nothing (`Reason.MISSING_PATH`), and
        where more than `MAX_LOOKS` values are looked at (`Reason.LIMIT`).

    Raises:
        ConfigError: Not a JSONPath, or one that is not supported; says what.

    Cost: a microsecond or two for every value that is looked at.
    """
    check_size(text)
    try:
        path = _ENVIRONMENT.compile(text)
    except (JSONPathError, ArithmeticError) as error:  # the library takes 1e999 for an integer
        hint = "" if text[1:2] in (".", "[") else '; for a key that begins with "$" write ["$…"]'
        raise ConfigError(
            f"path {text!r}: no JSONPath (RFC 9535): {error.args[0] if error.args else error}{hint}"
        ) from None
    if not isinstance(path, JSONPath):
        raise _unsupported(text, "| and & between paths")
    check_count(text, len(path.segments))
    for segment in path.segments:
        for selector in segment.selectors:
            _check_selector(text, selector)
    if path.singular_query():
        return _one(text, _steps(path))
    return _many(path)


def _steps(path: JSONPath) -> tuple[str | int, ...]:
    """The names and indexes of a singular query."""
    steps: list[str | int] = []
    for segment in path.segments:
        selector = segment.selectors[0]
        if isinstance(selector, NameSelector):
            steps.append(selector.name)
        elif isinstance(selector, IndexSelector):
            steps.append(selector.index)
    return tuple(steps)


def _one(text: str, steps: tuple[str | int, ...]) -> Getter:
    return lambda root: _follow(text, steps, root)


def _follow(text: str, steps: tuple[str | int, ...], root: JsonValue) -> JsonValue:
    node = root
    for at, step in enumerate(steps):
        if isinstance(step, str):
            if not isinstance(node, dict) or step not in node:
                raise missing(text, node, step, steps[:at])
            node = node[step]
        else:
            if not isinstance(node, list) or not -len(node) <= step < len(node):
                raise missing(text, node, step, steps[:at])
            node = node[step]
    return node


def _many(path: JSONPath) -> Getter:
    parts = [_Part(segment) for segment in path.segments]

    def get(root: JsonValue) -> JsonValue:
        looks = 0
        nodes: list[JSONPathMatch] = [_Node(root, None, root)]
        for part in parts:
            looks += part.looks(nodes, root, MAX_LOOKS - looks)
            if looks > MAX_LOOKS:
                raise TaskFault(
                    Reason.LIMIT,
                    f"a JSONPath looks at more than {MAX_LOOKS:,} values; name the way more "
                    "closely",
                )
            nodes = list(_not_of_texts(part.segment.resolve(nodes)))
        return [cast(JsonValue, node.obj) for node in nodes]

    return get


class _Part:
    """A segment, and what it costs to follow it."""

    __slots__ = (
        "_instructions",
        "_is_deep",
        "_looks_inside",
        "_of_root",
        "_slices",
        "_times",
        "segment",
    )

    def __init__(self, segment: JSONPathSegment) -> None:
        self.segment = segment
        selectors = segment.selectors
        conditions = [each.expression for each in selectors if isinstance(each, Filter)]
        expressions = list(chain.from_iterable(map(_parts_of, conditions)))
        self._is_deep = isinstance(segment, JSONPathRecursiveDescentSegment)
        self._looks_inside = not all(
            isinstance(each, NameSelector | IndexSelector) for each in selectors
        )
        self._slices = any(isinstance(each, SliceSelector) for each in selectors)
        self._times = len(selectors) + len(expressions) + self._is_deep
        self._of_root = [
            _steps(each.path) for each in expressions if isinstance(each, RootFilterQuery)
        ]
        self._instructions = sum(map(_instructions, expressions))

    def looks(self, nodes: Sequence[JSONPathMatch], root: JsonValue, most: int) -> int:
        """Count the values that are looked at where the segment is followed from some nodes.

        Args:
            nodes: Values from which it is followed.
            root: The whole value, of which filters may compare a part with each value.
            most: The number to stop at; the real one is then larger.
        """
        times = self._times + sum(self._size(_find(steps, root)) for steps in self._of_root)
        found = 0
        for node in nodes:
            value = cast(JsonValue, node.obj)
            count = 1
            if self._is_deep:
                count += weight(value, most // times)
            elif self._looks_inside:
                count += _width(value)
            if self._slices:  # the library's take a text for a list
                count += _characters(value) if self._is_deep else _length(value)
            found += count * times
            if self._instructions:
                found += _characters(value) * self._instructions // _WORK
            if found > most:
                break
        return found

    def _size(self, value: JsonValue) -> int:
        """Looks in whose time a value is compared or searched."""
        if isinstance(value, str):
            return len(value) * max(_PLAIN, self._instructions) // _WORK
        return weight(value) // _COMPARED


def _instructions(expression: BaseExpression) -> int:
    """Size of the pattern of a part of a filter."""
    if isinstance(expression, FunctionExtension) and expression.name != "length":
        return compile_pattern(cast(StringLiteral, expression.args[1]).value).size
    return 0


def _parts_of(expression: BaseExpression) -> Iterator[BaseExpression]:
    yield expression
    for each in expression.children():
        yield from _parts_of(each)


def _find(steps: tuple[str | int, ...], root: JsonValue) -> JsonValue:
    """Follow names and indexes; None where they lead nowhere."""
    try:
        return _follow("", steps, root)
    except TaskFault:
        return None


def _characters(value: JsonValue) -> int:
    """Count the characters of all texts inside a value, or of a text."""
    count, waiting = 0, [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            count += len(item)
        elif isinstance(item, list):
            waiting += item
        elif isinstance(item, dict):
            waiting += item.values()
    return count


def _length(value: JsonValue) -> int:
    return len(value) if isinstance(value, str) else 0


def _width(value: JsonValue) -> int:
    return len(value) if isinstance(value, list) or isinstance(value, dict) else 0  # noqa: SIM101


def _not_of_texts(nodes: Iterable[JSONPathMatch]) -> Iterator[JSONPathMatch]:
    """Drop characters: the library's slices take a text for a list."""
    for node in nodes:
        if node.parent is None or not isinstance(node.parent.obj, str):
            yield node


def _unsupported(text: str, what: str) -> ConfigError:
    return ConfigError(f"path {text!r}: {what} is not supported")


def _check_selector(text: str, selector: JSONPathSelector) -> None:
    if isinstance(selector, Filter):
        _check_expression(text, selector.expression, tests=True)
    elif not isinstance(selector, NameSelector | IndexSelector | SliceSelector | WildcardSelector):
        raise _unsupported(text, f"{selector}, which is beyond RFC 9535,")


def _check_expression(text: str, expression: BaseExpression, tests: bool) -> None:
    """Allow what the standard has, and of that what one pass can decide.

    Args:
        text: The path.
        expression: A part of a filter.
        tests: True where the part is a condition, not a value.
    """
    match expression:
        case FilterExpression() | PrefixExpression():
            parts, tests = expression.children(), True
        case InfixExpression(operator="&&" | "||"):
            parts, tests = expression.children(), True
        case InfixExpression(operator="==" | "!=" | "<" | "<=" | ">" | ">="):
            parts, tests = expression.children(), False
        case FunctionExtension():
            _check_function(text, expression)
            parts, tests = expression.children(), False
        case RelativeFilterQuery() | RootFilterQuery():
            _check_query(text, expression, tests)
            return
        case StringLiteral() | IntegerLiteral() | FloatLiteral() | BooleanLiteral() | Nil():
            return
        case _:
            raise _unsupported(text, f"{expression}, which is beyond RFC 9535,")
    for part in parts:
        _check_expression(text, part, tests)


def _check_function(text: str, function: FunctionExtension) -> None:
    if function.name == "length":
        return
    pattern = function.args[1]
    if not isinstance(pattern, StringLiteral):
        raise ConfigError(
            f"path {text!r}: {function.name} takes its pattern as a literal; a value that comes "
            "from a record is never used as a pattern"
        )
    compile_pattern(pattern.value, f"path {text!r}: pattern")


def _check_query(text: str, query: FilterQuery, tests: bool) -> None:
    if not query.path.singular_query():
        raise _unsupported(
            text, "a filter's query that leads to several places (a wildcard, a slice or ..)"
        )
    if tests and query.path.empty():
        raise ConfigError(f"path {text!r}: {query} alone is always true; compare it with a value")
