"""Names of a package that are imported when first used, and models that load when first used.

The first class that derives from pydantic's `BaseModel` makes a process load most of pydantic,
which takes longer than all else that Scouter imports. So a package gives out a *stand-in* for a
model while nobody else has loaded pydantic: a class that imports the model when it is called,
asked, compared or derived from, and then does what the model does.

Python does not ask a class about everything. A stand-in is not the model for `is`; for
`issubclass(stand_in, BaseModel)`, by which FastAPI knows a request's body; as a base class beside a
pydantic model; nor for a class statement inside a function, where an annotation is a text that
names something local. Who has loaded pydantic before, as with `from pydantic import BaseModel` or
`import fastapi`, gets the model itself.
"""

import copyreg
import sys
import types
from abc import ABCMeta
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

Homes: TypeAlias = Mapping[str, tuple[str, ...]]
"""The names that each module defines; `"Name as Other"` where the package has another word."""


class StandIn(ABCMeta):
    """Class of the stand-ins: an abstract class whose one implementation is imported on demand.

    An `ABCMeta`, so that a class can derive from a stand-in and from an abstract class.
    """

    @property
    def __doc__(cls) -> str | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The model's text; `help` asks here and not `__getattribute__`."""
        return _real(cls).__doc__

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], /, **keywords: object
    ) -> Any:  # noqa: ANN401 - a stand-in, or the class that a class statement makes
        """Derive from the models where the bases are stand-ins for them."""
        if not bases:
            return type.__new__(mcs, name, bases, namespace)
        bases = tuple(map(_of, bases))
        kind, _, keywords = types.prepare_class(name, bases, keywords)
        return kind(name, bases, namespace, **keywords)

    @classmethod
    def __prepare__(
        mcs, name: str, bases: tuple[type, ...], /, **keywords: object
    ) -> dict[str, object]:
        """Give a class statement the namespace that the models' own metaclass wants."""
        return types.prepare_class(name, tuple(map(_of, bases)), keywords)[1]

    def __call__(cls, /, *args: object, **keywords: object) -> object:
        """Make an instance of the model."""
        return _real(cls)(*args, **keywords)

    def __getattribute__(cls, name: str) -> object:
        if name == "__get_pydantic_core_schema__":
            return type.__getattribute__(cls, name)
        if name == "__signature__":  # a model that is not built yet has none
            import inspect  # only who asks needs it

            return inspect.signature(_real(cls))
        return getattr(_real(cls), name)

    def __setattr__(cls, name: str, value: object) -> None:
        setattr(_real(cls), name, value)

    def __delattr__(cls, name: str) -> None:
        delattr(_real(cls), name)

    def __dir__(cls) -> list[str]:
        return dir(_real(cls))

    def __repr__(cls) -> str:
        return repr(_real(cls))

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _real(cls))

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(_of(subclass), _real(cls))

    def __eq__(cls, other: object) -> bool:
        return _of(other) is _real(cls) or NotImplemented

    def __hash__(cls) -> int:
        return hash(_real(cls))

    def __get_pydantic_core_schema__(
        cls, source: object, handler: "GetCoreSchemaHandler"
    ) -> "CoreSchema":
        """Make an annotation mean the model."""
        return handler(_real(cls))


@cache
def stand_in(module: str, name: str) -> StandIn:
    """Give the stand-in for a model, the same one for each that asks.

    Args:
        module: Where the model is defined.
        name: Its name there.
    """
    return StandIn(name, (), {"__module__": module})


@cache
def _load(module: str, name: str) -> type:
    real: type = getattr(import_module(module), name)
    # A stand-in equals its model, so an abstract base that caches an answer caches it for both.
    # Asking about the model first makes sure that it is the model's.
    for base in real.__mro__:
        issubclass(real, base)
    return real


def _real(cls: StandIn) -> type:
    own = type.__getattribute__
    return _load(own(cls, "__module__"), own(cls, "__name__"))


def _of(value: Any) -> Any:  # noqa: ANN401 - what is no stand-in comes back as it is
    return _real(value) if type(value) is StandIn else value


def _same(value: object) -> object:
    return value


def _reduce(cls: StandIn) -> tuple[Callable[[object], object], tuple[type]]:
    return _same, (_real(cls),)


copyreg.pickle(StandIn, _reduce)  # pyright: ignore[reportArgumentType] - typeshed wants all forms


def lazy_names(
    package: str, models: Homes, others: Homes
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Make the `__getattr__` and `__dir__` of a package whose names are imported when used.

    Args:
        package: The package's `__name__`.
        models: Its pydantic models.
        others: All its other names.

    Returns:
        The two functions, to be assigned to these names.
    """
    homes = {
        spec.rpartition(" as ")[2]: (module, spec.partition(" as ")[0])
        for table in (models, others)
        for module, specs in table.items()
        for spec in specs
    }
    deferred = {spec.rpartition(" as ")[2] for specs in models.values() for spec in specs}

    def get(name: str) -> object:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if name in deferred and "pydantic.main" not in sys.modules:
            return stand_in(*home)
        value = getattr(import_module(home[0]), home[1])
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return get, names
