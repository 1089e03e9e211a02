# Completions of berth for fish: the program writes them from its tables of verbs and options.
berth completion fish | source
