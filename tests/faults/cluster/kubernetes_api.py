"""As much of Kubernetes' API as Spark asks in client mode, and a kubelet that runs executor pods as local processes."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pyspark

JARS = Path(pyspark.__file__).parent / "jars"
BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
"""What the entry point of Spark's image runs for ``executor``."""

VERSION = "1"


@dataclass
class KubernetesApi:
    """A server on loopback; ``made`` is what was created, by kind. Pods with the argument ``executor`` are run, on
    ``java``, each in a folder of its own below ``folder``.
    """

    java: Path
    folder: Path
    made: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __enter__(self) -> KubernetesApi:
        self._numbers = itertools.count(1)
        self._ended = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for process in self.running:
            process.kill()
            process.wait()
        self._server.shutdown()
        self._server.server_close()

    @property
    def master(self) -> str:
        return f"k8s://http://127.0.0.1:{self._server.server_port}"

    @property
    def pods(self) -> list[dict[str, Any]]:
        return self.made.get("pods", [])

    def create(self, kind: str, namespace: str, wanted: dict[str, Any]) -> dict[str, Any]:
        meta = wanted["metadata"]
        meta |= {"namespace": namespace, "uid": f"uid-{next(self._numbers)}", "resourceVersion": VERSION}
        meta |= {"creationTimestamp": "2026-01-31T12:00:00Z"}
        if kind == "pods":
            wanted["status"] = {"phase": "Running", "podIP": "127.0.0.1", "startTime": "2026-01-31T12:00:00Z"}
            self._run(wanted)
        self.made.setdefault(kind, []).append(wanted)
        return wanted

    def _run(self, pod: Mapping[str, Any]) -> None:
        """As ``/opt/entrypoint.sh executor`` does in Spark's image."""
        (container,) = pod["spec"]["containers"]
        assert container["args"] == ["executor"], container
        given = {one["name"]: one.get("value", "127.0.0.1") for one in container["env"]}
        own = self.folder / pod["metadata"]["name"]
        own.mkdir(parents=True)
        options = [given[f"SPARK_JAVA_OPT_{n}"] for n in range(50) if f"SPARK_JAVA_OPT_{n}" in given]
        command = [
            *(str(self.java), *options, f"-Xmx{given['SPARK_EXECUTOR_MEMORY']}", "-cp", f"{JARS}/*", BACKEND),
            *("--driver-url", given["SPARK_DRIVER_URL"], "--executor-id", given["SPARK_EXECUTOR_ID"]),
            *("--cores", given["SPARK_EXECUTOR_CORES"], "--app-id", given["SPARK_APPLICATION_ID"]),
            *("--hostname", "127.0.0.1", "--resourceProfileId", given["SPARK_RESOURCE_PROFILE_ID"]),
            *("--podName", pod["metadata"]["name"]),
        ]
        path = {name: os.environ[name] for name in ("PATH",)}
        with (own / "log").open("wb") as log:
            env = {**path, **given, "SPARK_LOCAL_DIRS": str(own)}
            self.running.append(subprocess.Popen(command, cwd=own, env=env, stdout=log, stderr=log))

    def wait_for_end(self) -> None:
        self._ended.wait(60)


def _handler_of(api: KubernetesApi) -> type[BaseHTTPRequestHandler]:
    class KubernetesHandler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path, query = self._asked()
            if "watch" in query:
                self.send_response(200)
                self.send_header("connection", "close")
                self.end_headers()
                api.wait_for_end()
                return
            kind = path[-1]
            items = api.made.get(kind, [])
            self._answer(
                200, {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": VERSION}, "items": items}
            )

        def do_POST(self) -> None:
            path, _ = self._asked()
            wanted = json.loads(self.rfile.read(int(self.headers["content-length"])))
            self._answer(201, api.create(path[-1], path[-2], wanted))

        def do_PATCH(self) -> None:
            path, _ = self._asked()
            self.rfile.read(int(self.headers["content-length"]))
            found = [one for one in api.made.get(path[-2], []) if one["metadata"]["name"] == path[-1]]
            self._answer(200 if found else 404, found[0] if found else {"kind": "Status", "code": 404})

        def do_DELETE(self) -> None:
            self._asked()
            self.rfile.read(int(self.headers.get("content-length", "0")))
            self._answer(200, {"kind": "Status", "status": "Success"})

        def _asked(self) -> tuple[list[str], dict[str, list[str]]]:
            split = urlsplit(self.path)
            api.asked.append(f"{self.command} {split.path}")
            return split.path.strip("/").split("/"), parse_qs(split.query)

        def _answer(self, status: int, said: Mapping[str, Any]) -> None:
            body = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    return KubernetesHandler
