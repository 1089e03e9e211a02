#include "cli/verbs.h"

#include <string.h>

#define FILTER (OPTION(API) | OPTION(PROTOCOL) | OPTION(SCOPE))
#define ENDPOINT                                                                                   \
	(OPTION(API) | OPTION(PROTOCOL) | OPTION(INTERNAL) | OPTION(URI) | OPTION(INET) |          \
		OPTION(WEBUI) | OPTION(REST) | OPTION(DESCRIPTION) | OPTION(ID) |                  \
		OPTION(PERSISTENCE))
#define ACCESS (OPTION(SECURE) | OPTION(SYSTEM_ACCOUNTS) | OPTION(WRITE_ACCESSORS) | OPTION(REALM))

const struct verb verbs[] = {
	{ .name = "resolve",
		.synopsis = "PATH",
		.help = "show the service record at PATH",
		.target = VERB_AGENT_OR_REGISTRY,
		.operands = { "PATH" },
		.required = 1,
		.run = verb_resolve },
	{ .name = "ls",
		.synopsis = "[-l] PATH",
		.help = "list the children of PATH",
		.options = OPTION(LONG),
		.target = VERB_AGENT_OR_REGISTRY,
		.operands = { "PATH" },
		.required = 1,
		.run = verb_ls },
	{ .name = "records",
		.synopsis = "PATH",
		.help = "show the children of PATH that hold a record",
		.target = VERB_AGENT_OR_REGISTRY,
		.operands = { "PATH" },
		.required = 1,
		.run = verb_records },
	{ .name = "endpoints",
		.synopsis = "[FILTER] [--plain|--first|--random] PATH",
		.help = "show the addresses that PATH and its children offer",
		.options = FILTER | OPTION(PLAIN) | OPTION(FIRST) | OPTION(RANDOM),
		.target = VERB_AGENT_OR_REGISTRY,
		.operands = { "PATH" },
		.required = 1,
		.run = verb_endpoints },
	{ .name = "stat",
		.synopsis = "PATH",
		.help = "show the time, size and number of children of PATH",
		.target = VERB_AGENT_OR_REGISTRY,
		.operands = { "PATH" },
		.required = 1,
		.run = verb_stat },
	{ .name = "exists",
		.synopsis = "PATH",
		.help = "exit 0 when there is a node at PATH, else 3",
		.target = VERB_AGENT_OR_REGISTRY,
		.operands = { "PATH" },
		.required = 1,
		.run = verb_exists },
	{ .name = "host",
		.synopsis = "[--type TYPE] NAME",
		.help = "show what DNS says of NAME",
		.options = OPTION(TYPE),
		.target = VERB_AGENT,
		.operands = { "NAME" },
		.required = 1,
		.run = verb_host },
	{ .name = "find",
		.synopsis = "[FILTER]",
		.help = "find records anywhere in the tree",
		.options = OPTION(API) | OPTION(PROTOCOL) | OPTION(TYPE) | OPTION(ID) |
			OPTION(PERSISTENCE) | OPTION(UNDER),
		.target = VERB_AGENT_OR_REGISTRY,
		.run = verb_find },
	{ .name = "watch",
		.synopsis = "[-r] [--once] [--settle TIME] PATH [-- COMMAND…]",
		.help = "show each change of PATH, or run COMMAND on it",
		.options = OPTION(RECURSIVE) | OPTION(ONCE) | OPTION(SETTLE),
		.target = VERB_AGENT_OR_REGISTRY,
		.operands = { "PATH" },
		.required = 1,
		.command = true,
		.run = verb_watch },
	{ .name = "render",
		.synopsis = "--format FORMAT [FILTER] [-r] [--wait N] PATH",
		.help = "print what offers PATH and its children as a proxy's or a script's text",
		.options = FILTER | OPTION(RENDER_FORMAT) | OPTION(RENDER_WAIT) | OPTION(RECURSIVE),
		.target = VERB_AGENT_OR_REGISTRY,
		.operands = { "PATH" },
		.required = 1,
		.run = verb_render },
	{ .name = "wait",
		.synopsis = "[FILTER] [--endpoints N] PATH | --registered [COMPONENT]",
		.help = "wait until PATH offers addresses, or this agent is registered",
		.options = FILTER | OPTION(ENDPOINTS) | OPTION(REGISTERED),
		.target = VERB_AGENT_OR_REGISTRY,
		.operands = { "PATH" },
		.run = verb_wait },
	{ .name = "bind",
		.synopsis = "[-p] PATH --file FILE | [-p] PATH ENDPOINT",
		.help = "write a service record",
		.options = ENDPOINT | ACCESS | OPTION(PARENTS) | OPTION(FILE) | OPTION(OVERWRITE) |
			OPTION(EPHEMERAL),
		.target = VERB_REGISTRY,
		.operands = { "PATH" },
		.required = 1,
		.changes = true,
		.run = verb_bind },
	{ .name = "mknode",
		.synopsis = "[-p] [--owner USER] PATH",
		.help = "make a node without a record, or a user's home",
		.options = ACCESS | OPTION(PARENTS) | OPTION(OWNER),
		.target = VERB_REGISTRY,
		.operands = { "PATH" },
		.required = 1,
		.changes = true,
		.run = verb_mknode },
	{ .name = "rm",
		.synopsis = "[-r [--force]] PATH",
		.help = "delete a node; an absent one is not an error",
		.options = OPTION(RECURSIVE) | OPTION(FORCE),
		.target = VERB_REGISTRY,
		.operands = { "PATH" },
		.required = 1,
		.changes = true,
		.run = verb_rm },
	{ .name = "purge",
		.synopsis = "--id ID --persistence KIND",
		.help = "delete the records that a dead container left",
		.options = OPTION(ID) | OPTION(PERSISTENCE) | OPTION(UNDER) | OPTION(POLICY) |
			OPTION(DRY_RUN),
		.target = VERB_REGISTRY,
		.changes = true,
		.run = verb_purge },
	{ .name = "status",
		.synopsis = "[--exit-code]",
		.help = "show the agent, its components and its registry",
		.options = OPTION(EXIT_CODE),
		.target = VERB_AGENT,
		.run = verb_status },
	{ .name = "bridge",
		.synopsis = "",
		.help = "show the containers of this host, and their records",
		.target = VERB_AGENT,
		.run = verb_bridge },
	{ .name = "checks",
		.synopsis = "",
		.help = "show the health checks",
		.target = VERB_AGENT,
		.run = verb_checks },
	{ .name = "history",
		.synopsis = "[-n N] [--since TIME] [--follow]",
		.help = "show what changed, when and why",
		.options = OPTION(COUNT) | OPTION(SINCE) | OPTION(FOLLOW),
		.target = VERB_AGENT,
		.run = verb_history },
	{ .name = "ready",
		.synopsis = "[--away-ok]",
		.help = "exit 0 when every component is registered, else say why not",
		.options = OPTION(AWAY_OK),
		.target = VERB_AGENT,
		.run = verb_ready },
	{ .name = "top",
		.synopsis = "",
		.help = "show status, checks and history, live: 1-4 or Tab, arrows, q",
		.target = VERB_AGENT,
		.run = verb_top },
	{ .name = "web",
		.synopsis = "[--port N]",
		.help = "serve the status page to a browser of this machine",
		.options = OPTION(PORT),
		.target = VERB_AGENT,
		.run = verb_web },
	{ .name = "live",
		.synopsis = "",
		.help = "exit 0 when the agent works",
		.target = VERB_AGENT,
		.run = verb_live },
	{ .name = "drain",
		.synopsis = "[--reason TEXT] [--for TIME] [--wait] [COMPONENT]",
		.help = "take everything, or one component, out of the registry",
		.options = OPTION(REASON) | OPTION(FOR) | OPTION(WAIT),
		.target = VERB_AGENT,
		.operands = { "COMPONENT" },
		.changes = true,
		.run = verb_drain },
	{ .name = "undrain",
		.synopsis = "[COMPONENT]",
		.help = "end the drain",
		.target = VERB_AGENT,
		.operands = { "COMPONENT" },
		.changes = true,
		.run = verb_undrain },
	{ .name = "undamp",
		.synopsis = "COMPONENT",
		.help = "lift the flap damping of a component",
		.target = VERB_AGENT,
		.operands = { "COMPONENT" },
		.required = 1,
		.changes = true,
		.run = verb_undamp },
	{ .name = "reload",
		.synopsis = "[--dry-run]",
		.help = "make the agent read its configuration again",
		.options = OPTION(DRY_RUN),
		.target = VERB_AGENT,
		.changes = true,
		.run = verb_reload },
	{ .name = "run-check",
		.synopsis = "NAME",
		.help = "run a check now and show its result",
		.target = VERB_AGENT,
		.operands = { "NAME" },
		.required = 1,
		.changes = true,
		.run = verb_run_check },
	{ .name = "report",
		.synopsis = "[--message TEXT] CHECK passing|warning|failing",
		.help = "report the state of a ttl check",
		.options = OPTION(MESSAGE),
		.target = VERB_AGENT,
		.operands = { "CHECK", "STATUS" },
		.required = 2,
		.changes = true,
		.run = verb_report },
	{ .name = "supply",
		.synopsis = "ENDPOINT ADDRESS…",
		.help = "supply the addresses of a dynamic endpoint",
		.target = VERB_AGENT,
		.operands = { "ENDPOINT", "ADDRESS" },
		.required = 2,
		.more = true,
		.changes = true,
		.run = verb_supply },
	{ .name = "withdraw",
		.synopsis = "ENDPOINT",
		.help = "withdraw the addresses of a dynamic endpoint",
		.target = VERB_AGENT,
		.operands = { "ENDPOINT" },
		.required = 1,
		.changes = true,
		.run = verb_withdraw },
	{ .name = "convert",
		.synopsis = "registrar|nerve FILE",
		.help = "print a berth.ini made from another program's configuration",
		.target = VERB_NOBODY,
		.operands = { "PROGRAM", "FILE" },
		.required = 2,
		.run = verb_convert },
	{ .name = "help",
		.synopsis = "[VERB]",
		.help = "explain berth, or one verb",
		.target = VERB_NOBODY,
		.operands = { "VERB" },
		.run = verb_help },
	{ .name = "version",
		.synopsis = "",
		.help = "print the version",
		.target = VERB_NOBODY,
		.run = verb_version },
	{ .name = "completion",
		.synopsis = "bash|zsh|fish",
		.help = "print the completions for a shell",
		.target = VERB_NOBODY,
		.operands = { "SHELL" },
		.required = 1,
		.run = verb_completion },
};

const size_t verb_count = sizeof(verbs) / sizeof(verbs[0]);

enum { VERB_COUNT = sizeof(verbs) / sizeof(verbs[0]) };

const struct verb *verbs_find(const char *name)
{
	for (size_t i = 0; i < VERB_COUNT; i++) {
		if (strcmp(verbs[i].name, name) == 0) {
			return &verbs[i];
		}
	}
	return NULL;
}

int verbs_unknown(const char *name)
{
	const char *names[VERB_COUNT];
	for (size_t i = 0; i < VERB_COUNT; i++) {
		names[i] = verbs[i].name;
	}
	const char *nearest = options_nearest(name, names, VERB_COUNT);
	const struct verb *verb = nearest ? verbs_find(nearest) : NULL;
	if (verb && !verb->changes) {
		return output_usage("there is no verb \"%s\"; did you mean %s?", name, nearest);
	}
	return output_usage("there is no verb \"%s\" (berth --help)", name);
}

int verbs_check_operands(const struct verb *verb, const struct options *options)
{
	size_t known = 0;
	while (known < VERB_OPERANDS && verb->operands[known]) {
		known++;
	}
	for (size_t i = 0; i < verb->required; i++) {
		if (i >= options->operand_count || !*options->operands[i]) {
			return output_usage("%s needs a %s (berth %s --help)", verb->name,
				verb->operands[i], verb->name);
		}
	}
	if (options->operand_count > known && !verb->more) {
		return output_usage("%s does not take \"%s\" (berth %s --help)", verb->name,
			options->operands[known], verb->name);
	}
	if (options->command && !verb->command) {
		return output_usage("%s takes no command", verb->name);
	}
	if (options->command && !*options->command) {
		return output_usage("%s: the command after -- is missing", verb->name);
	}
	return 0;
}
