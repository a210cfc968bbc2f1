"""Hears UDP packets as any program of the host would, and tells from whom: `hear ADDRESS/PORT...`.

A port that somebody else has cannot be heard at; then nothing is told of it.
"""

import contextlib
import select
import socket
import sys


def main(places: list[str]) -> None:
    """Prints `ready`, then `SOURCE PLACE` for each packet, until it is ended."""
    heard = {}
    for place in places:
        address, _, port = place.rpartition("/")
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        udp = socket.socket(family, socket.SOCK_DGRAM)
        with contextlib.suppress(OSError):
            udp.bind((address, int(port)))
            heard[udp] = place
    tell("ready")
    while True:
        for udp in select.select(list(heard), [], [])[0]:
            _, source = udp.recvfrom(2048)
            tell(f"{source[0]} {heard[udp]}")


def tell(line: str) -> None:
    """A line, at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
