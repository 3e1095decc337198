"""OTLP requests to spans and records, item by item."""
