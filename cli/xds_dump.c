/* berth xds-dump: berth-xds itself says what it would send. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "lib/program/memory.h"

/* Executes the program in `directory`, where it is installed; returns when it is not there. */
static void try_in(const char *directory, char **argv)
{
	char path[PATH_MAX];
	int len = snprintf(path, sizeof(path), "%s/%s", directory, argv[0]);
	if (len > 0 && (size_t)len < sizeof(path)) {
		execv(path, argv);
	}
}

static void add(char **argv, const char *option, const char *value)
{
	if (!value) {
		return;
	}
	while (*argv) {
		argv++;
	}
	argv[0] = (char *)(uintptr_t)option;
	argv[1] = (char *)(uintptr_t)value;
}

/* The command line, with the options of the agent's own berth-xds; `xds` is what it says of it. */
static char **make_argv(const struct cli *cli, const json_t *xds)
{
	enum { OPTIONS = 5 };
	static char number[24];
	const json_t *least = json_object_get(xds, "min_instances");
	const json_t *failover = json_object_get(xds, "failover");
	size_t words = 2 * (OPTIONS + json_array_size(failover)) + 2;
	char **argv = memory_must(calloc(words, sizeof(*argv)));
	argv[0] = "berth-xds";
	add(argv, "--dump", cli_operand(cli));
	add(argv, "--socket", cli->options.socket);
	add(argv, "--domain", json_string_value(json_object_get(xds, "domain")));
	add(argv, "--zone", json_string_value(json_object_get(xds, "zone")));
	if (json_is_integer(least)) {
		snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(least));
		add(argv, "--min-instances", number);
	}
	for (size_t i = 0; i < json_array_size(failover); i++) {
		add(argv, "--failover", json_string_value(json_array_get(failover, i)));
	}
	return argv;
}

int verb_xds_dump(struct cli *cli)
{
	struct berth_answer answer;
	struct berth_failure failure;
	if (berth_status(cli->berth, &answer, &failure) != 0) {
		return output_failure(&failure);
	}
	json_t *agent = cli_parse_take(&answer);
	char **argv = make_argv(cli, json_object_get(agent, "xds"));
	const char *directory = getenv("BERTH_LIBEXECDIR");
	if (directory && *directory) {
		try_in(directory, argv);
	} else {
		try_in(BERTH_BINDIR "/../sbin", argv);
		execvp(argv[0], argv);
	}
	fprintf(stderr, "berth: berth-xds cannot be run: %s; it is a package of its own\n",
		strerror(errno));
	free(argv);
	json_decref(agent);
	return EXIT_FAILURE;
}
