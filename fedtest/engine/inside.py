"""What runs inside a host, whatever the engine: POSIX shell, `tail`, `cat` and `ls`.

A user's own image may have neither Python nor iproute2, so a host tells of
itself by files of /proc and /sys, and `snapshot.parse` reads them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fedtest.plan_names import DNS_ADDRESS

if TYPE_CHECKING:
    from collections.abc import Collection

END = "==> end <=="
TOLD = re.compile(rb"(?:\A|\0)fedtest-pid (\d+)\n")
"""Where what `WRAPPER` says ends. Before it is the environment, each variable with a NUL."""

_UP = "/dev/shm/.fedtest-up"  # noqa: S108 - a host's own, and new whenever it is started

# One `tail` for all files, because every process started is time, in every host
# at once: it heads each file with a line "==> name <==". No host has all of them.
_NETWORK = """
look() {
  tail -n +1 /proc/uptime /proc/1/stat /proc/sys/kernel/random/boot_id \\
    /proc/net/dev /proc/net/route /proc/net/fib_trie /proc/net/if_inet6 \\
    /proc/net/tcp /proc/net/tcp6 \\
    "${fedtest_root:-}/etc/hosts" "${fedtest_root:-}/etc/resolv.conf" \\
    /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control "$@" 2>/dev/null || true
  echo
  echo "==> links <=="
  for d in /sys/class/net/*; do
    read -r mac < "$d/address"; read -r mtu < "$d/mtu"; read -r flags < "$d/flags"
    printf '%s\\n' "${d##*/} ${mac:--} $mtu $flags"
  done
}
"""

# Which process holds which socket: only root sees all of it, and a process may
# end while we look.
_PROCESSES = """
echo "==> stat <=="; cat /proc/[0-9]*/stat 2>/dev/null
echo "==> fd <=="; ls -l /proc/[0-9]*/fd 2>/dev/null
"""

SNAPSHOT = f"{_NETWORK}\nlook \"$@\"\n{_PROCESSES}\necho '{END}'\n"
"""Prints all of a host's state; needs root in the host to see everybody's sockets.

Arguments: files to print, too.
"""

_ROOT = "/proc/1/root"
FROM_BESIDE = f"fedtest_root={_ROOT}\n{SNAPSHOT}"
"""The same from a file system of another's, among the host's processes and in its network."""

LOOKER = f"{_NETWORK}\nwhile read -r _; do\nlook\n{_PROCESSES}\necho '{END}'\ndone\n"
"""Prints all of a host's state once for each line it reads."""

SNAPSHOT_WHEN_UP = f"until [ -e {_UP} ]; do sleep 0.05 2>/dev/null || sleep 1; done\n{SNAPSHOT}"
"""The same, of a host that may just have been started: its first process must be done."""

FIRST_PROCESS = f"""
printf '%s' "$1" > /etc/hosts || echo "cannot write /etc/hosts" >&2
if [ -n "$2" ]; then
  printf '%s' "$2" > /etc/resolv.conf || echo "cannot write /etc/resolv.conf" >&2
fi
shift 2
{_NETWORK}
look "$@"
: > {_UP}
echo '{END}'
exec sleep 2147483647
"""
"""The host's first process, which prints what it is, and then waits.

$1 is the content of /etc/hosts, $2 that of /etc/resolv.conf, empty for what the
engine puts there; files to print come after them.
"""

WRAPPER = """{ /bin/cat /proc/self/environ || cat /proc/self/environ; } 2>/dev/null
printf "fedtest-pid %s\\n" "$$" && exec "$@"
"""
"""Starts a command after telling, on standard output, its environment and its process id.

A shell sets some variables itself (PWD, IFS), so what it was given is not all that counts. The
`cat` has what the command will have, but for what a shell counts (SHLVL); it is mostly there, also
where the scenario says another PATH.
"""


def told_beside(text: str) -> str:
    """What `FROM_BESIDE` printed, as the host itself would have."""
    return text.replace(f"==> {_ROOT}/etc/", "==> /etc/")


def hosts_file(names: tuple[tuple[str, tuple[str, ...]], ...]) -> str:
    """The content of /etc/hosts: localhost, then `names` in order."""
    lines = ["127.0.0.1\tlocalhost", "::1\tlocalhost ip6-localhost ip6-loopback"]
    lines += [f"{address}\t{' '.join(aliases)}" for address, aliases in names]
    return "\n".join(lines) + "\n"


def resolv_conf(dns: Collection[object]) -> str:
    """The content of /etc/resolv.conf for a host with `dns`; empty: what the engine says."""
    return f"nameserver {DNS_ADDRESS}\n" if dns else ""


RENAME = f"""
set -eu
routes=$(ip -4 route show | grep -v 'proto kernel' || true)
n=0
moves=
temporary=tmp
names=" $* $(ls /sys/class/net) "
while case "$names" in *"$temporary"*) true;; *) false;; esac; do temporary=x$temporary; done
while [ $# -gt 0 ]; do
  old=
  for d in /sys/class/net/*; do
    read -r mac < "$d/address"
    case ",$1," in *",$mac,"*) old=${{d##*/}};; esac
  done
  if [ -z "$old" ]; then echo "no interface has the MAC address $1" >&2; exit 1; fi
  if [ "$old" != "$2" ]; then
    ip link set dev "$old" down
    ip link set dev "$old" name "$temporary$n"
    moves="$moves $temporary$n/$old/$2"
    n=$((n + 1))
  fi
  shift 2
done
for move in $moves; do
  rest=${{move#*/}}
  ip link set dev "${{move%%/*}}" name "${{rest#*/}}"
  ip link set dev "${{rest#*/}}" up
done
echo "$routes" | while read -r route; do
  [ -n "$route" ] || continue
  for move in $moves; do
    rest=${{move#*/}}
    case "$route " in
      *" dev ${{rest%%/*}} "*)
        head=${{route%% dev *}}
        ip route replace $head dev "${{rest#*/}}"
        break;;
    esac
  done
done
{_NETWORK}
look
echo '{END}'
exec sleep 2147483647
"""
"""Renames interfaces, then describes the host. Arguments: MAC address, name, and so on.

A MAC address may be several with commas between: any of them is the interface's.
Every interface that must change goes down and to a temporary name first, so
that two can swap theirs, and since kernels before 6.2 rename none that is up.
Going down costs routes: the connected ones come back by themselves, others are
put back. Needs NET_ADMIN and iproute2, so it runs in a helper,
and waits to be removed: Engine 20.10 at times loses the log of what ends at once. Doing it again
changes nothing.
"""
