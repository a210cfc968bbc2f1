"""Hosts as containers, networks as bridges, through the Docker SDK."""
