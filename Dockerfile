# The image of every service of payhook: docker-compose.yml and deploy/chart run it (docs/deployment.md).

FROM python:3.11.14-slim-bookworm AS base
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless tini \
    && rm -rf /var/lib/apt/lists/*
ENV PATH=/opt/payhook/.venv/bin:$PATH \
    PYTHONPATH=/opt/payhook \
    PYTHONUNBUFFERED=1
WORKDIR /opt/payhook

FROM base AS build
COPY requirements-runtime.lock ./
# PySpark is built here, by the setuptools of the lock. Of the packages' own tests nothing is run.
RUN python3.11 -m venv .venv \
    && sed -n '/^setuptools==/,/[^\\]$/p' requirements-runtime.lock > /tmp/build-tools.lock \
    && pip install --no-cache-dir --require-hashes -r /tmp/build-tools.lock \
    && pip install --no-cache-dir --no-build-isolation --use-pep517 --require-hashes -r requirements-runtime.lock \
    && pip uninstall --yes setuptools pip \
    && find .venv -type d -name tests -prune -exec rm -rf {} +
# No more of the code than fetches the jars: what changes elsewhere doesn't fetch them again.
COPY core/__init__.py core/decision.py core/errors.py core/location.py core/
COPY stack/__init__.py stack/errors.py stack/jars.py stack/machine.py stack/
COPY stack/spark-jars.lock stack/spark-store-jars.lock stack/
# Spark's jars, with those for an object store.
RUN python -m stack.jars spark spark-store \
    && printf '#!/bin/sh\nexec python -m cli.main "$@"\n' > .venv/bin/payhook \
    && chmod 755 .venv/bin/payhook \
    && python -m compileall -q --invalidation-mode unchecked-hash .venv

FROM base
COPY --from=build /opt/payhook/.venv .venv
COPY --from=build /opt/payhook/.payhook/jars .payhook/jars
COPY . .
# The root file system is read-only where it runs: nothing is compiled there.
RUN python -m compileall -q --invalidation-mode unchecked-hash -x '\.venv' . \
    && groupadd --gid 10001 payhook \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/payhook payhook \
    && install --directory --owner=10001 --group=10001 --mode=700 /var/lib/payhook
ENV PAYHOOK_DATA_DIR=/var/lib/payhook \
    PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
# It hands signals on and collects what orphans leave; a first process that is Python or a JVM does neither.
ENTRYPOINT ["/usr/bin/tini", "--"]
CMD ["payhook", "--help"]
