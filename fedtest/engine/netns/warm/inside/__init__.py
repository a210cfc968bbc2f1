"""What runs in the user's interpreter: nothing here needs more than the standard library.

It is forgotten before the first import of `preload`, so that a process finds
its own fedtest, or none.
"""
