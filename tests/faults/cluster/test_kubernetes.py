"""What a driver asks of Kubernetes' API, and that the executor pods that it asks for run payhook's code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from core.layout import Layout
from stack.machine import find_java
from stack.package import make_package
from stack.servers.ports import free_ports
from tests.faults.cluster.kubernetes_api import KubernetesApi

DRIVER = """
import json, sys
from pathlib import Path
import pyarrow as pa
from processor.spark import open_session
from stack.jars import spark_jars

def where(batches):
    import ledger, os
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"at": [f"{ledger.__file__} {os.getppid()}"]})

if __name__ == "__main__":
    master, archive, folder = sys.argv[1:]
    session = open_session("payhook", master, "512m", spark_jars(), Path(folder), archive=Path(archive))
    frame = session.createDataFrame(pa.table({"n": [1]})).mapInArrow(where, "at string")
    print(json.dumps([session.sparkContext.defaultParallelism, frame.toArrow().column("at").to_pylist()]))
    session.stop()
"""


def test_executor_pods_are_asked_for_and_run_the_code_that_was_sent(tmp_path: Path) -> None:
    driver_port, block_port = free_ports(2)
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text(
        "spark.authenticate true\nspark.network.crypto.enabled true\n"
        "spark.kubernetes.namespace payhook\nspark.kubernetes.container.image registry.example/spark-python:4.2.0\n"
        f"spark.driver.host 127.0.0.1\nspark.driver.port {driver_port}\nspark.driver.blockManager.port {block_port}\n"
        "spark.executor.instances 2\nspark.executor.cores 1\nspark.executor.memory 512m\n"
    )
    archive = make_package(Layout(tmp_path).package)
    (tmp_path / "driver.py").write_text(DRIVER)
    with KubernetesApi(find_java().executable, tmp_path / "pods") as api:
        said = subprocess.run(
            [sys.executable, str(tmp_path / "driver.py"), api.master, str(archive), str(tmp_path / "driver")],
            env={**os.environ, "SPARK_CONF_DIR": str(conf), "PYTHONPATH": str(Path(__file__).parents[3])},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert said.returncode == 0, said.stderr[-3_000:]
    cores, (at,) = json.loads(said.stdout.splitlines()[-1])
    assert cores == 2
    assert at.startswith(str(tmp_path / "pods")), "the code of the archive, not the checkout's"
    assert len(api.pods) == 2
    for pod in api.pods:
        (container,) = pod["spec"]["containers"]
        env = {one["name"]: one.get("value") for one in container["env"]}
        assert container["image"] == "registry.example/spark-python:4.2.0"
        assert pod["metadata"]["namespace"] == "payhook"
        assert env["SPARK_DRIVER_URL"].endswith(f"127.0.0.1:{driver_port}")
