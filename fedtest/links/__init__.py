"""What is done to a network so that it is as a scenario wants it: planned, read back, measured.

Pure: from a Plan to commands, and from what they print to a judgement.
"""
