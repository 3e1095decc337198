"""The ways in: HTTP and Kafka."""
