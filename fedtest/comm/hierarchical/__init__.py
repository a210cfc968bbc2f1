"""Middle servers: rank 0 of the clients below, and a client of the server above.

    Scheduler(DistNetwork(("10.0.0.1", 23456), 3, 1, "wan0"),
              DistNetwork(("10.1.0.1", 23456), 3, 0, "lan0")).run()

The names are those of FedLab's hierarchical module; docs/hierarchical.md has
what is on the wire, and what is different.
"""

from fedtest.comm.hierarchical.connector import Connector
from fedtest.comm.hierarchical.coordinator import Coordinator
from fedtest.comm.hierarchical.ids import put_ids, send_to, take_ids
from fedtest.comm.hierarchical.lower import ClientConnector
from fedtest.comm.hierarchical.queue import MessageQueue
from fedtest.comm.hierarchical.scheduler import Scheduler
from fedtest.comm.hierarchical.setup import hear_clients, origin, tell_clients
from fedtest.comm.hierarchical.upper import ServerConnector

__all__ = [
    "ClientConnector",
    "Connector",
    "Coordinator",
    "MessageQueue",
    "Scheduler",
    "ServerConnector",
    "hear_clients",
    "origin",
    "put_ids",
    "send_to",
    "take_ids",
    "tell_clients",
]
