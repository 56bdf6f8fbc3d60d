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
