"""Spans and records from Redis Streams and RabbitMQ."""
