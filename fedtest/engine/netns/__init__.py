"""Hosts as network namespaces of this machine: no daemon, no image."""
