"""Print a script that completes `mimw` commands, their options, and the functions of a file, for a shell.

Input: a shell. Output: the script, to be read when the shell starts:

    mimw completion bash >> ~/.bashrc           then: mimw check gemm.py:<TAB>          gemm.py:case
    mimw completion fish > ~/.config/fish/completions/mimw.fish

It is made of the commands' own options, so it is as new as the package that prints it.
"""

from __future__ import annotations

import argparse
from argparse import ArgumentParser, Namespace

HELP = "print a script by which a shell completes commands, options and functions"
EXAMPLES = """\
  mimw completion bash >> ~/.bashrc
  mimw completion zsh >> ~/.zshrc
  mimw completion fish > ~/.config/fish/completions/mimw.fish
"""
SHELLS = ("bash", "zsh", "fish")

_BASH = """\
_mimw() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" line="${{COMP_LINE:0:COMP_POINT}}" command="" one words="" file
  for one in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do [[ $one != -* ]] && {{ command=$one; break; }}; done
  # Bash cuts words at colons; what is completed is what stands behind the last one.
  local whole="${{line##* }}"
  if [[ $whole == *.py:* ]]; then
    file="${{whole%%:*}}"
    words=$(sed -n 's/^def \\([A-Za-z]\\w*\\)(.*/\\1/p' "$file" 2>/dev/null)
    if [[ $COMP_WORDBREAKS == *:* ]]; then COMPREPLY=($(compgen -W "$words" -- "${{whole#*:}}"))
    else COMPREPLY=($(compgen -P "$file:" -W "$words" -- "${{whole#*:}}")); fi
    return
  fi
  case "$command" in
    "") words="{commands} --help --version" ;;
{cases}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  [[ $word != -* && -n $command ]] && COMPREPLY+=($(compgen -f -- "$word"))
}}
complete -o filenames -o nospace -F _mimw mimw
"""
_ZSH = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="bash, zsh or fish")


def execute(options: Namespace) -> int:
    words = _words()
    print(_fish(words) if options.shell == "fish" else (_ZSH if options.shell == "zsh" else "") + _bash(words), end="")
    return 0


def _words() -> dict[str, dict[str, str]]:
    """The options and fixed values of positional arguments of each command, with their help."""
    from . import parser_of

    found = {}
    action = next(one for one in parser_of([])._actions if isinstance(one, argparse._SubParsersAction))
    for name, child in action.choices.items():
        found[name] = {option: one.help or "" for one in child._actions for option in one.option_strings}
        found[name] |= {str(value): "" for one in child._actions if not one.option_strings for value in one.choices or ()}
    return found


def _bash(words: dict[str, dict[str, str]]) -> str:
    cases = "\n".join(f"    {name}) words=\"{' '.join(found)}\" ;;" for name, found in words.items())
    return _BASH.format(commands=" ".join(words), cases=cases)


def _fish(words: dict[str, dict[str, str]]) -> str:
    def quoted(text: str) -> str:
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", " ") + "'"

    lines = [f"complete -c mimw -n __fish_use_subcommand -f -a {name}" for name in words]
    for name, found in words.items():
        seen = f"-n '__fish_seen_subcommand_from {name}'"
        for option, text in found.items():
            if option.startswith("--"):
                lines.append(f"complete -c mimw {seen} -l {option[2:]} -d {quoted(text)}")
            elif option.startswith("-"):
                lines.append(f"complete -c mimw {seen} -s {option[1:]} -d {quoted(text)}")
            else:
                lines.append(f"complete -c mimw {seen} -f -a {option}")
    lines.append("complete -c mimw -n 'string match -q \"*.py:*\" -- (commandline -ct)' -f -a "
                 "'(set -l f (string split : -- (commandline -ct))[1]; string replace -rf \"^def ([A-Za-z]\\\\w*)\\\\(.*\" "
                 "\"$f:\\$1\" < $f)'")
    return "\n".join(lines) + "\n"
