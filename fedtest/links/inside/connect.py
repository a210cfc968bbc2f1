"""Tells what becomes of TCP connections: `connect.py ADDRESS:PORT ...`, one word each as JSON.

`refused`, `unanswered` (no connection within the time there is), `silent`
(connected, and nothing was said), `answered`, or the error's own name.
"""

import errno
import json
import socket
import sys
from concurrent.futures import ThreadPoolExecutor

TO_CONNECT = 2.0
"""Longer than a second, after which a lost packet is sent again."""
TO_SPEAK = 1.0


def outcome(address: str, port: int) -> str:
    """What becomes of one connection."""
    try:
        with socket.create_connection((address, port), timeout=TO_CONNECT) as connection:
            connection.settimeout(TO_SPEAK)
            try:
                return "answered" if connection.recv(1) else "closed"
            except TimeoutError:
                return "silent"
    except TimeoutError:
        return "unanswered"
    except ConnectionRefusedError:
        return "refused"
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))


if __name__ == "__main__":
    places = [word.rpartition(":") for word in sys.argv[1:]]
    with ThreadPoolExecutor(max_workers=32) as pool:
        found = list(pool.map(lambda place: outcome(place[0], int(place[2])), places))
    sys.stdout.write(json.dumps(found) + "\n")
