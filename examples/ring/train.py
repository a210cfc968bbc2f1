"""Train on several servers, one process on each: `python3 -u train.py --help`.

On the first server (rank 0), and with its own rank and interface on each other:

    nohup python3 -u train.py --init-method tcp://192.168.0.1:23456 --epoch 5 \\
        --rank 0 --world-size 2 --gloo_socket_ifname eth0

MNIST is downloaded to ./data, checkpoints and metrics are in ./checkpoints.
"""

import sys
from pathlib import Path

# In a clone, the package is two directories up; copied elsewhere, beside this file.
for place in (Path(__file__).resolve().parent, Path(__file__).resolve().parents[2]):
    if (place / "fedtest" / "ring").is_dir():
        sys.path.insert(0, str(place))
        break

try:
    from fedtest.ring.__main__ import end, main
except ModuleNotFoundError as error:
    sys.exit(f"{error}: copy the directory fedtest of the clone beside train.py, or install it")

if __name__ == "__main__":
    end(main())
