# The node image: what a host of the testbed runs from unless a scenario names
# another. CPU torch and torchvision, the tools the testbed needs, fedtest's
# node side. No BuildKit syntax: docker-py drives the classic builder.
#
# `fedtest run` builds it when it is needed (fedtest/engine/docker/images.py).
# By hand: docker build -t fedtest-node .
ARG BASE=debian:trixie-slim
FROM ${BASE}

# torch and torchvision from Debian: a CPU build with Gloo, the same on every
# architecture; from PyPI it would be a CUDA build of several gigabytes.
# ca-certificates: a trainer without MNIST downloads it over https.
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        ca-certificates \
        iproute2 \
        iptables \
        python-is-python3 \
        python3 \
        python3-numpy \
        python3-torch \
        python3-torchvision \
 && apt-get clean \
 && rm -rf /var/lib/apt/lists/*

# Debian's torch is built without libuv; this has every store made without it,
# torchrun's and a user's own, too. Compiled, because each start of Python reads it.
COPY images/node /usr/lib/python3/dist-packages

# The plain user that processes run as. The .pth puts fedtest on everyone's
# sys.path, from any directory, whatever PYTHONPATH says. The list of versions
# is what this very image has; fedtest copies the telling ones into a label.
RUN groupadd --gid 1000 fedtest \
 && useradd --uid 1000 --gid 1000 --create-home --shell /bin/bash fedtest \
 && echo /opt/fedtest > /usr/lib/python3/dist-packages/fedtest.pth \
 && python3 -m py_compile /usr/lib/python3/dist-packages/fedtest_tcpstore.py \
 && dpkg-query --show > /etc/fedtest-versions.txt

# Unbuffered: a log is watched line by line.
ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1

LABEL fedtest.image=node
WORKDIR /home/fedtest

# Last, so that a change of fedtest's code leaves the layers above in the cache.
COPY fedtest /opt/fedtest/fedtest
