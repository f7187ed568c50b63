"""Scripts that let a shell complete the words of the command line, made from the words themselves."""

from __future__ import annotations

import argparse

from amble.cli.arguments import Parser, make_parser, verbs_of
from amble.cli.exits import Exit
from amble.cli.shown import show

_BASH = """\
_amble() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" words=""
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="{verbs}"
    else
        case "${{COMP_WORDS[1]}}" in
{cases}
        esac
    fi
    case "$COMP_CWORD $word ${{COMP_WORDS[1]}}" in
        "1 "*|*" -"*|*" "{closed}) COMPREPLY=($(compgen -W "$words" -- "$word")) ;;
        *) COMPREPLY=($(compgen -f -- "$word")) ;;
    esac
}}
complete -o filenames -F _amble amble
"""
_ZSH = """\
#compdef amble
_amble() {{
    local -a verbs
    verbs=(
{told}
    )
    if (( CURRENT == 2 )); then
        _describe 'verb' verbs
        return
    fi
    local verb="$words[2]"
    shift words
    (( CURRENT-- ))
    case "$verb" in
{cases}
    esac
}}
compdef _amble amble
"""


def completion(arguments: argparse.Namespace) -> Exit:
    """To be read by a shell: `eval "$(amble completion bash)"`."""
    verbs = verbs_of(make_parser())
    show({"bash": bash, "zsh": zsh, "fish": fish}[arguments.shell](verbs).rstrip())
    return Exit.DONE


def bash(verbs: dict[str, Parser]) -> str:
    cases = "\n".join(f'            {name}) words="{" ".join(_words(verb))}" ;;' for name, verb in verbs.items())
    closed = '|*" "'.join(name for name, verb in verbs.items() if _choices(verb))
    return _BASH.format(verbs=" ".join(verbs), cases=cases, closed=closed)


def zsh(verbs: dict[str, Parser]) -> str:
    told = "\n".join(f"        {_quoted(f'{name}:{_told(verb)}')}" for name, verb in verbs.items())
    cases = "\n".join(f"        {name}) _arguments {_zsh_words(verb)} ;;" for name, verb in verbs.items())
    return _ZSH.format(told=told, cases=cases)


def fish(verbs: dict[str, Parser]) -> str:
    lines = []
    for name, verb in verbs.items():
        lines.append(f"complete -c amble -n __fish_use_subcommand -f -a {name} -d {_quoted(_told(verb))}")
        here = f"complete -c amble -n '__fish_seen_subcommand_from {name}'"
        lines += [f"{here} -l {flag.removeprefix('--')}" for flag in verb.flags()]
        lines += [f"{here} -f -a {choice}" for choice in _choices(verb)]
    return "\n".join(lines)


def _words(verb: Parser) -> list[str]:
    return [*_choices(verb), *verb.flags()]


def _zsh_words(verb: Parser) -> str:
    choices = _choices(verb)
    rest = f"*:word:({' '.join(choices)})" if choices else "*:file:_files"
    return " ".join(map(_quoted, [*verb.flags(), rest]))


def _choices(verb: Parser) -> list[str]:
    """What may stand in the place of a word, where that is a closed list."""
    return [choice for action in verb._actions if not action.option_strings for choice in action.choices or ()]


def _told(verb: Parser) -> str:
    return verb.description or ""


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
