"""Executes a plan on an engine: stages, events, deadlines, checks, artifacts."""
