"""Where records and spans go."""

from typing import TYPE_CHECKING

from scouter.lazy import lazy_names

if TYPE_CHECKING:
    from scouter.transport.config import HttpConfig, KafkaConfig, MockConfig, TransportConfig
    from scouter.transport.in_process_config import InProcessConfig
    from scouter.transport.otlp_config import GrpcConfig, OtlpConfig
    from scouter.transport.rabbitmq_config import RabbitMQConfig
    from scouter.transport.redis_config import RedisConfig
    from scouter.transport.spool_config import SpoolConfig
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        models={
            "scouter.transport.config": (
                "HttpConfig",
                "KafkaConfig",
                "MockConfig",
                "TransportConfig",
            ),
            "scouter.transport.in_process_config": ("InProcessConfig",),
            "scouter.transport.otlp_config": ("GrpcConfig", "OtlpConfig"),
            "scouter.transport.rabbitmq_config": ("RabbitMQConfig",),
            "scouter.transport.redis_config": ("RedisConfig",),
            "scouter.transport.spool_config": ("SpoolConfig",),
        },
        others={},
    )

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
