"""OTLP and records over HTTP."""
