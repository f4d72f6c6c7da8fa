"""``payhook alerts``: what fires, which receivers get it, and a notice to try them with."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from alerts.engine import RUNBOOK, Alert, AlertNotice, NoticeKind
from alerts.receivers import NotDelivered, NoticeReceiver, make_receivers
from alerts.rules import Severity, make_rules
from alerts.settings import AlertsSettings
from alerts.standing import AlertsStanding, read_standing
from alerts.watch import RememberedAlerts, read_state
from cli.place import Place, with_place
from cli.tables import PrintedTable
from console.as_json import to_json_value
from core.clock import Clock, SystemClock, to_rfc3339
from core.errors import PayhookError


class NoReceiver(PayhookError):
    def __init__(self, name: str | None, known: tuple[str, ...]) -> None:
        self.name = name
        self.known = known
        reason = f"there is no receiver {name!r}" if name else "there is no receiver"
        super().__init__(f"{reason}; alerts.receivers in payhook.toml names {', '.join(known) or 'none'}")


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_place
def alerts(place: Place, as_json: bool) -> None:
    """Show what fires, and which receivers get it. Exit 1 if something fires, or if their process isn't running."""
    if click.get_current_context().invoked_subcommand is not None:
        return
    settings, known = place.settings.alerts, read_state(place.layout.alerts)
    standing = read_standing(place.layout.alerts, settings, SystemClock())
    if as_json:
        click.echo(json.dumps(_as_tree(settings, known, standing), indent=2))
    else:
        _print(settings, known, standing)
    sys.exit(0 if standing.looks and not standing.firing else 1)


@alerts.command()
@click.option("--receiver", metavar="NAME", help="Test only this receiver.")
@with_place
def test(place: Place, receiver: str | None) -> None:
    """Send each receiver a notice that says that it is a test. Exit 1 if one doesn't take it."""
    everyone = make_receivers(place.settings.alerts)
    chosen = {name: destination for name, destination in everyone.items() if receiver in (None, name)}
    if not chosen:
        raise NoReceiver(receiver, tuple(everyone))
    taken = [_send(name, destination, test_notice(SystemClock())) for name, destination in chosen.items()]
    sys.exit(0 if all(taken) else 1)


def test_notice(clock: Clock) -> AlertNotice:
    now = clock.now()
    return AlertNotice(
        alert=f"test/{to_rfc3339(now)}",
        number=1,
        kind=NoticeKind.TEST,
        rule="test",
        subject="",
        severity=Severity.WARNING,
        text="a test: payhook's alerts reach you",
        value=0.0,
        threshold=0.0,
        since=now,
        at=now,
        runbook=f"{RUNBOOK}#alerts",
    )


def _send(name: str, receiver: NoticeReceiver, notice: AlertNotice) -> bool:
    try:
        receiver.deliver(notice)
    except NotDelivered as refused:
        click.echo(f"{name}: {refused.problem}")
        return False
    click.echo(f"{name}: sent ({receiver.shown})")
    return True


def _as_tree(settings: AlertsSettings, known: RememberedAlerts, standing: AlertsStanding) -> dict[str, Any]:
    all_rules = make_rules(settings)
    return {
        **to_json_value(standing),
        "values": known.values,
        "thresholds": {name: rule.threshold for name, rule in all_rules.items()},
        "receivers": {
            name: {
                "to": receiver.shown,
                "only_critical": settings.receivers[name].only_critical,
                "waiting": len(known.waiting.get(name, ())),
                "problem": known.problems.get(name),
            }
            for name, receiver in make_receivers(settings).items()
        },
    }


def _print(settings: AlertsSettings, known: RememberedAlerts, standing: AlertsStanding) -> None:
    if standing.is_off:
        click.echo("alerts are off: alerts.every_s is 0")
    elif not standing.looks:
        last = "never" if known.at is None else known.at.isoformat(" ", "seconds")
        click.echo(
            f"the alerts' process isn't running (it last looked: {last}); start it: `payhook up`, or the service of "
            "`python -m stack.alerting`"
        )
    rows = PrintedTable("rule", "of", "now", "limit", "state", right=["now", "limit"])
    states = {alert.key: alert for alert in known.alerts}
    for name, rule in make_rules(settings).items():
        for subject, value in known.values.get(name, {}).items():
            shown = "not known" if value is None else _format_value(value)
            rows.add(name, subject, shown, _format_value(rule.threshold), _describe_state(states.get((name, subject))))
    rows.print()
    for alert in standing.firing:
        click.echo(f"{alert.rule}: {alert.text}")
    _print_receivers(settings, known)


def _print_receivers(settings: AlertsSettings, known: RememberedAlerts) -> None:
    if not settings.receivers:
        click.echo("no alert receiver is configured: name one in alerts.receivers of payhook.toml (docs/alerts.md)")
        return
    for name, receiver in make_receivers(settings).items():
        gets = "critical alerts" if settings.receivers[name].only_critical else "all alerts"
        waiting, problem = len(known.waiting.get(name, ())), known.problems.get(name)
        click.echo(
            f"receiver {name} ({receiver.shown}): gets {gets}, {waiting} wait" + (f"; {problem}" if problem else "")
        )


def _format_value(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.4g}"


def _describe_state(alert: Alert | None) -> str:
    if alert is None:
        return "ok"
    since = f"{alert.since:%Y-%m-%d %H:%M:%S}"
    return f"{alert.state} since {since}" + (", can't be checked now" if alert.unknown else "")
