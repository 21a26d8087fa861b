"""``roofline completion``: what makes a shell complete the command line."""

from __future__ import annotations

import click

from roofline.cli.command import argument, command_named

SHELLS = ("bash", "zsh", "fish")


@command_named("completion")
@argument("shell", type=click.Choice(SHELLS))
def completion_command(shell: str) -> None:
    """Print what makes a shell complete commands, options, chips, models, formats and policies; open a new one then.

    \b
    roofline completion bash >> ~/.bashrc
    roofline completion zsh >> ~/.zshrc
    roofline completion fish > ~/.config/fish/completions/roofline.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(click.get_current_context().find_root().command, {}, "roofline", "_ROOFLINE_COMPLETE").source()
    if shell == "zsh":  # a plain ~/.zshrc has not loaded what completes
        click.echo("(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }")
    # a value may hold commas, as in --on h100,b200: what stands before the first one is its kind
    click.echo(script.replace('string split "," $completion', 'string split --max 1 "," $completion'))
