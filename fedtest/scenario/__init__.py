"""The scenario file: its model, loading with positions, templates. Pure: no engine, no torch."""
