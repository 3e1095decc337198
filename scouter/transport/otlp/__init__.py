"""The transports to any OTLP endpoint, and the spans that they carry."""
