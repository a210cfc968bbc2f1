"""Breaks what a scenario says to break, when it says so, and makes it whole again."""
