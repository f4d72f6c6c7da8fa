"""``payhook users``: who may sign in at the management listener, as what, and with which tokens."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import datetime

import click
from rich.console import Console
from rich.table import Table

from cli.acting import put_on_record
from cli.place import Place, with_place
from cli.tables import row
from console.access import Role, Users, accounts
from console.access.users import TOKEN_DAYS, Token
from core.clock import SystemClock, from_rfc3339
from core.errors import PayhookError
from dlq.audit_log import AuditLogUnwritable, Outcome

ROLES = click.Choice([role.value for role in Role])
Recording = accounts.Recording
DAYS_MAX = 366


@click.group()
def users() -> None:
    """Who may sign in at the management listener, as what, and with which tokens for its JSON API.

    \b
    viewer    reads dead events and the record of acts
    replayer  also selects, replays and resolves
    admin     may do everything, also purge and approve
    finance   reads the ledger's pages

    Whoever can run these commands on this machine is trusted. Every change is on record: `payhook dlq audit`.
    """


@users.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_place
def list_command(place: Place, as_json: bool) -> None:
    """List users with their roles, and their tokens with the day on which each ends."""
    known = _users(place).all()
    if as_json:
        told = [
            {
                "name": name,
                "roles": sorted(account.roles),
                "tokens": [
                    {"name": token.name, "made_at": token.made_at, "ends_at": token.ends_at} for token in account.tokens
                ],
            }
            for name, account in sorted(known.items())
        ]
        click.echo(json.dumps(told, indent=1))
    elif not known:
        click.echo("there are no users; `payhook users add NAME --role admin` makes one")
    else:
        table, now = Table("user", "roles", "tokens"), SystemClock().now()
        for name, account in sorted(known.items()):
            tokens = (_token(one, now) for one in sorted(account.tokens, key=lambda one: one.name))
            row(table, name, ", ".join(sorted(account.roles)), "\n".join(tokens))
        Console(soft_wrap=True).print(table)


@users.command()
@click.argument("name")
@click.option("--role", "roles", type=ROLES, multiple=True, required=True, help="May be given several times.")
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input.")
@with_place
def add(place: Place, name: str, roles: tuple[str, ...], password_stdin: bool) -> None:
    """Add a user; asks for the password."""
    password = _password(password_stdin)
    _recorded(place, "user_add", name, lambda to: accounts.add_user(_users(place), name, _roles(roles), password, to))
    click.echo(f"{name} may sign in now")


@users.command()
@click.argument("name")
@click.option("--role", "roles", type=ROLES, multiple=True, help="May be given several times.")
@click.option("--none", "no_role", is_flag=True, help="Take every role away.")
@with_place
def roles(place: Place, name: str, roles: tuple[str, ...], no_role: bool) -> None:
    """Give a user these roles and no others. Ends their sessions."""
    if bool(roles) == no_role:
        raise click.UsageError("give --role once or more, or --none")
    _recorded(place, "user_roles", name, lambda to: accounts.set_roles(_users(place), name, _roles(roles), to))
    click.echo(f"{name} is {', '.join(roles) or 'without a role'} now; sessions are over, tokens stay")


@users.command()
@click.argument("name")
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input.")
@with_place
def password(place: Place, name: str, password_stdin: bool) -> None:
    """Set a user's password; asks for it. Ends their sessions and tokens."""
    if name not in _users(place).all():
        raise accounts.UserUnknown(name)
    secret = _password(password_stdin)
    _recorded(place, "user_password", name, lambda to: accounts.set_password(_users(place), name, secret, to))
    click.echo(f"{name} has a new password; sessions and tokens are over")


@users.command()
@click.argument("name")
@with_place
def remove(place: Place, name: str) -> None:
    """Remove a user. Ends their sessions and tokens."""
    _recorded(place, "user_remove", name, lambda to: accounts.remove_user(_users(place), name, to))
    click.echo(f"{name} is removed")


@users.command()
@click.argument("name")
@click.option("--name", "label", default="token", show_default=True, help="What it is for.")
@click.option(
    "--days", type=click.IntRange(1, DAYS_MAX), default=TOKEN_DAYS, show_default=True, help="How long it lasts."
)
@with_place
def token(place: Place, name: str, label: str, days: int) -> None:
    """Make a bearer token for the JSON API. It is shown once, and ends with the user's password at the latest.

    It may do what its user may do: curl -H "Authorization: Bearer TOKEN" …
    """
    made: list[str] = []

    def make(to: Recording) -> None:
        made.append(accounts.make_token(_users(place), name, label, SystemClock().now(), to, days))

    _recorded(place, "token_make", name, make)
    click.echo("shown once, and kept as a hash only:", err=True)
    click.echo(made[0])


@users.command()
@click.argument("name")
@click.option("--name", "label", default="token", show_default=True, help="Which of the user's tokens.")
@with_place
def revoke(place: Place, name: str, label: str) -> None:
    """Revoke a bearer token."""
    _recorded(place, "token_revoke", name, lambda to: accounts.revoke_token(_users(place), name, label, to))
    click.echo(f"the token {label} of {name} is revoked")


def _token(token: Token, now: datetime) -> str:
    return f"{token.name} ({'ended' if token.is_over(now) else 'ends'} {from_rfc3339(token.ends_at):%Y-%m-%d})"


def _users(place: Place) -> Users:
    return Users(place.layout.users)


def _roles(names: tuple[str, ...]) -> frozenset[Role]:
    return frozenset(Role(name) for name in names)


def _password(from_stdin: bool) -> str:
    if from_stdin:
        return sys.stdin.readline().rstrip("\r\n")
    given: str = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    return given


def _recorded(place: Place, action: str, name: str, change: Callable[[Recording], None]) -> None:
    """A change of users, on record before it takes effect; one that is refused is on record too."""

    def record(_name: str, before: str | None, after: str | None) -> None:
        put_on_record(place, action, name, before=before, after=after)

    try:
        change(record)
    except AuditLogUnwritable:
        raise
    except PayhookError as refused:
        put_on_record(place, action, name, Outcome.REFUSED, str(refused))
        raise
