"""What a host's network has beyond what engines give: planned, read back, measured.

Addresses, routes, forwarding and DNS. Pure: from a Plan to scripts, and from what they print to
a judgement.
"""
