"""Spans and records from Apache Kafka."""
