"""A socket from which kafka-python reads much at a time.

The client reads 4 kB after 4 kB until nothing is left, and gives up the interpreter with each read:
while other threads work, it waits for its turn five hundred times for one answer of 2 MiB. On a
slow host that took up to a fifth of the throughput, on a fast one nothing. It makes its sockets by
`KafkaNetSocket`, of which a subclass is chosen by the scheme of a proxy's URL.

A connection with TLS makes a socket of its own from ours, and reads as before.
"""

import functools
import socket
from typing import Final

_SCHEME: Final = "scouter-large-reads"
_READ_BYTES: Final = 256 * 2**10


class LargeReadSocket(socket.socket):
    """A socket that gives more than it is asked for, and knows when it has given everything."""

    _is_drained = False

    def __repr__(self) -> str:
        """Ask the system nothing: the client looks sockets up, and a miss writes them out."""
        return "<LargeReadSocket>"

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        """Read what there is, up to 256 KiB or so many bytes if they are more.

        Raises:
            BlockingIOError: There is nothing, or the read before this one left nothing; the
                system is not asked then.
        """
        if self._is_drained:
            self._is_drained = False
            raise BlockingIOError
        size = max(bufsize, _READ_BYTES)
        data = super().recv(size, flags)
        self._is_drained = 0 < len(data) < size
        return data


@functools.cache
def large_reads() -> str | None:
    """The client's setting `proxy_url` for sockets of this module; there is no proxy.

    Returns:
        None where the installed version of the client makes its sockets in another way.
    """
    try:
        from kafka.net import KafkaNetSocket
    except ImportError:
        return None

    class LargeReads(KafkaNetSocket):  # pyright: ignore[reportUnusedClass] found by its scheme
        SCHEMES = (_SCHEME,)

        def socket(
            self,
            family: int = socket.AF_UNSPEC,
            sock_type: int = socket.SOCK_STREAM,
            proto: int = socket.IPPROTO_TCP,
        ) -> socket.socket:
            return LargeReadSocket(family, sock_type, proto)

    return f"{_SCHEME}://"
