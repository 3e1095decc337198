"""The content of requests and messages, from their bytes to spans, events and records."""
