"""The client of a collector."""

from types import TracebackType
from typing import Self

from scouter.client.routes.alerts import AlertRoutes
from scouter.client.routes.evaluations import EvaluationRoutes
from scouter.client.routes.labels import LabelRoutes
from scouter.client.routes.operation import OperationRoutes
from scouter.client.routes.records import RecordRoutes
from scouter.client.routes.traces import TraceRoutes


class ScouterClient(
    TraceRoutes, RecordRoutes, EvaluationRoutes, AlertRoutes, LabelRoutes, OperationRoutes
):
    """Asks a collector, and gives it orders; a method for every route of its API.

    Lists are read page by page while they are iterated over. A request that fails for now
    (429, 502, 503, 504, no connection) is sent again, with growing pauses or the one that the
    collector wants, unless a second delivery would do something else than the first. Any thread
    may use it.

        with ScouterClient() as client:
            for evaluation in client.evaluations(profile="answers", outcome="failed"):
                print(evaluation.record_id, evaluation.evaluated_at)

    Args:
        url: Base address of the collector, or an `HttpConfig` with address and token. Environment:
            SCOUTER_URL; else http://127.0.0.1:4318.
        token: Sent as a bearer token. Environment: SCOUTER_AUTH_TOKEN.
        timeout_s: Longest wait for the next part of an answer, in whole seconds; orders that take
            longer, such as a backup, are waited for longer. A whole answer takes 15 minutes at
            most, and 256 MiB.
        config: Another word for `url`.
        retry: Rules for sending a request again.
        transport: Carries the requests; by default the network.
        sleep: Waits the given seconds before a request is sent again.

    Raises:
        ConfigError: The address or the token cannot be one.
        ApiError: Of every method: the collector refused.
        TransientError: Of every method: it could not be reached, or is busy (then a `BusyError`).
        DataError: Of every method: the answer is not understood.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
