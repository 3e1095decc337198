"""Transports: ways of records and spans to a collector."""

from typing import TYPE_CHECKING

from scouter.lazy import lazy_names

if TYPE_CHECKING:
    from scouter.transport.config import HttpConfig, KafkaConfig, MockConfig, TransportConfig
    from scouter.transport.in_process.config import InProcessConfig
    from scouter.transport.otlp.config import GrpcConfig, OtlpConfig
    from scouter.transport.rabbitmq.config import RabbitMQConfig
    from scouter.transport.redis.config import RedisConfig
    from scouter.transport.spool.config import SpoolConfig
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
