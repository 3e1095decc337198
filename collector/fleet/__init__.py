"""More than one machine: Kafka is the log, PostgreSQL the arbiter."""
