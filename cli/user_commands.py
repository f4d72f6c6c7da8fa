"""``payhook users``: who may sign in at the management listener, as what, and with which tokens."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import Any

import click

from cli.acting import CHANNEL, this_account
from cli.place import Place, with_place
from cli.tables import PrintedTable
from console.access.accounts import Person, UserService
from console.access.roles import Role
from console.access.users import TOKEN_DAYS, Token, Users
from core.clock import SystemClock, from_rfc3339
from operations.audit_log import AuditLog

ROLES = click.Choice([role.value for role in Role])
DAYS_MAX = 366


@click.group()
def users() -> None:
    """Manage who may sign in at the management listener, as what, and with which tokens for its JSON API.

    \b
    viewer    reads dead events and the audit log
    replayer  also selects, replays and resolves
    admin     may do everything, also purge and approve
    finance   reads the ledger's pages

    All who can run these commands on this machine are trusted. Every change is on record: `payhook dlq audit`.
    """


@users.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_place
def list_command(place: Place, as_json: bool) -> None:
    """List users with their roles, and their tokens with the day on which each ends."""
    people, now = _open_service(place).list_people(), SystemClock().now()
    if as_json:
        click.echo(json.dumps([_as_dict(person) for person in people], indent=1))
    elif not people:
        click.echo("there are no users; `payhook users add NAME --role admin` makes one")
    else:
        rows = PrintedTable("user", "roles", "tokens")
        for person in people:
            tokens = (_describe_token(token, now) for token in sorted(person.tokens, key=lambda token: token.name))
            rows.add(person.name, ", ".join(person.roles), "\n".join(tokens))
        rows.print()


@users.command()
@click.argument("name")
@click.option("--role", "roles", type=ROLES, multiple=True, required=True, help="Repeat it for several roles.")
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input.")
@with_place
def add(place: Place, name: str, roles: tuple[str, ...], password_stdin: bool) -> None:
    """Add a user; asks for the password."""
    _open_service(place).add(this_account(), name, _read_roles(roles), _ask_password(password_stdin))
    click.echo(f"{name} may sign in now")


@users.command()
@click.argument("name")
@click.option("--role", "roles", type=ROLES, multiple=True, help="Repeat it for several roles.")
@click.option("--none", "no_role", is_flag=True, help="Remove every role.")
@with_place
def roles(place: Place, name: str, roles: tuple[str, ...], no_role: bool) -> None:
    """Give a user these roles and no others. Ends their sessions."""
    if bool(roles) == no_role:
        raise click.UsageError("give --role once or more, or --none")
    _open_service(place).set_roles(this_account(), name, _read_roles(roles))
    click.echo(f"{name} now has {', '.join(roles) or 'no role'}; sessions ended, tokens stay valid")


@users.command()
@click.argument("name")
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input.")
@with_place
def password(place: Place, name: str, password_stdin: bool) -> None:
    """Set a user's password; asks for it. Ends their sessions and tokens."""
    service = _open_service(place)
    service.find_person(name)
    service.set_password(this_account(), name, _ask_password(password_stdin))
    click.echo(f"{name} has a new password; sessions and tokens are over")


@users.command()
@click.argument("name")
@with_place
def remove(place: Place, name: str) -> None:
    """Remove a user. Ends their sessions and tokens."""
    _open_service(place).remove(this_account(), name)
    click.echo(f"{name} is removed")


@users.command()
@click.argument("name")
@click.option("--name", "label", default="token", show_default=True, help="The token's name, such as what it is for.")
@click.option(
    "--days", type=click.IntRange(1, DAYS_MAX), default=TOKEN_DAYS, show_default=True, help="How long it lasts."
)
@with_place
def token(place: Place, name: str, label: str, days: int) -> None:
    """Make a bearer token for the JSON API. It is shown once, and ends with the user's password at the latest.

    It may do what its user may do: curl -H "Authorization: Bearer TOKEN" …
    """
    made = _open_service(place).make_token(this_account(), name, label, days)
    click.echo("shown once, and kept as a hash only:", err=True)
    click.echo(made)


@users.command()
@click.argument("name")
@click.option("--name", "label", default="token", show_default=True, help="Which of the user's tokens.")
@with_place
def revoke(place: Place, name: str, label: str) -> None:
    """Revoke a bearer token."""
    _open_service(place).revoke_token(this_account(), name, label)
    click.echo(f"the token {label} of {name} is revoked")


def _open_service(place: Place) -> UserService:
    return UserService(Users(place.layout.users), None, AuditLog(place.layout.audit_log), SystemClock(), CHANNEL)


def _as_dict(person: Person) -> dict[str, Any]:
    tokens = [{"name": token.name, "made_at": token.made_at, "ends_at": token.ends_at} for token in person.tokens]
    return {"name": person.name, "roles": list(person.roles), "tokens": tokens}


def _describe_token(token: Token, now: datetime) -> str:
    return f"{token.name} ({'ended' if token.is_over(now) else 'ends'} {from_rfc3339(token.ends_at):%Y-%m-%d})"


def _read_roles(names: tuple[str, ...]) -> frozenset[Role]:
    return frozenset(Role(name) for name in names)


def _ask_password(from_stdin: bool) -> str:
    if from_stdin:
        return sys.stdin.readline().rstrip("\r\n")
    given: str = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    return given
