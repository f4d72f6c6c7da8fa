# One image for the receiver, the processor and the management listener.
FROM python:3.11-slim-bookworm
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless make redis-server procps \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/payhook
COPY . .
RUN make setup \
    && useradd --system --home-dir /var/lib/payhook --create-home payhook
USER payhook
ENV PATH=/opt/payhook/.venv/bin:$PATH \
    PAYHOOK_DATA_DIR=/var/lib/payhook
CMD ["payhook", "--help"]
