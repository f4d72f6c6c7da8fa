"""Reads a compose file as `docker compose` does, as far as payhook's uses it, and runs its services in namespaces."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import yaml

from tests.containers.image import Image, lower
from tests.processes import dies_with_the_test, with_children

NETWORK = "10.213.77"
LAUNCH = Path(__file__).with_name("launch.py")
TMPFS = "rw,nosuid,nodev,noexec"
"""An engine's own options of a tmpfs; those that are given come after them."""

POLL_S_MAX = 2.0
"""Between two health checks; the file's own intervals are for days, not for a test."""

NOT_KNOWN = "the test knows no such key: it would pass over what the file asks for"
SERVICE_KEYS = {
    *("image", "build", "user", "command", "environment", "tmpfs", "volumes", "secrets", "ports", "depends_on"),
    *("healthcheck", "stop_grace_period", "deploy", "restart", "read_only", "cap_drop", "security_opt", "logging"),
    *("profiles", "container_name"),
}


@dataclass(frozen=True)
class ImageRole:
    """What stands in for an image that can't be had: its root folder's layers, and how it is started."""

    image: Image
    entry: tuple[str, ...] = ()


def load(*files: Path, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The files laid over one another, anchors and variables resolved."""
    whole: dict[str, Any] = {"services": {}, "secrets": {}, "volumes": {}}
    for file in files:
        read = yaml.safe_load(interpolated(file.read_text("utf-8"), env or {}))
        whole["secrets"] |= read.get("secrets", {})
        whole["volumes"] |= read.get("volumes", {})
        for name, service in read["services"].items():
            known = whole["services"].setdefault(name, {})
            for key, value in service.items():
                assert key in SERVICE_KEYS, f"{name}.{key}: {NOT_KNOWN}"
                if key in ("secrets", "volumes"):
                    known[key] = [*known.get(key, []), *value]
                elif key == "environment":
                    known[key] = {**known.get(key, {}), **value}
                else:
                    known[key] = value
    return whole


def interpolated(text: str, env: Mapping[str, str]) -> str:
    """``${NAME:-default}``, ``${NAME:+instead}`` and ``$$``."""
    text = re.sub(r"\$\{(\w+):\+([^}]*)\}", lambda found: found[2] if env.get(found[1]) else "", text)
    text = re.sub(r"\$\{(\w+):-([^}]*)\}", lambda found: env.get(found[1]) or found[2], text)
    return text.replace("$$", "$")


def seconds(duration: str) -> float:
    """As compose writes it: 1m30s."""
    units = {"s": 1.0, "m": 60.0, "h": 3_600.0}
    return sum(float(number) * units[unit] for number, unit in re.findall(r"(\d+)([smh])", duration))


def bytes_of(size: str) -> int:
    """As compose writes it: 512M."""
    return int(size[:-1]) * {"K": 2**10, "M": 2**20, "G": 2**30}[size[-1]]


@dataclass
class Container:
    """A service that runs; ``outer`` is what made its namespaces."""

    name: str
    outer: subprocess.Popen[bytes]
    log: Path
    env: Mapping[str, str]
    user: tuple[int, int]

    @property
    def pid(self) -> int:
        """Its first process, as the machine counts; 0 where there is none any more."""
        children = psutil.Process(self.outer.pid).children() if self.outer.poll() is None else []
        return children[0].pid if children else 0

    def execute(self, *command: str, timeout: float = 120.0, text: str = "") -> subprocess.CompletedProcess[str]:
        """As ``docker compose exec`` does: as its user, in its namespaces, with its environment."""
        uid, gid = self.user
        inside = ["nsenter", "-t", str(self.pid), "-m", "-p", "-n", "-u", "-i", "-r"]
        rights = ["/usr/bin/setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--bounding-set=-all"]
        rights += ["--inh-caps=-all", "--no-new-privs"]
        env = ["/usr/bin/env", "-i", *(f"{name}={value}" for name, value in self.env.items())]
        folder = ["/bin/sh", "-c", 'cd "$1"; shift; exec "$@"', "sh", self.env.get("PWD", "/")]
        return subprocess.run(
            [*inside, *rights, *env, *folder, *command],
            capture_output=True,
            text=True,
            input=text,
            timeout=timeout,
            check=False,
        )

    def stop(self, grace_s: float) -> tuple[int, float]:
        """SIGTERM to its first process; its exit code, and the seconds that it took. Killed after its grace."""
        began, pid = time.monotonic(), self.pid
        if pid:
            os.kill(pid, signal.SIGTERM)
        try:
            code = self.outer.wait(grace_s)
        except subprocess.TimeoutExpired:
            self.outer.kill()
            self.outer.wait()
            code = -signal.SIGKILL
        return code, time.monotonic() - began

    def used(self) -> tuple[int, int]:
        """Bytes that its processes don't share with others, and its threads."""
        memory = threads = 0
        for process in with_children(self.pid):
            with contextlib.suppress(psutil.NoSuchProcess):
                memory += process.memory_full_info().pss
                threads += process.num_threads()
        return memory, threads

    def said(self) -> str:
        return self.log.read_text("utf-8", "replace")


@dataclass
class Project:
    """A compose file's services on a network of their own.

    :param folder: where the file stands: paths in it begin there
    :param images: of services that this project builds; ``roles``: in the place of others' images, by service
    """

    folder: Path
    work: Path
    file: Mapping[str, Any]
    built: Image
    roles: Mapping[str, ImageRole]
    containers: dict[str, Container] = field(default_factory=dict)
    _nets: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def services(self) -> Mapping[str, Any]:
        """Those that no profile holds back, and that can be run here."""
        return {name: one for name, one in self.file["services"].items() if not one.get("profiles")}

    def __enter__(self) -> Project:
        self.work.mkdir(parents=True, exist_ok=True)
        self._switch = self._net("switch")
        self._inside(self._switch, "ip link add bridge type bridge && ip link set bridge up")
        for number, name in enumerate([*self.file["services"], "client"], 10):
            net = self._net(name)
            self._inside(self._switch, f"ip link add v{number} type veth peer name eth0 netns {net.pid}")
            self._inside(self._switch, f"ip link set v{number} master bridge up")
            self._inside(net, f"ip addr add {NETWORK}.{number}/24 dev eth0 && ip link set eth0 up && ip link set lo up")
        hosts = [f"{NETWORK}.{number} {name}" for number, name in enumerate(self.file["services"], 10)]
        self._hosts = self.work / "hosts"
        self._hosts.write_text("\n".join(["127.0.0.1 localhost", *hosts, ""]), "utf-8")
        return self

    def __exit__(self, *_: object) -> None:
        for one in reversed(list(self.containers.values())):
            if one.outer.poll() is None:
                one.outer.kill()
                one.outer.wait()
        for net in self._nets.values():
            net.kill()
            net.wait()

    def up(self, *names: str) -> None:
        """As ``docker compose up --detach``: each after what it depends on, in the state that it asks for."""
        for name in names or self.services:
            self._up(name)

    def _up(self, name: str) -> None:
        for other, condition in self.services[name].get("depends_on", {}).items():
            if other not in self.containers:
                self._up(other)
            if condition["condition"] == "service_healthy":
                self.await_health(other)
            else:
                self.await_end(other)
        if name not in self.containers or self.containers[name].outer.poll() is not None:
            self.start(name)

    def start(self, name: str, command: Sequence[str] = ()) -> Container:
        """Starts a service, with another command where one is given."""
        service = self.services[name]
        spec = self._spec(name, {**service, "command": list(command)} if command else service)
        file = self.work / f"{name}.json"
        file.write_text(json.dumps(spec), "utf-8")
        log = self.work / f"{name}.log"
        net = f"--net=/proc/{self._nets[name].pid}/ns/net"
        own = ["unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child"]
        with log.open("ab") as sink:
            outer = subprocess.Popen(
                [*dies_with_the_test(), "nsenter", net, *own, sys.executable, "-S", str(LAUNCH), str(file)],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
            )
        env = {**spec["env"], "PWD": spec["folder"]}
        self.containers[name] = Container(name, outer, log, env, (spec["uid"], spec["gid"]))
        return self.containers[name]

    def run_once(self, name: str, *command: str, limit_s: float = 180.0) -> str:
        """As ``docker compose run --rm``, of a service that is stopped: what the command said.

        :raises AssertionError: it failed
        """
        said = len((self.work / f"{name}.log").read_bytes())
        code = self.start(name, command).outer.wait(limit_s)
        words = (self.work / f"{name}.log").read_bytes()[said:].decode("utf-8", "replace")
        assert code == 0, f"{command} ended with {code}\n{words[-3000:]}"
        return words

    def await_health(self, name: str) -> float:
        """Waits until the service's check passes as it is written; the seconds that it took.

        :raises AssertionError: it failed for longer than the file allows, or ended
        """
        check, began = self.services[name]["healthcheck"], time.monotonic()
        interval = seconds(check["interval"])
        limit = seconds(check.get("start_period", "0s")) + check["retries"] * (interval + seconds(check["timeout"]))
        words = check["test"]
        command = ["/bin/sh", "-c", words[1]] if words[0] == "CMD-SHELL" else words[1:]
        last = ""
        while time.monotonic() - began < limit:
            container = self.containers[name]
            assert container.outer.poll() is None, f"{name} ended\n{container.said()[-3000:]}"
            if container.pid:
                asked = container.execute(*command, timeout=seconds(check["timeout"]) + 20)
                if asked.returncode == 0:
                    return time.monotonic() - began
                last = asked.stderr[-500:]
            time.sleep(min(POLL_S_MAX, interval))
        raise AssertionError(
            f"{name} isn't healthy after {limit:.0f} s: {last}\n{self.containers[name].said()[-3000:]}"
        )

    def await_end(self, name: str, limit_s: float = 180.0) -> None:
        """``service_completed_successfully``; one that fails is started again where the file says so."""
        until = time.monotonic() + limit_s
        while (code := self.containers[name].outer.wait(max(1.0, until - time.monotonic()))) != 0:
            assert self.services[name].get("restart") in ("on-failure", "unless-stopped"), f"{name} ended with {code}"
            assert time.monotonic() < until, f"{name} fails\n{self.containers[name].said()[-3000:]}"
            time.sleep(1.0)
            self.start(name)

    def stop(self, name: str) -> tuple[int, float, float]:
        """The exit code, the seconds that it took, and those that the file gives it."""
        grace_s = seconds(self.services[name].get("stop_grace_period", "10s"))
        return *self.containers[name].stop(grace_s), grace_s

    def client(self, *command: str, **more: Any) -> subprocess.CompletedProcess[str]:
        """A command of this machine's on the project's network, where no service is."""
        net = f"--net=/proc/{self._nets['client'].pid}/ns/net"
        hosts = f'mount --bind {shlex.quote(str(self._hosts))} /etc/hosts && exec "$@"'
        return subprocess.run(
            ["nsenter", net, "unshare", "--mount", "sh", "-c", hosts, "sh", *command],
            capture_output=True,
            text=True,
            check=False,
            **more,
        )

    def _spec(self, name: str, service: Mapping[str, Any]) -> dict[str, Any]:
        role = ImageRole(self.built) if "build" in service else self.roles[name]
        image = role.image
        uid, gid = map(int, str(service.get("user", image.user)).split(":"))
        command = tuple(service.get("command", image.command))
        given = {key: str(value) for key, value in service.get("environment", {}).items()}
        tmpfs = [one.partition(":") for one in service.get("tmpfs", [])]
        root = self.work / "roots" / name
        root.mkdir(parents=True, exist_ok=True)
        return {
            "root": str(root),
            "lower": lower(image),
            "command": [*(role.entry or image.entrypoint), *command],
            "env": {"HOME": self._home(image, uid), "HOSTNAME": name, **image.env, **given},
            "folder": image.folder,
            "uid": uid,
            "gid": gid,
            "read_only": service.get("read_only", False),
            "drops_all": service.get("cap_drop") == ["ALL"],
            "no_new_privileges": "no-new-privileges:true" in service.get("security_opt", []),
            "tmpfs": {target: ",".join([TMPFS, "mode=1777", *filter(None, [options])]) for target, _, options in tmpfs},
            "binds": list(self._binds(service, image)),
        }

    def _binds(self, service: Mapping[str, Any], image: Image) -> Iterator[tuple[str, str, bool]]:
        yield str(self._hosts), "/etc/hosts", True
        for source, target, *mode in (volume.split(":") for volume in service.get("volumes", [])):
            if source.startswith("./"):
                path = self.folder / source
                # As an engine does it: a folder that isn't there is made, and is root's.
                path.mkdir(parents=True, exist_ok=True)
            else:
                path = self._volume(source, target, image)
            yield str(path.resolve()), target, mode == ["ro"]
        for secret in service.get("secrets", []):
            path = self.folder / self.file["secrets"][secret]["file"]
            assert path.exists(), f"invalid mount: bind source path does not exist: {path}"
            yield str(path.resolve()), f"/run/secrets/{secret}", True

    def _volume(self, name: str, target: str, image: Image) -> Path:
        """A named volume; a new one is as its folder is in the image: whose it is, and what is in it."""
        assert name in self.file["volumes"], name
        path = self.work / "volumes" / name
        if path.exists():
            return path
        for layer in reversed(image.layers):
            inside = layer / target.lstrip("/")
            if inside.is_dir():
                path.parent.mkdir(parents=True, exist_ok=True)
                subprocess.run(["cp", "-a", str(inside), str(path)], check=True)
                return path
        path.mkdir(parents=True)
        return path

    @staticmethod
    def _home(image: Image, uid: int) -> str:
        for layer in reversed(image.layers):
            users = layer / "etc" / "passwd"
            for line in users.read_text("utf-8").splitlines() if users.is_file() else ():
                if line.split(":")[2] == str(uid):
                    return line.split(":")[5]
        return "/"

    def _net(self, name: str) -> subprocess.Popen[bytes]:
        """A network namespace, which a process holds."""
        ready = self.work / f"{name}.net"
        holds = f"touch {shlex.quote(str(ready))}; exec sleep infinity"
        self._nets[name] = subprocess.Popen([*dies_with_the_test(), "unshare", "--net", "sh", "-c", holds])
        until = time.monotonic() + 30.0
        while not ready.exists():
            assert time.monotonic() < until, name
            time.sleep(0.01)
        return self._nets[name]

    @staticmethod
    def _inside(net: subprocess.Popen[bytes], script: str) -> None:
        subprocess.run(["nsenter", f"--net=/proc/{net.pid}/ns/net", "sh", "-c", script], check=True)


def until(holds: Callable[[], bool], limit_s: float, what: str) -> float:
    """Waits; the seconds that it took."""
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < limit_s, f"not within {limit_s:.0f} s: {what}"
        time.sleep(0.5)
    return time.monotonic() - began


def missing(programs: Sequence[str]) -> str | None:
    """Why containers can't be run here; None where they can."""
    if os.geteuid() != 0:
        return "containers without an engine need root"
    absent = [program for program in programs if shutil.which(program) is None]
    return f"not installed: {', '.join(absent)} (Debian: apt-get install mmdebstrap iproute2)" if absent else None
