"""Looks at a host from beside it: in its network and among its processes, but not of its image.

Runs in a helper, so that it needs nothing of the host's own image. Standard
library only, and nothing of the testbed: like the node side it travels in the
node image.
"""
