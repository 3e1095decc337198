"""The names that users import are there, lazily, and no others."""

from importlib import import_module
from typing import cast

import pytest


@pytest.mark.parametrize("package", ["scouter.queue", "scouter.transport", "scouter.tracing"])
def test_each_public_name_is_there(package: str) -> None:
    module = import_module(package)

    names = cast(tuple[str, ...], module.__all__)
    assert isinstance(names, tuple)
    assert len(set(names)) == len(names)
    for name in names:
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = module.Nothing


def test_old_homes() -> None:
    assert import_module("scouter.mock").MockConfig is import_module("scouter.transport").MockConfig
    tracing = import_module("scouter.tracing")
    assert tracing.ActiveSpan is tracing.ScouterSpan
