/* berth-xds: the command line, and the life of the program. */
#include <errno.h>
#include <ev.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/err.h"
#include "lib/base/path.h"
#include "lib/program/memory.h"
#include "lib/program/print_end.h"
#include "xds/cage.h"
#include "xds/dump.h"
#include "xds/listen.h"
#include "xds/log.h"
#include "xds/server.h"

enum { MANY = 64, USAGE = 2, DUMP_TIMEOUT_MS = 5000 };

struct options {
	const char *socket;
	const char *listen[MANY];
	size_t listen_count;
	int listen_fds[MANY];
	size_t listen_fd_count;
	const char *serve[MANY + 1];
	size_t serve_count;
	const char *domain;
	const char *zone;
	const char *failover[MANY + 1];
	size_t failover_count;
	unsigned failover_hold_ms;
	unsigned min_instances;
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
	"                       [7500]\n"
	"  --dump NAME          print what clients of NAME would get, and exit\n"
	"  --help, --version\n"
	"\n"
	"For the agent: --listen-fd N and --status-fd N, inherited descriptors.\n";

enum option_code {
	OPTION_SOCKET = 256,
	OPTION_LISTEN,
	OPTION_LISTEN_FD,
	OPTION_SERVE,
	OPTION_DOMAIN,
	OPTION_ZONE,
	OPTION_FAILOVER,
	OPTION_FAILOVER_HOLD,
	OPTION_MIN_INSTANCES,
	OPTION_STREAMS,
	OPTION_DUMP,
	OPTION_STATUS_FD,
	OPTION_HELP,
	OPTION_VERSION
};

static const struct option long_options[] = {
	{ "socket", required_argument, NULL, OPTION_SOCKET },
	{ "listen", required_argument, NULL, OPTION_LISTEN },
	{ "listen-fd", required_argument, NULL, OPTION_LISTEN_FD },
	{ "serve", required_argument, NULL, OPTION_SERVE },
	{ "domain", required_argument, NULL, OPTION_DOMAIN },
	{ "zone", required_argument, NULL, OPTION_ZONE },
	{ "failover", required_argument, NULL, OPTION_FAILOVER },
	{ "failover-hold", required_argument, NULL, OPTION_FAILOVER_HOLD },
	{ "min-instances", required_argument, NULL, OPTION_MIN_INSTANCES },
	{ "streams", required_argument, NULL, OPTION_STREAMS },
	{ "dump", required_argument, NULL, OPTION_DUMP },
	{ "status-fd", required_argument, NULL, OPTION_STATUS_FD },
	{ "help", no_argument, NULL, OPTION_HELP },
	{ "version", no_argument, NULL, OPTION_VERSION },
	{ NULL, 0, NULL, 0 },
};

/* ---- the command line ---- */

static int usage(const char *option, const char *value, const char *allowed)
{
	fprintf(stderr, "berth-xds: %s '%s': allowed is %s (berth-xds --help)\n", option, value,
		allowed);
	return USAGE;
}

static int read_number(const char *option, const char *text, unsigned most, unsigned *ret_number)
{
	char *end;
	errno = 0;
	unsigned long number = strtoul(text, &end, 10);
	if (errno || *end || end == text || *text == '-' || number > most) {
		char allowed[64];
		snprintf(allowed, sizeof(allowed), "a number from 0 to %u", most);
		return usage(option, text, allowed);
	}
	*ret_number = (unsigned)number;
	return 0;
}

/* A path, with or without a trailing / and two asterisks. */
static int check_serve(const char *text)
{
	static const char all[] = "/**";
	size_t len = strlen(text);
	bool below = len >= sizeof(all) - 1 && strcmp(text + len - sizeof(all) + 1, all) == 0;
	size_t path_len = below ? len - sizeof(all) + 1 : len;
	struct err err = ERR_INIT;
	if ((path_len > 0 || !below) && path_check(text, path_len, &err) != 0) {
		return usage("--serve", text, "a registry path, with or without a trailing /**");
	}
	return 0;
}

static int check_failover(const char *text)
{
	struct err err = ERR_INIT;
	bool good = path_check(text, strlen(text), &err) == 0 && strcmp(text, "/") != 0;
	return good ? 0 : usage("--failover", text, "a registry path other than /");
}

static int add(const char *option, const char **list, size_t *count, const char *value)
{
	if (*count == MANY) {
		return usage(option, value, "64 times at most");
	}
	list[(*count)++] = value;
	return 0;
}

static int add_fd(struct options *options, const char *value)
{
	unsigned number;
	int status = read_number("--listen-fd", value, 1 << 20, &number);
	if (status == 0 && options->listen_fd_count == MANY) {
		return usage("--listen-fd", value, "64 times at most");
	}
	if (status == 0) {
		options->listen_fds[options->listen_fd_count++] = (int)number;
	}
	return status;
}

/* 0, or the exit status after a message. */
static int take_option(struct options *options, int option, const char *value)
{
	unsigned number = 0;
	int status = 0;
	switch ((enum option_code)option) {
	case OPTION_SOCKET:
		options->socket = value;
		break;
	case OPTION_LISTEN:
		return add("--listen", options->listen, &options->listen_count, value);
	case OPTION_LISTEN_FD:
		return add_fd(options, value);
	case OPTION_SERVE:
		status = check_serve(value);
		return status ? status
			      : add("--serve", options->serve, &options->serve_count, value);
	case OPTION_DOMAIN:
		options->domain = value;
		break;
	case OPTION_ZONE:
		options->zone = value;
		break;
	case OPTION_FAILOVER:
		status = check_failover(value);
		return status
			? status
			: add("--failover", options->failover, &options->failover_count, value);
	case OPTION_FAILOVER_HOLD:
		return read_number("--failover-hold", value, 86400000, &options->failover_hold_ms);
	case OPTION_MIN_INSTANCES:
		return read_number("--min-instances", value, 1000000, &options->min_instances);
	case OPTION_STREAMS:
		break; /* an agent of 0.2.0 says so */
	case OPTION_DUMP:
		options->dump = value;
		break;
	case OPTION_STATUS_FD:
		status = read_number("--status-fd", value, 1 << 20, &number);
		options->status_fd = (int)number;
		return status;
	case OPTION_HELP:
		fputs(help, stdout);
		exit(print_end(EXIT_SUCCESS));
	case OPTION_VERSION:
		puts("berth-xds " BERTH_VERSION);
		exit(print_end(EXIT_SUCCESS));
	default:
		return USAGE; /* getopt has printed why */
	}
	return 0;
}

static int read_options(struct options *options, int argc, char **argv)
{
	int option;
	*options = (struct options){
		.domain = "berth", .failover_hold_ms = 10000, .min_instances = 1, .status_fd = -1
	};
	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		int status = take_option(options, option, optarg);
		if (status != 0) {
			return status;
		}
	}
	if (optind < argc) {
		return usage("operand", argv[optind], "none");
	}
	if (options->failover_count > 0 && !options->zone) {
		/* Without priorities a client would take both paths' endpoints for one locality. */
		options->zone = "";
	}
	if (options->serve_count == 0) {
		options->serve[options->serve_count++] = "/users/**";
	}
	if (!options->dump && options->listen_count + options->listen_fd_count == 0) {
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
	for (size_t i = 0; i < options->listen_count; i++) {
		struct err err = ERR_INIT;
		int fd = listen_open(options->listen[i], &err);
		if (fd < 0) {
			log_line("error", "%s", err.msg);
			return EXIT_FAILURE;
		}
		server_listen_take(server, fd);
	}
	for (size_t i = 0; i < options->listen_fd_count; i++) {
		server_listen_take(server, options->listen_fds[i]);
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
		.failover = options.failover,
		.failover_hold_ms = options.failover_hold_ms,
		.min_instances = options.min_instances,
		.serve = options.serve };
	struct world *world = world_create(&world_options);
	struct shares *shares = shares_create(server_connections_max());
	status = options.dump ? print_end(dump_name(source, world, options.dump, DUMP_TIMEOUT_MS))
			      : serve(source, world, shares, &options);
	world_destroy(world); /* names count in shares */
	shares_destroy(shares);
	source_destroy(source);
	return status;
}
