#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "cli/cli.h"

/* Whom a verb speaks with. */
enum target {
	AGENT_OR_REGISTRY, /* the agent, unless --registry is given */
	REGISTRY,          /* --registry or BERTH_REGISTRY */
	AGENT
};

static const struct verb {
	const char *name;
	const char *operand; /* what it is given; NULL: nothing */
	const char *synopsis;
	const char *help;
	const char *options; /* keys of the option table */
	enum target target;
	int (*run)(struct cli *cli);
} verbs[] = {
	{ "resolve", "PATH", "PATH", "show the service record at PATH", "", AGENT_OR_REGISTRY,
		verb_resolve },
	{ "ls", "PATH", "[-l] PATH", "list the children of PATH", "l", AGENT_OR_REGISTRY, verb_ls },
	{ "records", "PATH", "PATH", "show the children of PATH that hold a record", "",
		AGENT_OR_REGISTRY, verb_records },
	{ "endpoints", "PATH", "[FILTER] [--first|--random] PATH",
		"show the addresses that PATH and its children offer", "aoc1x", AGENT_OR_REGISTRY,
		verb_endpoints },
	{ "stat", "PATH", "PATH", "show the time, size and number of children of PATH", "",
		AGENT_OR_REGISTRY, verb_stat },
	{ "exists", "PATH", "PATH", "exit 0 when there is PATH, else 3", "", AGENT_OR_REGISTRY,
		verb_exists },
	{ "find", NULL, "[FILTER]", "find records anywhere in the tree", "aokiPu",
		AGENT_OR_REGISTRY, verb_find },
	{ "watch", "PATH", "[-r] PATH [-- COMMAND…]",
		"show each change of PATH, or run COMMAND on it", "r", AGENT_OR_REGISTRY,
		verb_watch },
	{ "bind", "PATH", "[-p] PATH --file FILE | [-p] PATH ENDPOINT", "write a service record",
		"pjOeaoUNWEIdiPXYZ", REGISTRY, verb_bind },
	{ "mknode", "PATH", "[-p] PATH", "make a node without a record", "pXYZ", REGISTRY,
		verb_mknode },
	{ "rm", "PATH", "[-r] PATH", "delete a node; one that is not there is no error", "r",
		REGISTRY, verb_rm },
	{ "purge", NULL, "--id ID --persistence KIND", "delete what a container left behind",
		"iPuyn", REGISTRY, verb_purge },
	{ "status", NULL, "", "show the agent, its components and its registry", "", AGENT,
		verb_status },
	{ "checks", NULL, "", "show the health checks", "", AGENT, verb_checks },
	{ "history", NULL, "", "show what changed, when and why", "", AGENT, verb_history },
	{ "drain", NULL, "[--reason TEXT] [--for TIME] [--wait]",
		"take everything out of the registry for maintenance", "mDw", AGENT, verb_drain },
	{ "undrain", NULL, "", "end the maintenance", "", AGENT, verb_undrain },
	{ "reload", NULL, "", "have the agent read its configuration again", "", AGENT,
		verb_reload },
	{ "run-check", "NAME", "NAME", "run a check now and show its result", "", AGENT,
		verb_run_check },
};

enum { VERB_COUNT = sizeof(verbs) / sizeof(verbs[0]) };

/* ---- help ------------------------------------------------------------------------------------- */

static void print_group(const char *title, enum target target)
{
	printf("\n%s\n", title);
	for (size_t i = 0; i < VERB_COUNT; i++) {
		if (verbs[i].target == target) {
			printf("  %-10s %s\n", verbs[i].name, verbs[i].help);
		}
	}
}

static void print_help(void)
{
	puts("Usage: berth [OPTION]... VERB [OPTION]... [OPERAND]...\n"
	     "\n"
	     "Looks up, watches and manages services through the Berth agent of this\n"
	     "container, or straight in a registry. `berth VERB --help` explains a verb.");
	print_group("Lookups, through the agent or with --registry:", AGENT_OR_REGISTRY);
	print_group("Writes, with --registry or BERTH_REGISTRY:", REGISTRY);
	print_group("The agent:", AGENT);
	puts("\nOptions:");
	options_print("");
	puts("\nExit status: 0 done, 1 failed, 2 usage, 3 no such path or record,\n"
	     "4 agent or registry unreachable, 5 denied.");
}

static void print_verb_help(const struct verb *verb)
{
	printf("Usage: berth %s%s%s\n\n%c%s.\n", verb->name, *verb->synopsis ? " " : "",
		verb->synopsis, verb->help[0] - 'a' + 'A', verb->help + 1);
	if (*verb->options) {
		puts("\nOptions:");
		options_print(verb->options);
	}
	puts("\nOptions of every verb:");
	options_print("");
}

/* ---- the command line ------------------------------------------------------------------------- */

static const struct verb *find_verb(const char *name)
{
	for (size_t i = 0; i < VERB_COUNT; i++) {
		if (strcmp(verbs[i].name, name) == 0) {
			return &verbs[i];
		}
	}
	return NULL;
}

static int unknown_verb(const char *name)
{
	const char *names[VERB_COUNT];
	for (size_t i = 0; i < VERB_COUNT; i++) {
		names[i] = verbs[i].name;
	}
	const char *nearest = options_nearest(name, names, VERB_COUNT);
	if (nearest) {
		return output_usage("there is no verb \"%s\"; did you mean %s?", name, nearest);
	}
	return output_usage("there is no verb \"%s\" (berth --help)", name);
}

static int check_operands(const struct verb *verb, const struct options *options)
{
	size_t wanted = verb->operand ? 1 : 0;
	if (options->operand_count < wanted || (wanted && !*options->operands[0])) {
		return output_usage(
			"%s needs a %s (berth %s --help)", verb->name, verb->operand, verb->name);
	}
	if (options->operand_count > wanted) {
		return output_usage("%s: what is \"%s\"? (berth %s --help)", verb->name,
			options->operands[wanted], verb->name);
	}
	if (options->command && (verb->run != verb_watch || !*options->command)) {
		return output_usage(verb->run == verb_watch ? "%s: the command after -- is missing"
							    : "%s takes no command",
			verb->name);
	}
	return 0;
}

const char *cli_operand(const struct cli *cli)
{
	return cli->options.operands[0];
}

/* 0, or 2 after saying what a registry's URL looks like: berth_open() would take another text for a socket. */
static int check_registry(const char *url)
{
	static const char *const prefixes[] = { "dir:", "zookeeper://", "zookeeper+tls://" };
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		if (strncmp(url, prefixes[i], strlen(prefixes[i])) == 0) {
			return 0;
		}
	}
	/* Not repeated: it may hold a password. */
	return output_usage("what names the registry is no URL of one; allowed are dir:/path and "
			    "zookeeper://host:port,host:port/root (or zookeeper+tls://)");
}

/* Where the verb's handle goes; NULL: the agent's usual socket. */
static int choose_target(const struct verb *verb, const struct options *options, const char **ret)
{
	const char *registry = options->registry;
	if (verb->target == REGISTRY && !registry) {
		registry = getenv("BERTH_REGISTRY");
		if (!registry || !*registry) {
			return output_usage(
				"%s writes to a registry: name it with --registry or BERTH_REGISTRY",
				verb->name);
		}
	}
	if (registry && options->socket) {
		return output_usage("--socket and --registry exclude each other");
	}
	if (registry && verb->target == AGENT) {
		return output_usage("%s is for the agent, not for a registry", verb->name);
	}
	*ret = registry ? registry : options->socket;
	return registry ? check_registry(registry) : 0;
}

static int open_and_run(const struct verb *verb, struct cli *cli)
{
	const char *where = NULL;
	int status = choose_target(verb, &cli->options, &where);
	if (status != 0) {
		return status;
	}
	struct berth_options options = {
		.timeout_ms = cli->options.timeout_ms,
		.auth_file = cli->options.auth_file,
		.secure = cli->options.secure,
		.system_accounts = cli->options.system_accounts,
		.realm = cli->options.realm,
	};
	if (options.auth_file) {
		prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* no core dump holds the password */
	}
	struct berth_failure failure;
	if (berth_open(&cli->berth, where, &options, &failure) != 0) {
		return output_failure(&failure);
	}
	status = verb->run(cli);
	berth_close(cli->berth);
	return status;
}

static int run(struct cli *cli)
{
	const struct options *options = &cli->options;
	if (options->version) {
		puts("berth " BERTH_VERSION);
		return 0;
	}
	if (!options->verb) {
		if (options->help) {
			print_help();
			return 0;
		}
		return output_usage("what is to be done? (berth --help)");
	}
	const struct verb *verb = find_verb(options->verb);
	if (!verb) {
		return unknown_verb(options->verb);
	}
	if (options->help) {
		print_verb_help(verb);
		return 0;
	}
	int status = options_check(options, verb->options);
	if (status == 0) {
		status = check_operands(verb, options);
	}
	return status ? status : open_and_run(verb, cli);
}

int main(int argc, char **argv)
{
	struct cli cli = { .berth = NULL };
	setlocale(LC_ALL, "");
	signal(SIGPIPE, SIG_IGN);
	int status = options_parse(argc, argv, &cli.options);
	if (status == 0) {
		output_init(&cli.output, cli.options.json);
		status = output_finish(run(&cli));
	}
	free(cli.options.operands);
	return status;
}
