"""Becomes a container's first process: ``python launch.py SPEC`` within namespaces of its own, made by `unshare`.

The standard library alone. As container engines do it: the image below a writable layer, volumes and secrets where the
service names them, then the root is made read-only and what is privileged is given up.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
PR_SET_PDEATHSIG = 1
CAPABILITIES = 41
MNT_DETACH = 2
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")

libc = ctypes.CDLL(None, use_errno=True)


def main(spec: dict[str, Any]) -> None:
    root = Path(spec["root"])
    mount("--make-rprivate", "/")
    mount("-t", "tmpfs", "tmpfs", str(root))
    upper, work, merged = (root / name for name in ("upper", "work", "merged"))
    for folder in (upper, work, merged):
        folder.mkdir()
    mount("-t", "overlay", "overlay", "-o", f"lowerdir={spec['lower']},upperdir={upper},workdir={work}", str(merged))
    systems(merged)
    for target, options in spec["tmpfs"].items():
        mount("-t", "tmpfs", "tmpfs", "-o", options, str(folder_at(merged, target)))
    for source, target, is_read_only in spec["binds"]:
        bind(Path(source), merged, target, is_read_only)
    if spec["read_only"]:
        mount("-o", "remount,ro", str(merged))
    os.chdir(merged)
    check(libc.pivot_root(b".", b"."), "pivot_root")
    check(libc.umount2(b".", MNT_DETACH), "umount")
    os.chdir(spec["folder"])
    give_up(spec)
    os.execvpe(spec["command"][0], spec["command"], spec["env"])


def systems(merged: Path) -> None:
    mount("-t", "proc", "proc", str(folder_at(merged, "/proc")))
    mount("-t", "tmpfs", "tmpfs", "-o", "mode=755,nosuid", str(folder_at(merged, "/dev")))
    for device in DEVICES:
        bind(Path("/dev") / device, merged, f"/dev/{device}", False)
    for name, target in (("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        (merged / "dev" / name).symlink_to(f"/proc/self/{target}")
    mount("-t", "tmpfs", "tmpfs", "-o", "mode=1777,size=64m", str(folder_at(merged, "/dev/shm")))


def bind(source: Path, merged: Path, target: str, is_read_only: bool) -> None:
    inside = merged / target.lstrip("/")
    if source.is_dir():
        inside.mkdir(parents=True, exist_ok=True)
    elif not inside.exists():
        inside.parent.mkdir(parents=True, exist_ok=True)
        inside.touch()
    mount("--bind", str(source), str(inside))
    if is_read_only:
        mount("-o", "remount,bind,ro", str(inside))


def folder_at(merged: Path, target: str) -> Path:
    inside = merged / target.lstrip("/")
    inside.mkdir(parents=True, exist_ok=True)
    return inside


def give_up(spec: dict[str, Any]) -> None:
    """Capabilities, groups and root's number, for good."""
    for number in range(CAPABILITIES) if spec["drops_all"] else ():
        check(libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0), f"capability {number}")
    uid, gid = spec["uid"], spec["gid"]
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    # Another user forgets what `unshare --kill-child` asked for.
    check(libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "death with its parent")
    if spec["no_new_privileges"]:
        check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    os.umask(0o022)


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def check(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), what)


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text("utf-8")))
