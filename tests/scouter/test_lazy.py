"""Stand-ins behave like the models that they stand for, and load them when first used."""

import abc
import copy
import inspect
import pickle
import pydoc
import subprocess
import sys
import typing
from collections.abc import Callable
from functools import singledispatch
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from pydantic import BaseModel, Field, TypeAdapter, ValidationError, field_validator

from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.scenario import EvalScenarios as RealScenarios
from scouter.evaluate.tasks.assertion import AssertionTask as RealTask
from scouter.evaluate.tasks.trace import TraceAssertion as RealAssertion
from scouter.lazy import StandIn, stand_in
from tests.test_public import promised

if TYPE_CHECKING:
    from scouter.evaluate.scenario import EvalScenarios
    from scouter.evaluate.tasks.assertion import AssertionTask
    from scouter.evaluate.tasks.judge import LLMJudgeTask
    from scouter.evaluate.tasks.trace import TraceAssertion
    from scouter.transport.config import MockConfig, TransportConfig
else:
    # pytest has loaded pydantic, so that the packages give out the models themselves.
    AssertionTask = stand_in("scouter.evaluate.tasks.assertion", "AssertionTask")
    EvalScenarios = stand_in("scouter.evaluate.scenario", "EvalScenarios")
    LLMJudgeTask = stand_in("scouter.evaluate.tasks.judge", "LLMJudgeTask")
    MockConfig = stand_in("scouter.transport.config", "MockConfig")
    TraceAssertion = stand_in("scouter.evaluate.tasks.trace", "TraceAssertion")
    TransportConfig = stand_in("scouter.transport.config", "TransportConfig")

ROOT = Path(__file__).parents[2]


def task(id: str = "t") -> AssertionTask:
    return AssertionTask(id, "a", 1, ComparisonOperator.Equals)


def real_task(id: str = "t", path: str = "a") -> RealTask:
    return RealTask(id, path, 1, ComparisonOperator.Equals)


def fresh(code: str) -> str:
    """What a program prints that starts without pydantic."""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_these_are_stand_ins() -> None:
    """Or else this file tests nothing."""
    assert type(AssertionTask) is StandIn
    assert AssertionTask is not RealTask


# --- as a class ---


def test_a_call_makes_the_model() -> None:
    made = task()
    assert type(made) is RealTask
    assert (made.id, made.context_path, made.expected_value) == ("t", "a", 1)
    with pytest.raises(ValidationError):
        AssertionTask(id="")


def test_it_looks_like_the_model() -> None:
    assert AssertionTask.__name__ == "AssertionTask"
    assert AssertionTask.__qualname__ == "AssertionTask"
    assert AssertionTask.__module__ == "scouter.evaluate.tasks.assertion"
    assert repr(AssertionTask) == "<class 'scouter.evaluate.tasks.assertion.AssertionTask'>"
    assert (AssertionTask.__doc__ or "").startswith("Compare one value of the record's context")
    assert inspect.isclass(AssertionTask)
    assert "scenarios" in inspect.signature(EvalScenarios).parameters
    assert inspect.signature(EvalScenarios) == inspect.signature(RealScenarios)
    assert inspect.getsource(AssertionTask).startswith("class AssertionTask(TaskBase):")
    assert "model_dump" in dir(AssertionTask)
    text = pydoc.plain(pydoc.render_doc(AssertionTask))
    assert "class AssertionTask(scouter.evaluate.tasks.base.TaskBase)" in text
    assert "Where the value is, e.g. `response.items[0].sku`" in text


def test_attributes_are_those_of_the_model(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    file.write_text('{"id": "s", "initial_query": "q"}\n', encoding="utf-8")
    read = EvalScenarios.from_path(file)

    assert type(read) is RealScenarios
    assert [scenario.initial_query for scenario in read] == ["q"]
    assert TraceAssertion.span_exists is RealAssertion.span_exists
    assert AssertionTask.model_fields["context_path"].default is None
    assert AssertionTask.model_validate({"id": "x", "operator": "IsString"}).id == "x"
    assert typing.get_type_hints(AssertionTask)["context_path"] == str | None
    with pytest.raises(AttributeError, match="no_such"):
        _ = AssertionTask.no_such  # pyright: ignore[reportUnknownVariableType, reportAttributeAccessIssue]


def test_setting_an_attribute_reaches_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def describe(self: RealTask) -> str:
        return f"<{self.id}>"

    with monkeypatch.context() as patch:
        patch.setattr(AssertionTask, "describe", describe, raising=False)
        assert real_task("t").describe() == "<t>"  # pyright: ignore[reportAttributeAccessIssue]
    assert not hasattr(RealTask, "describe")


# --- asked and compared ---


def test_instances_and_subclasses() -> None:
    assert isinstance(real_task(), AssertionTask)
    assert isinstance(real_task(), AssertionTask | None)
    assert not isinstance(real_task(), LLMJudgeTask)
    assert issubclass(RealTask, AssertionTask)
    assert issubclass(AssertionTask, RealTask | AssertionTask)
    assert issubclass(MockConfig, TransportConfig)
    assert not issubclass(TransportConfig, MockConfig)
    assert not issubclass(int, AssertionTask)
    with pytest.raises(TypeError):
        issubclass(typing.cast(Any, 1), AssertionTask)


def test_it_equals_the_model_and_hashes_like_it() -> None:
    assert type(task()) == AssertionTask  # noqa: E721 - what is asked here
    assert AssertionTask == RealTask
    assert AssertionTask != LLMJudgeTask
    assert AssertionTask != int  # noqa: E721 - what is asked here
    assert AssertionTask != "AssertionTask"
    assert {AssertionTask: "by type"}[type(task())] == "by type"
    assert {RealTask: "by type"}[AssertionTask] == "by type"
    assert len({AssertionTask, RealTask, LLMJudgeTask}) == 2


def test_abstract_classes_treat_both_alike() -> None:
    """They keep their answers by class, and a stand-in's answer is found for its model, too."""

    class Named(abc.ABC):  # noqa: B024 - only asked about
        """Whatever has an id."""

    Named.register(RealTask)
    assert issubclass(AssertionTask, Named)
    assert issubclass(RealTask, Named)
    assert isinstance(task(), Named)
    assert issubclass(MockConfig, abc.ABC)
    assert issubclass(typing.cast(type, RealTask), typing.Hashable) == issubclass(
        AssertionTask, typing.Hashable
    )


def test_match() -> None:
    def read(value: object) -> str:
        match value:
            case LLMJudgeTask():
                return "judge"
            case AssertionTask(id=name, context_path="a"):
                return name
            case _:
                return "nothing"

    assert read(task("found")) == "found"
    assert read(real_task("t", "b")) == "nothing"
    assert read(1) == "nothing"


def test_singledispatch() -> None:
    @singledispatch
    def name(value: object) -> str:
        return "any"

    @name.register
    def _(value: AssertionTask) -> str:
        return f"assertion {value.id}"

    @name.register(EvalScenarios)
    def _(value: object) -> str:
        return "scenarios"

    class Mine(AssertionTask):
        """Found by its base."""

    assert name(task("t")) == "assertion t"
    assert name(Mine.model_validate(task("m").model_dump())) == "assertion m"
    assert name(RealScenarios(scenarios=[])) == "scenarios"
    assert name(1) == "any"


# --- as an annotation ---


def test_annotations() -> None:
    def use(one: AssertionTask | None, more: list[AssertionTask]) -> "AssertionTask": ...

    assert typing.get_type_hints(use) == {
        "one": RealTask | None,
        "more": list[RealTask],
        "return": RealTask,
    }
    assert typing.Optional[AssertionTask] == typing.Optional[RealTask]  # noqa: UP045 - asked here


class Holder(BaseModel):
    """A user's model."""

    first: AssertionTask
    others: list[AssertionTask | LLMJudgeTask] = Field(default_factory=list[Any])
    picked: Annotated[AssertionTask | LLMJudgeTask | None, Field(discriminator="task_type")] = None


def test_field_of_a_model() -> None:
    held = Holder.model_validate(
        {
            "first": {"id": "a", "operator": "IsString"},
            "picked": {"task_type": "Assertion", "id": "b", "operator": "IsString"},
        }
    )
    assert (type(held.first), type(held.picked)) == (RealTask, RealTask)
    assert Holder(first=held.first).first is held.first
    assert Holder.model_validate_json(held.model_dump_json()) == held
    with pytest.raises(ValidationError, match=r"first\.id"):
        Holder.model_validate({"first": {"operator": "IsString"}})
    schema = Holder.model_json_schema()
    assert schema["properties"]["first"] == {"$ref": "#/$defs/AssertionTask"}
    assert schema["$defs"]["AssertionTask"]["properties"]["id"]["type"] == "string"


def test_type_adapter() -> None:
    adapter: TypeAdapter[AssertionTask] = TypeAdapter(AssertionTask)
    assert type(adapter.validate_python({"id": "a", "operator": "IsString"})) is RealTask
    assert adapter.json_schema() == RealTask.model_json_schema()
    several = TypeAdapter(list[AssertionTask]).validate_json(
        '[{"id": "a", "operator": "IsString"}]'
    )
    assert [type(item) for item in several] == [RealTask]


def test_response_model_of_fastapi() -> None:
    app = FastAPI()

    def find(id: str) -> AssertionTask:
        return task(id)

    app.get("/task")(find)
    with TestClient(app) as client:
        assert client.get("/task", params={"id": "found"}).json()["id"] == "found"
        schemas = client.get("/openapi.json").json()["components"]["schemas"]
    assert schemas["AssertionTask"]["properties"]["id"]["type"] == "string"


# --- carried and derived from ---


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    ("dump", "load"),
    [(pickle.dumps, pickle.loads), (pickle._dumps, pickle._loads)],  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]
    ids=["c", "python"],
)
def test_pickle(dump: Callable[..., bytes], load: Callable[[bytes], object], protocol: int) -> None:
    assert load(dump(AssertionTask, protocol)) is RealTask
    back = load(dump({"kind": AssertionTask, "one": task("t")}, protocol))
    assert back == {"kind": RealTask, "one": real_task("t")}


def test_copy() -> None:
    assert copy.copy(AssertionTask) is AssertionTask
    assert copy.deepcopy([AssertionTask]) == [RealTask]
    assert type(copy.deepcopy(task())) is RealTask


def test_subclass() -> None:
    seen: list[str] = []

    class Base(AssertionTask):
        weight: float = 1.0

        def __init_subclass__(cls, **keywords: Any) -> None:
            seen.append(cls.__name__)
            super().__init_subclass__(**keywords)

        @field_validator("weight")
        @classmethod
        def _positive(cls, value: float) -> float:
            if value <= 0:
                raise ValueError("weight must be above 0")
            return value

        def model_dump_json(self, **options: Any) -> str:
            return f"mine {super().model_dump_json(**options)}"

        @property
        def double(self) -> float:
            return 2 * self.weight

    class Mine(Base, title="Mine!"):
        pass

    made = Mine.model_validate({"id": "m", "operator": "IsString", "weight": 2})
    assert seen == ["Mine"]
    assert Base.__mro__[:2] == (Base, RealTask)
    assert type(Base) is type(RealTask)
    assert issubclass(Base, RealTask)
    assert issubclass(Mine, AssertionTask)
    assert isinstance(made, AssertionTask)
    assert made.double == 4.0
    assert made.model_dump_json().startswith('mine {"')
    assert Mine.model_json_schema()["title"] == "Mine!"
    with pytest.raises(ValidationError, match="weight must be above 0"):
        Mine.model_validate({"id": "m", "operator": "IsString", "weight": 0})


class Shown:
    """A plain mixin."""

    def show(self) -> str:
        return f"<{self}>"


class Priced(abc.ABC):
    """An abstract mixin."""

    @abc.abstractmethod
    def price(self) -> int: ...


def test_subclass_of_several() -> None:
    class Mine(Shown, AssertionTask, Priced):
        def price(self) -> int:
            return 3

    class Unfinished(AssertionTask, Priced):
        pass

    made = Mine.model_validate(task("m").model_dump())
    assert Mine.__mro__[1:3] == (Shown, RealTask)
    assert made.price() == 3
    assert made.show().startswith("<id='m'")
    assert isinstance(made, Priced)
    with pytest.raises(TypeError, match="abstract"):
        Unfinished.model_validate(task("u").model_dump())


# --- when the model is loaded ---


def test_the_first_use_loads_it_and_then_the_package_has_the_model_itself() -> None:
    assert fresh(
        "import sys, typing\n"
        "from scouter.evaluate import AssertionTask, EvalScenarios\n"
        "from scouter.drift import AssertionTask as other\n"
        "def use(one: AssertionTask | None, more: list[AssertionTask]) -> EvalScenarios: ...\n"
        "print(type(AssertionTask).__name__, other is AssertionTask, 'pydantic' in sys.modules)\n"
        "made = AssertionTask(id='a', operator='IsString')\n"
        "import scouter.evaluate\n"
        "from scouter.evaluate import AssertionTask as real\n"
        "print(type(made) is real, real == AssertionTask, scouter.evaluate.AssertionTask is real)"
    ).splitlines() == ["StandIn True False", "True True True"]


def test_whoever_has_models_gets_the_model_itself() -> None:
    assert (
        fresh(
            "from pydantic import BaseModel\n"
            "from scouter.evaluate import AssertionTask\n"
            "print(issubclass(AssertionTask, BaseModel), type(AssertionTask).__name__)"
        )
        == "True ModelMetaclass"
    )


def test_many_threads_load_one_model() -> None:
    assert (
        fresh(
            "import sys, threading\n"
            "sys.setswitchinterval(1e-6)\n"
            "from scouter.evaluate import AssertionTask, EvalScenario\n"
            "start, found = threading.Barrier(8), []\n"
            "def use():\n"
            "    start.wait()\n"
            "    for kind in (AssertionTask, EvalScenario):\n"
            "        found.append((kind, type(kind.model_construct()), isinstance(1, kind)))\n"
            "threads = [threading.Thread(target=use) for _ in range(8)]\n"
            "for thread in threads: thread.start()\n"
            "for thread in threads: thread.join()\n"
            "print(len(found), len({id(real) for _, real, _ in found}),\n"
            "      all(kind == real and not wrong for kind, real, wrong in found))"
        )
        == "16 2 True"
    )


def _public() -> list[tuple[ModuleType, str]]:
    """Every name of every package whose names are imported when used."""
    packages = [import_module(name) for name in promised()]
    return [(p, name) for p in packages if "__getattr__" in vars(p) for name in p.__all__]


def test_the_tables_tell_models_from_all_other_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model among the others would load pydantic; something else among the models would break."""
    real = {(package.__name__, name): getattr(package, name) for package, name in _public()}
    monkeypatch.delitem(sys.modules, "pydantic.main")

    given = {(p.__name__, name): p.__getattr__(name) for p, name in _public()}
    models = {at for at, value in given.items() if type(value) is StandIn}

    assert models == {
        at for at, value in real.items() if isinstance(value, type) and issubclass(value, BaseModel)
    }
    assert ("scouter.drift", "AgentEvalProfile") in models
    for at, value in given.items():
        assert value == real[at]
        assert at not in models or value.__name__ == at[1].replace("GenAI", "Agent")
