/* The command line of berth: which verb, on which agent or registry. */
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "cli/cli.h"
#include "cli/verbs.h"
#include "lib/program/memory.h"
#include "lib/program/print_end.h"
#include "lib/registry/registry.h"

/* ---- help ---- */

static void print_group(const char *title, enum verb_target target)
{
	printf("\n%s\n", title);
	for (size_t i = 0; i < verb_count; i++) {
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
	     "container, or directly in a registry. `berth help VERB` explains a verb.");
	print_group("Lookups, through the agent or with --registry:", VERB_AGENT_OR_REGISTRY);
	print_group("Writes, with --registry or BERTH_REGISTRY:", VERB_REGISTRY);
	print_group("The agent:", VERB_AGENT);
	print_group("This program:", VERB_NOBODY);
	puts("\nOptions:");
	options_print(options_everywhere());
	puts("\nExit status: 0 done, 1 failed, 2 usage, 3 no such path or record,\n"
	     "4 agent or registry unreachable, 5 denied.");
}

static void print_verb_help(const struct verb *verb)
{
	printf("Usage: berth %s%s%s\n\n%c%s.\n", verb->name, *verb->synopsis ? " " : "",
		verb->synopsis, verb->help[0] - 'a' + 'A', verb->help + 1);
	if (verb->options) {
		puts("\nOptions:");
		options_print(verb->options);
	}
	puts("\nOptions of every verb:");
	options_print(options_everywhere());
	printf("\nExample:\n  berth %s\n", verb->example);
}

int verb_help(struct cli *cli)
{
	const char *name = cli_operand(cli);
	const struct verb *verb = name ? verbs_find(name) : NULL;
	if (name && !verb) {
		return verbs_unknown(name);
	}
	if (verb) {
		print_verb_help(verb);
	} else {
		print_help();
	}
	return 0;
}

int verb_version(struct cli *cli)
{
	(void)cli;
	puts("berth " BERTH_VERSION);
	return 0;
}

/* ---- the command line ---- */

/*
 * 0, or 2 after saying what a registry's URL looks like: berth_open() would take another text for
 * the path of a socket.
 */
static int check_registry(const char *url)
{
	if (registry_is_url(url)) {
		return 0;
	}
	/* Not repeated: it may hold a password. */
	return output_usage("the name of the registry is not a URL; allowed are dir:/path, "
			    "zookeeper://host:port,host:port/root (or zookeeper+tls://) and "
			    "host:/path");
}

/* The place that the verb's handle is opened on; NULL: the agent's usual socket. */
static int choose_target(const struct verb *verb, const struct options *options, const char **ret)
{
	const char *registry = options->registry;
	if (verb->target == VERB_REGISTRY && !registry) {
		registry = getenv("BERTH_REGISTRY");
		if (!registry || !*registry) {
			return output_usage("%s writes to a registry: name it with "
					    "--registry or BERTH_REGISTRY",
				verb->name);
		}
	}
	if (registry && options->socket) {
		return output_usage("--socket and --registry exclude each other");
	}
	if (registry && verb->target == VERB_AGENT) {
		return output_usage("%s is for the agent, not for a registry", verb->name);
	}
	*ret = registry ? registry : options->socket;
	return registry ? check_registry(registry) : 0;
}

static int open_and_run(const struct verb *verb, struct cli *cli)
{
	if (verb->target == VERB_NOBODY) {
		return verb->run(cli);
	}
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
		.write_accessors = cli->options.write_accessors,
		.realm = cli->options.realm,
	};
	if (options.auth_file) {
		prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* no core dump holds the password */
	}
	if (options.write_accessors && !options.secure) {
		fputs("berth: --write-accessors does nothing without "
		      "--secure: everybody may write\n",
			stderr);
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
		return verb_version(cli);
	}
	if (!options->verb) {
		if (options->help) {
			print_help();
			return 0;
		}
		return output_usage("a verb is missing (berth --help)");
	}
	const struct verb *verb = verbs_find(options->verb);
	if (!verb) {
		return verbs_unknown(options->verb);
	}
	if (options->help) {
		print_verb_help(verb);
		return 0;
	}
	int status = options_check(options, verb->options);
	if (status == 0) {
		status = verbs_check_operands(verb, options);
	}
	return status ? status : open_and_run(verb, cli);
}

/* The options that the verb takes, before the command line is read: some names depend on it. */
static uint64_t accepted_options(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		const struct verb *verb = verbs_find(argv[i]);
		if (verb) {
			return verb->options;
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct cli cli = { .berth = NULL };
	memory_init();
	setlocale(LC_ALL, "");
	signal(SIGPIPE, SIG_IGN);
	int status = options_parse(argc, argv, accepted_options(argc, argv), &cli.options);
	if (status == 0) {
		output_init(&cli.output, cli.options.json);
		status = print_end(run(&cli));
	}
	free(cli.options.operands);
	return status;
}
