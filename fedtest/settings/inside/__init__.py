"""Programs that scripts carry into hosts' networks: each one file, Python's own library alone."""
