"""The command line. ``main`` turns every error that feddc raises on purpose into one sentence and an exit code."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import click

from ..errors import ConfigError, FedDCError, unknown


class Commands(click.Group):
    """A group that suggests the nearest command for a misspelt one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            raise unknown("command", args[0], self.commands)
        return super().resolve_command(ctx, args)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="feddc")
def cli() -> None:
    """Federated learning for clients whose data is not identically distributed.

    Start with `feddc compare`: eight methods on the same non-iid federation, in under two minutes.
    """


def main(args: list[str] | None = None) -> None:
    """The entry point of the `feddc` command."""
    from . import data, flower, listing, predict, report, resume, run, studies, theory, tune

    commands = [run.run, run.compare, resume.resume, studies.reproduce, studies.sweep, tune.tune, report.report]
    commands += [report.watch, listing.list_names, data.data, predict.predict, theory.theory, flower.flower]
    for command in commands:
        cli.add_command(command)
    warnings.showwarning = _warn
    try:
        code = cli.main(args, standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else "")
        sys.exit(2)
    except click.ClickException as error:
        _end(error.format_message(), 2)
    except ConfigError as error:
        from .options import as_typed

        _end(as_typed(str(error)), error.exit_code)
    except FedDCError as error:
        _end(str(error), error.exit_code)
    except OSError as error:
        _end(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}", 1)
    except MemoryError as error:
        _end(f"there is not enough memory: {error}", 1)
    except (KeyboardInterrupt, click.Abort):
        _end("interrupted", 130)
    sys.exit(code if isinstance(code, int) else 0)


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning as one line, like every other message."""
    click.echo(f"feddc: warning: {' '.join(str(message).split())}", err=True)


def _end(sentence: str, code: int) -> None:
    click.echo(f"feddc: {' '.join(sentence.split())}", err=True)
    sys.exit(code)
