#compdef berth
# Completions of berth for zsh: the program writes them from its tables of verbs and options.
eval "$(berth completion zsh)"
_berth "$@"
