"""Fields whose type is looked up when the first value is read or written, not at import."""

from functools import cached_property
from importlib import import_module
from typing import Any

from pydantic import GetCoreSchemaHandler, SerializationInfo, TypeAdapter
from pydantic_core import CoreSchema, core_schema


class Deferred:
    """Annotation that reads and writes a field as a type of another module does.

    Args:
        module: Where the type is defined; imported with the first value.
        name: The type's name there, or that of an annotation such as `dict[str, Model]`.
    """

    def __init__(self, module: str, name: str) -> None:
        self._module = module
        self._name = name

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            self._read,
            serialization=core_schema.plain_serializer_function_ser_schema(
                self._write, info_arg=True
            ),
        )

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        return TypeAdapter(getattr(import_module(self._module), self._name))

    def _read(self, value: object) -> object:
        return self._adapter.validate_python(value)

    def _write(self, value: object, info: SerializationInfo) -> object:
        return self._adapter.dump_python(value, mode="json" if info.mode_is_json() else "python")
