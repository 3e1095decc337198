"""The transport over Apache Kafka."""
