/* berth xds-dump: berth-xds itself says what it would send. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

/* Executes the program in `directory`, where it is installed; returns when it is not there. */
static void try_in(const char *directory, char **argv)
{
	char path[PATH_MAX];
	int len = snprintf(path, sizeof(path), "%s/%s", directory, argv[0]);
	if (len > 0 && (size_t)len < sizeof(path)) {
		execv(path, argv);
	}
}

int verb_xds_dump(struct cli *cli)
{
	char *argv[] = { "berth-xds", "--dump", (char *)(uintptr_t)cli_operand(cli), NULL, NULL,
		NULL };
	const char *directory = getenv("BERTH_LIBEXECDIR");
	if (cli->options.socket) {
		argv[3] = "--socket";
		argv[4] = (char *)(uintptr_t)cli->options.socket;
	}
	if (directory && *directory) {
		try_in(directory, argv);
	} else {
		try_in(BERTH_BINDIR "/../sbin", argv);
		execvp(argv[0], argv);
	}
	fprintf(stderr, "berth: berth-xds cannot be run: %s; it is a package of its own\n",
		strerror(errno));
	return EXIT_FAILURE;
}
