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
from jsonpath.segments import JSONPathSegment
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
from scouter.evaluate.operators.equality import deep_equal
from scouter.evaluate.outcome import TaskFault
from scouter.evaluate.paths.fault import missing
from scouter.evaluate.paths.syntax import Getter, check_count, check_size
from scouter.evaluate.patterns.pattern import compile_pattern
from scouter.evaluate.steps import (
    Meter,
    charge,
    charge_done,
    no_steps,
    steps_left,
    weight,
)

MAX_NODES: Final = 500_000
"""Values that one JSONPath looks at in one record; beyond it the task is errored."""
_METER: Final = Meter(
    MAX_NODES, f"a JSONPath looks at more than {MAX_NODES:,} values; name the way more closely"
)
_VALUES_PER_STEP: Final = 8
"""Values that are compared in the time of a step."""
_STEPS_PER_NODE: Final = 3
"""Steps charged for each value that a JSONPath looks at."""
_STEPS_PER_SELECTOR: Final = 1
"""Steps charged for each value and each further selector of a segment."""
_STEPS_PER_EXPRESSION: Final = 2
"""Steps charged for each value and each part of a filter."""
_STEPS_PER_SEGMENT: Final = 4
_NODE_BYTES: Final = 8
"""Bytes charged for each value in the list of found values."""


class _Node(JSONPathMatch):
    """A found value; keeps neither its path nor its children, and is metered."""

    __slots__ = ()

    def __init__(self, obj: object, parent: JSONPathMatch | None, root: object) -> None:
        # the base's own copies a path of texts for every value
        self.obj, self.parent = obj, parent
        self.root = cast("dict[str, object]", root)
        self._filter_context = {}

    def new_child(self, obj: object, key: int | str) -> JSONPathMatch:
        _METER.spend(1 + _width(obj))
        return _Node(obj, self, self.root)

    def add_child(self, *children: JSONPathMatch) -> None:
        pass


def _width(value: object) -> int:
    inside = cast(JsonValue, value)
    return len(inside) if isinstance(inside, list) or isinstance(inside, dict) else 0  # noqa: SIM101


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
        _METER.spend(compiled.steps(text))
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
    _METER.spend(weight(one) // _VALUES_PER_STEP)
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
        where more than `MAX_NODES` values are looked at (`Reason.LIMIT`).

    Raises:
        ConfigError: Not a JSONPath, or one that is not supported; says what.

    Cost: one step for every value that is looked at, and for every item of a list that is passed.
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
            if isinstance(step, str):
                if not isinstance(node, dict) or step not in node:
                    raise missing(text, node, step, steps[:at])
                node = node[step]
            else:
                if not isinstance(node, list) or not -len(node) <= step < len(node):
                    raise missing(text, node, step, steps[:at])
                node = node[step]
        return node

    return get


def _many(path: JSONPath) -> Getter:
    segments, per_node = path.segments, _steps_per_node(path)

    def get(root: JsonValue) -> JsonValue:
        charge(_STEPS_PER_SEGMENT * (1 + len(segments)))
        room = min(_METER.limit, steps_left() // per_node)
        _METER.left = room
        try:
            found = _found(segments, root)
        except TaskFault:
            if _METER.left < 0 and room < _METER.limit:
                raise no_steps() from None
            raise
        finally:
            charge_done(per_node * (room - max(_METER.left, 0)))
        charge(0, held=_NODE_BYTES * len(found))
        return found

    return get


def _steps_per_node(path: JSONPath) -> int:
    """Give the steps charged per value, as every selector and filter may look at it."""
    selectors = [each for segment in path.segments for each in segment.selectors]
    filters = sum(_parts_of(each.expression) for each in selectors if isinstance(each, Filter))
    more = len(selectors) - len(path.segments)
    return _STEPS_PER_NODE + _STEPS_PER_SELECTOR * more + _STEPS_PER_EXPRESSION * filters


def _parts_of(expression: BaseExpression) -> int:
    return 1 + sum(map(_parts_of, expression.children()))


def _found(segments: Sequence[JSONPathSegment], root: JsonValue) -> list[JsonValue]:
    _METER.spend(1 + _width(root))
    nodes: Iterable[JSONPathMatch] = [_Node(root, None, root)]
    for segment in segments:
        nodes = _not_of_texts(segment.resolve(nodes))
    return [cast(JsonValue, node.obj) for node in nodes]


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
