"""fedtest: a containerized multi-host testbed for torch.distributed over Gloo."""

__version__ = "0.1.0"
