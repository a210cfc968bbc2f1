"""Data sets, provisioned once into the user's cache."""
