function __tfcli
    set -l found (env _TFCLI_COMPLETE=fish tfcli (commandline -cp | string collect) 2>/dev/null)
    if count $found >/dev/null
        string join \n -- $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c tfcli -f -k -a '(__tfcli)'
