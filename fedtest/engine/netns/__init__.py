"""Hosts as network namespaces, without a daemon and without images."""
