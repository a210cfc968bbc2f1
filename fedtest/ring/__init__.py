"""The ring trainer: N servers train one CNN on MNIST and average gradients over two rings.

    python -m fedtest.ring --init-method tcp://HOST:PORT --rank R --world-size N \\
        --gloo_socket_ifname IF

Needs torch and torchvision and nothing of the testbed: started by hand on N
machines it does the same. Nothing heavy is imported until training starts, so
that `--help` and a mistyped option answer at once.
"""
