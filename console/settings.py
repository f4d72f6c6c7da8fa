"""Settings of the management listener."""

from __future__ import annotations

from pydantic import Field

from core.settings import Section


class TracingSettings(Section):
    """Says where traces are looked at. OpenTelemetry's own variables say what they are sent to."""

    link: str = Field(
        "",
        pattern=r"^(https?://[^\s{}]{1,500}\{trace_id\}[^\s{}]{0,500})?$",
        description="address of a trace in your trace system, with {trace_id} where its id goes "
        "(https://jaeger.example/trace/{trace_id}): pages of events link to it; empty: they show the id alone",
    )

    def address_of(self, trace_id: str) -> str | None:
        return self.link.replace("{trace_id}", trace_id) or None


class ConsoleSettings(Section):
    """The management listener. Never put it on a public address."""

    host: str = Field("127.0.0.1", min_length=1, description="address that the management listener binds")
    port: int = Field(8081, ge=0, le=65535, description="port of the management listener; as ingest.port")
    ingest_url: str = Field("", description="where the receiver answers; empty: its own port on loopback")
    public_url: str = Field(
        "",
        pattern=r"^(https?://[a-z0-9.:\[\]-]{1,253})?$",
        description="how browsers see the management listener where a proxy stands before it, without a path "
        "(https://payhook.example); https makes its cookies Secure; empty: by its own address",
    )
    order_field: str = Field(
        "",
        pattern=r"^([A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64}){0,7})?$",
        description="field of the webhooks' JSON and form bodies that holds your order ids, such as "
        "metadata.order_id; the search finds payments by it; empty: not by order ids",
    )
    metrics_urls: dict[str, str] = Field(
        default_factory=dict,
        description="metrics pages of processes on other machines, by name, where processors say how their streams "
        "are, too; those on loopback are known by their ports",
    )
