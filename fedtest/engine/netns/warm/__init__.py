"""Python processes that start warm: forked from one that has made the slow imports already.

`command` says what can be, `client` is what the engine holds, `inside` is what
runs in the user's own interpreter, `wire` is what they say to each other.
"""
