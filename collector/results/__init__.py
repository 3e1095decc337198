"""Results sent on to an OTLP endpoint."""
