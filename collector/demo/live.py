"""The agent's process in the demo: instrument, answer questions, exit.

Run as `python -m collector.demo.live RELEASE COUNT COLLECTOR_URL`. Its service name and version
come from the standard variable OTEL_RESOURCE_ATTRIBUTES, as in a deployment.
"""

import sys

from pydantic_ai import Agent

from collector.demo.support_desk import RELEASES, SupportDesk, conversations
from scouter.drift.profile import AgentEvalProfile
from scouter.queue.scouter_queue import ScouterQueue
from scouter.tracing.instrumentor import ScouterInstrumentor
from scouter.tracing.tracer import get_tracer
from scouter.transport.config import HttpConfig


def main(release: str, count: int, collector_url: str) -> None:
    """Answer `count` questions; print a line for each, so that the parent can show progress."""
    queue = ScouterQueue.from_profile(
        profile=[
            AgentEvalProfile.from_file("support_retriever"),
            AgentEvalProfile.from_file("support_writer"),
        ],
        transport_config=HttpConfig(server_uri=collector_url),
    )
    instrumentor = ScouterInstrumentor()
    instrumentor.instrument(scouter_queue=queue)
    Agent.instrument_all()
    desk = SupportDesk(RELEASES[release], get_tracer("support-desk"))
    for question, order_id in conversations(count):
        desk.answer(question)
        sys.stdout.write(f"{order_id}\n")
        sys.stdout.flush()
    instrumentor.uninstrument()
    queue.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
