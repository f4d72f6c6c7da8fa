"""A JVM of a test's own: what another module's session left in the process has its class path and its umask."""

from __future__ import annotations

from pyspark import SparkContext

END_S = 60


def end_jvm() -> None:
    """Ends the JVM that Spark's sessions of this process share, once they are stopped; the next session starts one."""
    gateway = SparkContext._gateway
    if gateway is None:
        return
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(END_S)
    SparkContext._gateway = SparkContext._jvm = None
