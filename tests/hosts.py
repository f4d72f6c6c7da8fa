"""Hosts of their own: network, mount, process and name spaces on one bridge. Nothing is shared but the network.

Each has a private disk at ``/srv`` and a private ``/tmp``. The test itself is on the bridge too. Needs root and Linux.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.processes import dies_with_the_test

NETWORK = "10.213.79"
OWN = "payhook-test"
"""The test's own end of the wire."""

READY_S = 30.0


def missing() -> str | None:
    """Why hosts can't be made here; None where they can."""
    if os.geteuid() != 0:
        return "hosts of their own (network namespaces) need root"
    absent = [program for program in ("ip", "unshare", "nsenter") if shutil.which(program) is None]
    return f"not installed: {', '.join(absent)} (Debian: apt-get install iproute2 util-linux)" if absent else None


@dataclass
class Host:
    """``disk`` is what it has at ``/srv``, seen from outside. ``hides``: folders of this machine that it hasn't;
    ``binds``: what it has all the same, by its path there.
    """

    name: str
    address: str
    disk: Path
    hosts: Path
    hides: Sequence[str] = ()
    binds: Mapping[str, Path] = field(default_factory=dict)
    outer: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.disk.mkdir(parents=True, exist_ok=True)
        ready = self.disk / "ready"
        ready.unlink(missing_ok=True)
        has = self.binds.values()
        lines = [
            "set -e; mount --make-rprivate /",
            f"hostname {self.name}; mount --bind {self.disk} /srv; mount --bind {self.hosts} /etc/hosts",
            *(f"mkdir -p /srv/{n}; mount --bind {shlex.quote(str(path))} /srv/{n}" for n, path in enumerate(has)),
            *(f"mount -t tmpfs tmpfs {folder}" for folder in ("/tmp", *self.hides)),
            *(f"mkdir -p {path}; mount --bind /srv/{n} {path}" for n, path in enumerate(self.binds)),
            "cd /srv; touch ready; exec sleep infinity",
        ]
        own = ["unshare", "--net", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
        self.outer = subprocess.Popen([*dies_with_the_test(), *own, "sh", "-c", "\n".join(lines)])
        until(ready.exists, READY_S, f"host {self.name}")

    @property
    def pid(self) -> int:
        """Of its first process."""
        assert self.outer is not None
        return int(psutil.Process(self.outer.pid).children()[0].pid)

    def run(self, *command: str, env: Mapping[str, str] | None = None, log: Path) -> subprocess.Popen[bytes]:
        """A process on this host; it ends with the host."""
        inside = ["nsenter", "-t", str(self.pid), "-m", "-n", "-u", "-p", "--wd=/srv"]
        with log.open("ab") as sink:
            return subprocess.Popen(
                [*inside, *command], env=dict(env or os.environ), stdin=subprocess.DEVNULL, stdout=sink, stderr=sink
            )

    def processes(self, word: str) -> list[psutil.Process]:
        """Those on this host with a word in their command line."""
        found = []
        namespace = (Path("/proc") / str(self.pid) / "ns" / "pid").readlink()
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                at = (Path("/proc") / str(process.pid) / "ns" / "pid").readlink()
                if at == namespace and word in " ".join(process.cmdline()):
                    found.append(process)
        return found

    def vanish(self) -> None:
        """As if its power were cut: its network says nothing more, then all that runs on it is gone."""
        _in(self.pid, "ip link set eth0 down")
        self.kill()

    def kill(self) -> None:
        if self.outer is not None and self.outer.poll() is None:
            self.outer.kill()
            self.outer.wait()


@contextlib.contextmanager
def network(folder: Path, *names: str) -> Iterator[Callable[..., Host]]:
    """Makes hosts by their names; all are gone after the ``with``."""
    hosts_file = folder / "hosts"
    addresses = {name: f"{NETWORK}.{number}" for number, name in enumerate(names, 10)}
    known = [f"{address} {name}" for name, address in addresses.items()]
    hosts_file.write_text("\n".join(["127.0.0.1 localhost", *known, ""]), "utf-8")
    made: list[Host] = []
    switch = Host("switch", "", folder / "switch", hosts_file)

    def host(name: str, **more: object) -> Host:
        one = Host(name, addresses[name], folder / name, hosts_file, **more)  # type: ignore[arg-type]
        made.append(one)
        one.start()
        number = one.address.rpartition(".")[2]
        _in(switch.pid, f"ip link add v{number} type veth peer name eth0 netns {one.pid}")
        _in(switch.pid, f"ip link set v{number} master bridge up")
        _in(one.pid, f"ip addr add {one.address}/24 dev eth0; ip link set eth0 up; ip link set lo up")
        return one

    try:
        made.append(switch)
        switch.start()
        _in(switch.pid, "ip link add bridge type bridge; ip link set bridge up")
        _in(
            switch.pid, f"ip link add v1 type veth peer name {OWN} netns {os.getpid()}; ip link set v1 master bridge up"
        )
        _in(os.getpid(), f"ip addr add {NETWORK}.1/24 dev {OWN}; ip link set {OWN} up")
        yield host
    finally:
        for one in reversed(made):
            one.kill()
        subprocess.run(["ip", "link", "del", OWN], check=False, capture_output=True)


def _in(pid: int, script: str) -> None:
    subprocess.run(["nsenter", f"--net=/proc/{pid}/ns/net", "sh", "-ec", script], check=True)


def until(holds: Callable[[], bool], limit_s: float, what: str) -> float:
    """Waits; the seconds that it took."""
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < limit_s, f"not within {limit_s:.0f} s: {what}"
        time.sleep(0.1)
    return time.monotonic() - began
