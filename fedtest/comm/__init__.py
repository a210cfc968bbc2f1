"""Packages of tensors between the ranks of a process group, over torch.distributed and Gloo.

    with DistNetwork(("192.168.0.1", 23456), world_size=2, rank=1, ethernet="enps1") as network:
        network.send([weights, bias], MessageCode.ParameterUpdate, dst=0)
        sender, code, tensors = network.recv(src=0)

The names, what they do and the wire are those of FedLab's communication
module; docs/comm.md has the wire, and what is different.
"""

from fedtest.comm.codes import DTYPES, MessageCode
from fedtest.comm.coercion import CoercionWarning
from fedtest.comm.errors import (
    AddressError,
    ArgumentError,
    CoercionError,
    CommError,
    ConnectorLost,
    DtypeError,
    DuplicateRank,
    ExitTimeout,
    HierarchyError,
    IdError,
    InterfaceError,
    JoinError,
    NotConnected,
    PackageError,
    PeerError,
    PeerLost,
    PortTaken,
    ProtocolError,
    RendezvousTimeout,
    TransferTimeout,
    WorldSizeError,
)
from fedtest.comm.network import DistNetwork
from fedtest.comm.package import Package
from fedtest.comm.processor import PackageProcessor

__all__ = [
    "DTYPES",
    "AddressError",
    "ArgumentError",
    "CoercionError",
    "CoercionWarning",
    "CommError",
    "ConnectorLost",
    "DistNetwork",
    "DtypeError",
    "DuplicateRank",
    "ExitTimeout",
    "HierarchyError",
    "IdError",
    "InterfaceError",
    "JoinError",
    "MessageCode",
    "NotConnected",
    "Package",
    "PackageError",
    "PackageProcessor",
    "PeerError",
    "PeerLost",
    "PortTaken",
    "ProtocolError",
    "RendezvousTimeout",
    "TransferTimeout",
    "WorldSizeError",
]
