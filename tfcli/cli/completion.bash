_tfcli() {
    local line="${COMP_LINE:0:COMP_POINT}"
    local word="${line##*[[:space:]]}"
    mapfile -t COMPREPLY < <(_TFCLI_COMPLETE=bash "$1" "$line" 2>/dev/null)
    # What stands before the last = or : is no part of the word for bash.
    COMPREPLY=("${COMPREPLY[@]#"${word%"$2"}"}")
    [[ ${COMPREPLY[0]} == *[=/] ]] && compopt -o nospace
}
complete -o default -F _tfcli tfcli
