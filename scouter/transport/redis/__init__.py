"""The transport over Redis Streams."""
