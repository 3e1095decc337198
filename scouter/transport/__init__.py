"""Where records and spans go."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scouter.transport.config import HttpConfig, KafkaConfig, MockConfig, TransportConfig
    from scouter.transport.in_process_config import InProcessConfig
    from scouter.transport.otlp_config import GrpcConfig, OtlpConfig
    from scouter.transport.rabbitmq_config import RabbitMQConfig
    from scouter.transport.redis_config import RedisConfig
    from scouter.transport.spool_config import SpoolConfig

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

_HOMES = {
    "GrpcConfig": "otlp_config",
    "InProcessConfig": "in_process_config",
    "OtlpConfig": "otlp_config",
    "RabbitMQConfig": "rabbitmq_config",
    "RedisConfig": "redis_config",
    "SpoolConfig": "spool_config",
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in __all__:
        return getattr(import_module(f"scouter.transport.{_HOMES.get(name, 'config')}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
