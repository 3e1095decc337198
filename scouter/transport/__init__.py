"""Transports: ways of records and spans to a collector."""

from typing import TYPE_CHECKING

from scouter.lazy import lazy_names

if TYPE_CHECKING:
    from scouter.transport.config import (
        GrpcConfig,
        HttpConfig,
        InProcessConfig,
        KafkaConfig,
        MockConfig,
        OtlpConfig,
        RabbitMQConfig,
        RedisConfig,
        SpoolConfig,
        TransportConfig,
    )
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = (
    "GrpcConfig",
    "HttpConfig",
    "InProcessConfig",
    "KafkaConfig",
    "MockConfig",
    "OtlpConfig",
    "RabbitMQConfig",
    "RedisConfig",
    "SpoolConfig",
    "TransportConfig",
)
