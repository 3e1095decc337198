"""The TracerProvider that Scouter sets globally where an application has none."""

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.util import types


class ScouterTracerProvider(TracerProvider):
    """A provider of the OpenTelemetry SDK whose tracers are `ScouterTracer`s.

    So `opentelemetry.trace.get_tracer` gives tracers whose spans take tags, inputs, outputs and
    records, and the current span of other libraries' instrumentation does, too.
    """

    def get_tracer(
        self,
        instrumenting_module_name: str,
        instrumenting_library_version: str | None = None,
        schema_url: str | None = None,
        attributes: types.Attributes = None,
    ) -> trace.Tracer:
        """Make a tracer of a scope."""
        from scouter.tracing.tracer import ScouterTracer

        maker = super().get_tracer(
            instrumenting_module_name, instrumenting_library_version, schema_url, attributes
        )
        return ScouterTracer(scope=instrumenting_module_name, maker=maker)


def sdk_tracer(
    provider: TracerProvider,
    name: str,
    version: str | None = None,
    schema_url: str | None = None,
    attributes: types.Attributes = None,
) -> trace.Tracer:
    """A provider's tracer whose spans are the SDK's own, to be wrapped."""
    if isinstance(provider, ScouterTracerProvider):
        return TracerProvider.get_tracer(provider, name, version, schema_url, attributes)
    return provider.get_tracer(name, version, schema_url, attributes)
