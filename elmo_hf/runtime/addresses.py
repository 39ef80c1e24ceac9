"""Addresses to listen on."""

import contextlib
import socket
from collections.abc import Generator

from ..errors import ModelError


@contextlib.contextmanager
def bound_socket(host: str, port: int) -> Generator[socket.socket]:
    """
    A socket at an address, which does not listen yet. It shows before models are loaded that the address can be used.

    Args:
        port: 0 takes a free one.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except BaseException:
            listener.close()
            raise
    except (OSError, UnicodeError) as error:  # a host that is no name of one is a UnicodeError
        reason, shown = getattr(error, "strerror", None) or error, f"{host}:{port}" if port else host
        raise ModelError(f"{shown} cannot be listened on ({reason}): choose another --host or --port.") from error
    with listener:
        yield listener


__all__ = ["bound_socket"]
