"""What several kinds of checks say in the same words."""

ONE_HOST = "Only the process on this host; without it, on every host it runs on."
