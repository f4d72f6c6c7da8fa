"""Builds what a Dockerfile describes: one folder a layer, which an overlay puts on one another.

In the role of the base image is a Debian of the same release with its own Python of the same minor version.
Layers are kept below ``.payhook/image`` by what went into them, so that a second build takes seconds.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path

BASE_PACKAGES = "ca-certificates,python3.11,python3.11-venv,bash,coreutils,findutils,grep,util-linux"
MACHINE_CERTIFICATES = Path("/usr/local/share/ca-certificates")
PASSED_ON = ("PIP_CERT", "PIP_DEFAULT_TIMEOUT", "SSL_CERT_FILE")
"""What this machine's package clients need to reach their registries."""

BUILD_S_MAX = 1_800.0

_MOUNT_AND_RUN = """
set -eu
mount --make-rprivate /
mount -t overlay overlay -o "lowerdir=$LOWER,upperdir=$UPPER,workdir=$WORK" "$ROOT"
mount -t proc proc "$ROOT/proc"
for device in null zero random urandom; do
    touch "$ROOT/dev/$device"
    mount --bind "/dev/$device" "$ROOT/dev/$device"
done
touch "$ROOT/etc/resolv.conf" "$ROOT/etc/hosts"
mount --bind /etc/hosts "$ROOT/etc/hosts"
mount --bind /etc/resolv.conf "$ROOT/etc/resolv.conf"
mkdir -p "$ROOT$FOLDER"
exec chroot "$ROOT" /bin/sh -c 'cd "$1"; shift; exec "$@"' sh "$FOLDER" "$@"
"""


@dataclass(frozen=True)
class Image:
    """Layers from the lowest to the uppermost, and how a container is started by default."""

    layers: tuple[Path, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    folder: str = "/"
    user: str = "0:0"
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()


@dataclass(frozen=True)
class Instruction:
    """One line of a Dockerfile, continued lines joined."""

    name: str
    words: str


def instructions(dockerfile: Path) -> list[Instruction]:
    """Comments and line breaks taken out."""
    lines = [line for line in dockerfile.read_text("utf-8").splitlines() if not line.lstrip().startswith("#")]
    whole = re.sub(r"\\\n", " ", "\n".join(lines))
    return [Instruction(*line.split(None, 1)) for line in whole.splitlines() if line.strip()]


def build(context: Path, kept: Path) -> Image:
    """The image of the last stage. Layers that no instruction of this build made are removed.

    :raises subprocess.CalledProcessError: an instruction failed; its output went to standard error
    """
    stages: dict[str, Image] = {}
    image, name = Image(), ""
    for one in instructions(context / "Dockerfile"):
        if one.name == "FROM":
            stages[name] = image
            source, _, name = (*one.words.split(), "", "")[:3]
            image = stages.get(source) or _base(source, kept)
        else:
            image = _step(image, one, context, stages, kept)
    used = {layer.name for layer in image.layers} | {layer.name for stage in stages.values() for layer in stage.layers}
    for folder in kept.iterdir():
        if folder.name.removesuffix(".work") not in used:
            shutil.rmtree(folder)
    return image


def _step(image: Image, one: Instruction, context: Path, stages: dict[str, Image], kept: Path) -> Image:
    if one.name == "ENV":
        pairs = (word.split("=", 1) for word in shlex.split(one.words))
        path = image.env.get("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        return replace(image, env={**image.env, **{key: value.replace("$PATH", path) for key, value in pairs}})
    if one.name == "WORKDIR":
        return replace(image, folder=one.words)
    if one.name == "USER":
        return replace(image, user=one.words)
    if one.name == "ENTRYPOINT":
        return replace(image, entrypoint=tuple(json.loads(one.words)))
    if one.name == "CMD":
        return replace(image, command=tuple(json.loads(one.words)))
    if one.name == "COPY":
        return _copied(image, one.words.split(), context, stages, kept)
    assert one.name == "RUN", one
    layer = _layer(kept, image, one.words, json.dumps(image.env))
    return _made(image, layer, ["/bin/sh", "-c", one.words])


def _copied(image: Image, words: list[str], context: Path, stages: dict[str, Image], kept: Path) -> Image:
    to = os.path.normpath(Path(image.folder, words[-1])).lstrip("/")
    if words[0].startswith("--from="):
        source = stages[words[0].removeprefix("--from=")]
        layer = _layer(kept, image, " ".join(words), *(one.name for one in source.layers))
        if not layer.exists():
            draft = _draft(layer)
            (draft / to).parent.mkdir(parents=True, exist_ok=True)
            _run(source, draft.with_suffix(".none"), ["cp", "-a", words[1], "/copied"], into=draft / to)
            draft.rename(layer)
    else:
        files = sorted(allowed(context, words[:-1]))
        digest = hashlib.sha256()
        for file in files:
            digest.update(f"{file}\0".encode() + (context / file).read_bytes())
        layer = _layer(kept, image, " ".join(words), digest.hexdigest())
        if not layer.exists():
            draft = _draft(layer)
            for file in files:
                target = draft / to / (file if words[0] == "." else Path(file).name)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(context / file, target)
                target.chmod(0o644)
            draft.rename(layer)
    return replace(image, layers=(*image.layers, layer))


def allowed(context: Path, sources: list[str]) -> list[str]:
    """The files of a context below ``sources`` that .dockerignore lets through: the last pattern that fits decides."""
    patterns = [line for line in (context / ".dockerignore").read_text("utf-8").split() if not line.startswith("#")]

    def is_ignored(file: str) -> bool:
        above = [file, *(str(parent) for parent in Path(file).parents)]
        fits = [one for one in patterns if any(_fits(path, one.removeprefix("!")) for path in above)]
        return bool(fits) and not fits[-1].startswith("!")

    top = {one.removeprefix("!").split("/")[0] for one in patterns if one.startswith("!")}
    found = []
    for name in top:
        below = [context / name] if (context / name).is_file() else (context / name).rglob("*")
        found += [str(path.relative_to(context)) for path in below if path.is_file()]
    wanted = None if sources == ["."] else {os.path.normpath(source) for source in sources}
    return [file for file in found if not is_ignored(file) and (wanted is None or file in wanted)]


def _fits(path: str, pattern: str) -> bool:
    if pattern.startswith("**/"):
        return fnmatch.fnmatch(Path(path).name, pattern.removeprefix("**/"))
    return fnmatch.fnmatch(path, pattern) if "/" in pattern else "/" not in path and fnmatch.fnmatch(path, pattern)


def _base(source: str, kept: Path) -> Image:
    """A Debian root in the role of ``python:3.11.…-slim-RELEASE``."""
    found = re.fullmatch(r"python:3\.11\.\d+-slim-(\w+)", source)
    assert found, f"no role is known for {source}"
    layer = _layer(kept, Image(), source, BASE_PACKAGES)
    if not layer.exists():
        draft = _draft(layer)
        subprocess.run(
            ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={BASE_PACKAGES}", found[1], str(draft)],
            check=True,
            timeout=BUILD_S_MAX,
        )
        if MACHINE_CERTIFICATES.is_dir():
            shutil.copytree(MACHINE_CERTIFICATES, draft / "usr/local/share/ca-certificates", dirs_exist_ok=True)
        subprocess.run(["chroot", str(draft), "update-ca-certificates"], check=True, stdout=subprocess.DEVNULL)
        draft.rename(layer)
    return Image(layers=(layer,))


def _layer(kept: Path, image: Image, *made_of: str) -> Path:
    below = [layer.name for layer in image.layers]
    return kept / hashlib.sha256("\0".join([*below, image.folder, *made_of]).encode()).hexdigest()[:12]


def _draft(layer: Path) -> Path:
    draft = layer.with_suffix(".draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    return draft


def _made(image: Image, layer: Path, command: list[str]) -> Image:
    if not layer.exists():
        draft = _draft(layer)
        _run(image, draft, command)
        draft.rename(layer)
    return replace(image, layers=(*image.layers, layer))


def _run(image: Image, upper: Path, command: list[str], into: Path | None = None) -> None:
    """A command as root in an image; what it changes lands in ``upper``, and ``/copied`` in ``into``."""
    work, root = upper.with_suffix(".work"), upper.with_suffix(".root")
    for folder in (upper, work, root):
        folder.mkdir(parents=True, exist_ok=True)
    env = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    env |= {"HOME": "/root", "DEBIAN_FRONTEND": "noninteractive", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **image.env}
    inside = ["env", "-i", *(f"{name}={value}" for name, value in env.items()), *command]
    places = {"LOWER": lower(image), "UPPER": str(upper), "WORK": str(work), "ROOT": str(root), "FOLDER": image.folder}
    try:
        subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", _MOUNT_AND_RUN, "sh", *inside],
            env={**os.environ, **places},
            stdin=subprocess.DEVNULL,
            check=True,
            timeout=BUILD_S_MAX,
        )
        if into is not None:
            shutil.move(upper / "copied", into)
    finally:
        for folder in (work, root, *([upper] if into is not None else [])):
            shutil.rmtree(folder)


def lower(image: Image) -> str:
    """As an overlay wants it: the uppermost first."""
    return ":".join(str(layer) for layer in reversed(image.layers))
