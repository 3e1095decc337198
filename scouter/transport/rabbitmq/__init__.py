"""The transport over RabbitMQ."""
