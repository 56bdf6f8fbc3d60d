"""``tfcli completion``: what makes a shell complete commands, options, keys and names."""

from typing import Annotated, Literal

import typer

from tfcli.console.options import command
from tfcli.console.terminal import Terminal

# The shell asks `tfcli` with the line up to the cursor; __main__.py answers before it loads the commands.
_SCRIPTS = {
    "bash": r"""
_tfcli() {
    local line="${COMP_LINE:0:COMP_POINT}"
    local word="${line##*[[:space:]]}"
    mapfile -t COMPREPLY < <(_TFCLI_COMPLETE=bash "$1" "$line" 2>/dev/null)
    # What stands before the last = or : is no part of the word for bash.
    COMPREPLY=("${COMPREPLY[@]#"${word%"$2"}"}")
    [[ ${COMPREPLY[0]} == *[=/] ]] && compopt -o nospace
}
complete -o default -F _tfcli tfcli
""",
    "zsh": r"""
_tfcli() {
    local line value
    local -a ready begun
    for line in "${(@f)$(_TFCLI_COMPLETE=zsh "${words[1]}" "${(j: :)words[1,CURRENT]}" 2>/dev/null)}"; do
        value="${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}"
        case "$line" in
            '') ;;
            *[=/]$'\t'*) begun+=("$value") ;;
            *) ready+=("$value") ;;
        esac
    done
    (( $#ready + $#begun )) || { _files; return }
    _describe value ready -- begun -S ''
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
compdef _tfcli tfcli
""",
    "fish": r"""
function __tfcli
    set -l found (env _TFCLI_COMPLETE=fish tfcli (commandline -cp | string collect) 2>/dev/null)
    if count $found >/dev/null
        string join \n -- $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c tfcli -f -k -a '(__tfcli)'
""",
}


@command
def completion(
    terminal: Terminal,
    shell: Annotated[
        Literal["bash", "zsh", "fish"], typer.Argument(metavar="bash|zsh|fish", help="Your shell.", show_default=False)
    ],
) -> None:
    """Print what turns completion on: commands, options, keys, recipes, runs.

    Once, into the file that the shell reads when it begins; new shells know
    it then:

      tfcli completion bash >> ~/.bashrc
      tfcli completion zsh >> ~/.zshrc
      tfcli completion fish > ~/.config/fish/completions/tfcli.fish
    """
    terminal.text(_SCRIPTS[shell].strip())
