"""Kafka and Redis as they are installed here, started as their images' own documentation says the images start them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

from stack.jars import kafka_jars
from stack.machine import find_redis
from tests.containers.compose import ImageRole
from tests.containers.image import Image

KAFKA_UID, REDIS_UID, REDIS_GID = 1000, 999, 1000
"""Of `appuser` in apache/kafka, and of `redis` in redis:…-alpine."""

_RUN = """#!/bin/bash
# As apache/kafka's own: each KAFKA_… variable but these is a line of server.properties.
set -euf
config=/opt/kafka/config/server.properties
while IFS= read -r line; do
    name=${line%%=*}
    case $name in KAFKA_HEAP_OPTS | KAFKA_OPTS | KAFKA_LOG4J_OPTS) continue ;; KAFKA_*) ;; *) continue ;; esac
    property=$(printf %s "${name#KAFKA_}" | tr A-Z_ a-z.)
    printf '%s=%s\\n' "$property" "${line#*=}"
done < <(env) > "$config"
java="java $KAFKA_HEAP_OPTS -XX:TieredStopAtLevel=1 -cp /opt/kafka/libs/*"
$java kafka.tools.StorageTool format --ignore-formatted --cluster-id="$CLUSTER_ID" -c "$config"
exec $java kafka.Kafka "$config"
"""


def kafka(work: Path, built: Image) -> ImageRole:
    """On the first two layers of the image that is built: the base, and Java."""
    layer = work / "kafka-role"
    libs, run = layer / "opt/kafka/libs", layer / "etc/kafka/docker/run"
    for folder in (libs, layer / "opt/kafka/config", layer / "opt/kafka/logs", run.parent):
        folder.mkdir(parents=True)
    for jar in kafka_jars():
        shutil.copy(jar, libs)
    run.write_text(_RUN, "utf-8")
    run.chmod(0o755)
    data = layer / "var/lib/kafka/data"
    data.mkdir(parents=True)
    os.chown(data, KAFKA_UID, 0)
    return ImageRole(_alone(built, 2, layer), entry=("/etc/kafka/docker/run",))


def redis(work: Path, built: Image) -> ImageRole:
    """On the base alone."""
    layer = work / "redis-role"
    programs, data = layer / "usr/local/bin", layer / "data"
    programs.mkdir(parents=True)
    data.mkdir()
    os.chown(data, REDIS_UID, REDIS_GID)
    for name in ("redis-server", "redis-cli"):
        shutil.copy(find_redis().with_name(name), programs / name)
    _add_libraries(find_redis(), built.layers[0], layer)
    return ImageRole(replace(_alone(built, 1, layer), folder="/data"))


def _add_libraries(program: Path, base: Path, layer: Path) -> None:
    """The shared libraries of a program of this machine that the base lacks, each under its own name."""
    listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
    for name, file in re.findall(r"(\S+) => (/\S+)", listed):
        place = (Path(file).resolve().parent / name).relative_to("/")
        if not (base / place).exists():
            (layer / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, layer / place)


def _alone(built: Image, layers: int, layer: Path) -> Image:
    path = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    return Image(layers=(*built.layers[:layers], layer), env={"PATH": path})
