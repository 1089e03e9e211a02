# Completions of berth for bash-completion: the program writes them from its tables of verbs and options.
eval "$(berth completion bash)"
