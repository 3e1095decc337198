"""JSONPath (RFC 9535), by `python-jsonpath`, made fit for paths and values of strangers.

In filters (`[?…]`) a query leads to one place (names and indexes only), `match` and `search` take
their pattern as a literal, of RE2's syntax (`scouter.evaluate.patterns`), and `count` is left out;
what the library has beyond the standard is refused.
"""

from collections.abc import Iterable, Iterator, Sequence
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
from scouter.evaluate.paths.syntax import Getter, check_count, check_size, step_into
from scouter.evaluate.patterns import compile_pattern

MAX_LOOKS: Final = 200_000
"""Values that one JSONPath looks at in one record, each once for every selector and every part of
a filter, and once more for `..`; about half a second. Their number is known before a segment is
followed; beyond it the task is errored."""


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
    def get(root: JsonValue) -> JsonValue:
        node = root
        for at, step in enumerate(steps):
            node = step_into(text, node, step, steps[:at])
        return node

    return get


def _many(path: JSONPath) -> Getter:
    parts = [(segment, _times(segment)) for segment in path.segments]

    def get(root: JsonValue) -> JsonValue:
        looks = 0
        nodes: list[JSONPathMatch] = [_Node(root, None, root)]
        for segment, times in parts:
            looks += _looks(segment, nodes, times, MAX_LOOKS - looks)
            if looks > MAX_LOOKS:
                raise TaskFault(
                    Reason.LIMIT,
                    f"a JSONPath looks at more than {MAX_LOOKS:,} values; name the way more "
                    "closely",
                )
            nodes = list(_not_of_texts(segment.resolve(nodes)))
        return [cast(JsonValue, node.obj) for node in nodes]

    return get


def _times(segment: JSONPathSegment) -> int:
    """Times that a value is looked at where a segment is followed."""
    filters = [each.expression for each in segment.selectors if isinstance(each, Filter)]
    parts = sum(1 for each in filters for _ in _parts_of(each))
    return len(segment.selectors) + parts + isinstance(segment, JSONPathRecursiveDescentSegment)


def _parts_of(expression: BaseExpression) -> Iterator[BaseExpression]:
    yield expression
    for each in expression.children():
        yield from _parts_of(each)


def _looks(segment: JSONPathSegment, nodes: Sequence[JSONPathMatch], times: int, most: int) -> int:
    """Count the values that are looked at where a segment is followed from some nodes.

    Args:
        segment: The segment.
        nodes: Values from which it is followed.
        times: From `_times`.
        most: The number to stop at; the real one is then larger.
    """
    is_deep = isinstance(segment, JSONPathRecursiveDescentSegment)
    found = 0
    for node in nodes:
        value = cast(JsonValue, node.obj)
        inside = len(value) if isinstance(value, list | dict) else 0
        found += times * (1 + (weight(value, most // times) if is_deep else inside))
        if found > most:
            break
    return found


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
    text_of, pattern = function.args
    if isinstance(text_of, RootFilterQuery):
        raise _unsupported(text, f"{function.name} of a text outside of the items ($)")
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
