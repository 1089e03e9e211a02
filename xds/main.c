/* berth-xds: the command line, and the life of the program. */
#include <errno.h>
#include <ev.h>
#include <getopt.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "lib/base/err.h"
#include "lib/base/path.h"
#include "lib/program/memory.h"
#include "lib/program/print_end.h"
#include "xds/cage.h"
#include "xds/dump.h"
#include "xds/listen.h"
#include "xds/log.h"
#include "xds/server.h"

enum { MANY = 64, USAGE = 2, DUMP_TIMEOUT_MS = 5000, FILES_MAX = 1 << 20, DAY_MS = 86400000 };

struct values {
	const char *items[MANY + 1];
	size_t count;
};

struct options {
	const char *socket;
	struct values listen;
	struct values listen_fds;
	struct values serve;
	const char *domain;
	const char *zone;
	struct values failover;
	int failover_hold_ms;
	int min_instances;
	const char *dump;
	int status_fd;
};

static const char help[] =
	"Usage: berth-xds [--socket PATH] --listen WHERE... [OPTION]...\n"
	"       berth-xds [--socket PATH] --dump NAME\n"
	"\n"
	"Serves what a Berth agent knows to gRPC and Envoy, by xDS version 3.\n"
	"\n"
	"  --socket PATH        the agent's socket [$BERTH_SOCKET, or the usual one]\n"
	"  --listen WHERE       a socket's path, or address:port; several\n"
	"  --serve PATH         what clients get that ask for everything; with a trailing\n"
	"                       /** all below it; several [/users/**]\n"
	"  --domain NAME        the domain that names may end in [berth]\n"
	"  --zone ZONE          the own zone, region/zone/...: endpoints near it come first,\n"
	"                       those of --failover last in any case\n"
	"  --failover PATH      below it is what names mean, too: it comes in when there is\n"
	"                       too little before it; several, the best first\n"
	"  --failover-hold MS   how long there must be enough before it goes again [10000]\n"
	"  --min-instances N    a set with fewer stays as it was [1]\n"
	"  --dump NAME          print what clients of NAME would get, and exit\n"
	"  --help, --version\n"
	"\n"
	"For the agent: --listen-fd N and --status-fd N, inherited descriptors.\n";

/* ---- the command line ---- */

static int usage(const char *option, const char *value, const char *allowed)
{
	fprintf(stderr, "berth-xds: %s '%s': allowed is %s (berth-xds --help)\n", option, value,
		allowed);
	return USAGE;
}

/* A path, with or without a trailing / and two asterisks. */
static bool may_be_served(const char *text)
{
	static const char all[] = "/**";
	size_t len = strlen(text);
	bool below = len >= sizeof(all) - 1 && strcmp(text + len - sizeof(all) + 1, all) == 0;
	size_t path_len = below ? len - sizeof(all) + 1 : len;
	struct err err = ERR_INIT;
	return (path_len == 0 && below) || path_check(text, path_len, &err) == 0;
}

static bool may_be_failover(const char *text)
{
	struct err err = ERR_INIT;
	return path_check(text, strlen(text), &err) == 0 && strcmp(text, "/") != 0;
}

enum kind { TEXT, NUMBER, LIST, IGNORED, HELP, VERSION };

static const struct row {
	const char *name;
	enum kind kind;
	size_t place;       /* of a const char *, an int, a struct values */
	unsigned long most; /* a number; 0: any text, or what is good */
	bool (*is_good)(const char *value);
	const char *allowed;
} rows[] = {
#define PLACE(member) offsetof(struct options, member)
	{ "--socket", TEXT, PLACE(socket), 0, NULL, NULL },
	{ "--listen", LIST, PLACE(listen), 0, NULL, NULL },
	{ "--listen-fd", LIST, PLACE(listen_fds), FILES_MAX, NULL, NULL },
	{ "--serve", LIST, PLACE(serve), 0, may_be_served,
		"a registry path, with or without a trailing /**" },
	{ "--domain", TEXT, PLACE(domain), 0, NULL, NULL },
	{ "--zone", TEXT, PLACE(zone), 0, NULL, NULL },
	{ "--failover", LIST, PLACE(failover), 0, may_be_failover, "a registry path other than /" },
	{ "--failover-hold", NUMBER, PLACE(failover_hold_ms), DAY_MS, NULL, NULL },
	{ "--min-instances", NUMBER, PLACE(min_instances), 1000000, NULL, NULL },
	{ "--streams", IGNORED, 0, 0, NULL, NULL }, /* an agent of 0.2.0 says so */
	{ "--dump", TEXT, PLACE(dump), 0, NULL, NULL },
	{ "--status-fd", NUMBER, PLACE(status_fd), FILES_MAX, NULL, NULL },
	{ "--help", HELP, 0, 0, NULL, NULL },
	{ "--version", VERSION, 0, 0, NULL, NULL },
#undef PLACE
};

static int check_number(const struct row *row, const char *text)
{
	char *end;
	errno = 0;
	unsigned long number = strtoul(text, &end, 10);
	if (errno || *end || end == text || *text == '-' || number > row->most) {
		char allowed[64];
		snprintf(allowed, sizeof(allowed), "a number from 0 to %lu", row->most);
		return usage(row->name, text, allowed);
	}
	return 0;
}

/* 0, or the exit status after a message. */
static int take_option(struct options *options, const struct row *row, const char *value)
{
	void *place = (char *)options + row->place;
	struct values *list = place;
	if (row->most > 0 && check_number(row, value) != 0) {
		return USAGE;
	}
	if (row->is_good && !row->is_good(value)) {
		return usage(row->name, value, row->allowed);
	}
	switch (row->kind) {
	case TEXT:
		*(const char **)place = value;
		break;
	case NUMBER:
		*(int *)place = (int)strtol(value, NULL, 10);
		break;
	case LIST:
		if (list->count == MANY) {
			return usage(row->name, value, "64 times at most");
		}
		list->items[list->count++] = value;
		break;
	case IGNORED:
		break;
	case HELP:
		fputs(help, stdout);
		exit(print_end(EXIT_SUCCESS));
	case VERSION:
		puts("berth-xds " BERTH_VERSION);
		exit(print_end(EXIT_SUCCESS));
	}
	return 0;
}

static int take_options(struct options *options, int argc, char **argv)
{
	struct option names[ARRAY_LEN(rows) + 1] = { { NULL, 0, NULL, 0 } };
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		names[i] = (struct option){ .name = rows[i].name + strlen("--"),
			.has_arg = rows[i].kind < HELP ? required_argument : no_argument,
			.val = (int)i };
	}
	int option;
	int status = 0;
	while (status == 0 && (option = getopt_long(argc, argv, "", names, NULL)) != -1) {
		/* getopt has printed why. */
		status = option == '?' ? USAGE : take_option(options, &rows[option], optarg);
	}
	return status;
}

static int read_options(struct options *options, int argc, char **argv)
{
	*options = (struct options){
		.domain = "berth", .failover_hold_ms = 10000, .min_instances = 1, .status_fd = -1
	};
	if (take_options(options, argc, argv) != 0) {
		return USAGE;
	}
	if (optind < argc) {
		return usage("operand", argv[optind], "none");
	}
	if (options->failover.count > 0 && !options->zone) {
		/* Without priorities a client would take both paths' endpoints for one locality. */
		options->zone = "";
	}
	if (options->serve.count == 0) {
		options->serve.items[options->serve.count++] = "/users/**";
	}
	if (!options->dump && options->listen.count + options->listen_fds.count == 0) {
		fputs("berth-xds: --listen says where clients come (berth-xds --help)\n", stderr);
		return USAGE;
	}
	return 0;
}

/* ---- serving ---- */

static void on_signal(struct ev_loop *loop, ev_signal *signal, int events)
{
	(void)loop;
	(void)events;
	server_leave(signal->data);
}

static int open_listeners(struct server *server, const struct options *options)
{
	for (size_t i = 0; i < options->listen.count; i++) {
		struct err err = ERR_INIT;
		int fd = listen_open(options->listen.items[i], &err);
		if (fd < 0) {
			log_line("error", "%s", err.msg);
			return EXIT_FAILURE;
		}
		server_listen_take(server, fd);
	}
	for (size_t i = 0; i < options->listen_fds.count; i++) {
		server_listen_take(server, (int)strtol(options->listen_fds.items[i], NULL, 10));
	}
	return 0;
}

static int serve(struct source *source, struct world *world, struct shares *shares,
	const struct options *options)
{
	struct ev_loop *loop = memory_must(ev_default_loop(EVFLAG_AUTO));
	const struct server_options server_options = { .loop = loop,
		.source = source,
		.world = world,
		.shares = shares,
		.status_fd = options->status_fd };
	struct server *server = server_create(&server_options);
	ev_signal ends[2];
	ev_signal_init(&ends[0], on_signal, SIGTERM);
	ev_signal_init(&ends[1], on_signal, SIGINT);
	for (int i = 0; i < 2; i++) {
		ends[i].data = server;
		ev_signal_start(loop, &ends[i]);
	}
	int status = open_listeners(server, options);
	if (status == 0) {
		char words[SANDBOX_WORDS_BYTES];
		log_start();
		cage_enter(words);
		log_line("info", "cage: %s", words);
		ev_run(loop, 0);
	}
	for (int i = 0; i < 2; i++) {
		ev_signal_stop(loop, &ends[i]);
	}
	server_destroy(server);
	ev_loop_destroy(loop);
	log_finish();
	return status;
}

int main(int argc, char **argv)
{
	struct options options;
	struct err err = ERR_INIT;
	memory_init();
	signal(SIGPIPE, SIG_IGN);
	int status = read_options(&options, argc, argv);
	if (status != 0) {
		return status;
	}
	struct source *source = source_create(options.socket, &err);
	if (!source) {
		log_line("error", "%s", err.msg);
		return EXIT_FAILURE;
	}
	const struct world_options world_options = { .source = source,
		.domain = options.domain,
		.zone = options.zone,
		.failover = options.failover.items,
		.failover_hold_ms = options.failover_hold_ms,
		.min_instances = (unsigned)options.min_instances,
		.serve = options.serve.items };
	struct world *world = world_create(&world_options);
	struct shares *shares = shares_create(server_connections_max());
	status = options.dump ? print_end(dump_name(source, world, options.dump, DUMP_TIMEOUT_MS))
			      : serve(source, world, shares, &options);
	world_destroy(world); /* names count in shares */
	shares_destroy(shares);
	source_destroy(source);
	return status;
}
