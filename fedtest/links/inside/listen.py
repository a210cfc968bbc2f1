"""Takes ports: `listen.py PORT:ANSWERS ...`, with `wrong` or `nothing` for what it answers.

`wrong` sends what no protocol of a process group begins with, and closes;
`nothing` keeps the connection and is silent.
"""

import selectors
import socket
import sys

WRONG = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"
MOST_SILENT = 1000


def serve(ports: dict[int, str]) -> None:
    """Listen for ever."""
    selector = selectors.DefaultSelector()
    for port, answers in ports.items():
        # Both families, as what takes all addresses does.
        listener = socket.create_server(("", port), backlog=128)
        selector.register(listener, selectors.EVENT_READ, answers)
    silent: list[socket.socket] = []
    while True:
        for key, _ in selector.select():
            listener = key.fileobj  # type: ignore[assignment] # only sockets were registered
            connection, _ = listener.accept()
            if key.data == "wrong":
                with connection:
                    connection.sendall(WRONG)
            else:
                silent.append(connection)
                if len(silent) > MOST_SILENT:
                    silent.pop(0).close()


if __name__ == "__main__":
    serve(
        {int(port): answers for port, _, answers in (word.partition(":") for word in sys.argv[1:])}
    )
