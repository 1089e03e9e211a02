/*
 * web: the status page and the lookups of the agent's socket on a TCP port of 127.0.0.1, for a
 * browser of this machine, until it is interrupted.
 */
#include "cli/cli.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/web_exchange.h"
#include "lib/base/clock.h"
#include "lib/base/random_bytes.h"
#include "lib/client/handle.h"
#include "lib/program/memory.h"

enum { EXCHANGES = 64, BACKLOG = 64, TICK_MS = 1000 };

struct web {
	struct web_site site;
	int listen_fd;
	struct web_exchange exchanges[EXCHANGES];
};

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
	(void)number;
	stopped = 1;
}

/* ---- beginning ---- */

static bool make_token(char token[WEB_TOKEN_BYTES])
{
	unsigned char random[(WEB_TOKEN_BYTES - 1) / 2];
	if (!random_bytes(random, sizeof(random))) {
		return false;
	}
	for (size_t i = 0; i < sizeof(random); i++) {
		snprintf(token + 2 * i, 3, "%02x", random[i]);
	}
	return true;
}

/* Port 0: the kernel chooses. The port is free again at once when the program ends. */
static bool listen_on(struct web *web, unsigned port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	socklen_t len = sizeof(address);
	int yes = 1;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	web->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (web->listen_fd < 0 ||
		setsockopt(web->listen_fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
		bind(web->listen_fd, (struct sockaddr *)&address, len) != 0 ||
		listen(web->listen_fd, BACKLOG) != 0 ||
		getsockname(web->listen_fd, (struct sockaddr *)&address, &len) != 0) {
		return false;
	}
	web->site.port = ntohs(address.sin_port);
	return true;
}

static void print_url(const struct cli *cli, const struct web_site *site)
{
	char url[96];
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/%s/", site->port, site->token);
	if (cli->options.json) {
		json_t *document = json_pack("{s:s}", "url", url);
		output_json_line(document);
		json_decref(document);
	} else {
		puts(url);
	}
	fflush(stdout);
}

/* ---- serving ---- */

/*
 * The place of a new connection: a free one, or that of the connection that has kept us waiting for
 * its request the longest, so that nobody without the token can hold all of them. NULL: none.
 */
static struct web_exchange *place_for_one_more(struct web *web)
{
	struct web_exchange *found = NULL;
	for (size_t i = 0; i < EXCHANGES; i++) {
		struct web_exchange *exchange = &web->exchanges[i];
		if (exchange->state == WEB_FREE) {
			return exchange;
		}
		if (exchange->state == WEB_READING &&
			(!found || exchange->deadline_ms < found->deadline_ms)) {
			found = exchange;
		}
	}
	return found;
}

static void accept_one(struct web *web, int64_t now_ms)
{
	int fd = accept4(web->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct web_exchange *exchange = fd < 0 ? NULL : place_for_one_more(web);
	if (exchange) {
		web_exchange_end(exchange);
		web_exchange_start(exchange, fd, now_ms);
	} else if (fd >= 0) {
		close(fd);
	}
}

static void serve(struct web *web, const sigset_t *mask)
{
	struct pollfd pollers[EXCHANGES * WEB_POLLERS + 1];
	struct pollfd *listener = &pollers[EXCHANGES * WEB_POLLERS];
	const struct timespec tick = { .tv_sec = TICK_MS / 1000 };
	while (!stopped) {
		for (size_t i = 0; i < EXCHANGES; i++) {
			web_exchange_poll(&web->exchanges[i], &pollers[i * WEB_POLLERS]);
		}
		*listener = (struct pollfd){ .fd = place_for_one_more(web) ? web->listen_fd : -1,
			.events = POLLIN };
		if (ppoll(pollers, EXCHANGES * WEB_POLLERS + 1, &tick, mask) < 0) {
			continue; /* a signal */
		}
		int64_t now_ms = clock_monotonic_ms();
		for (size_t i = 0; i < EXCHANGES; i++) {
			web_exchange_go_on(
				&web->exchanges[i], &web->site, &pollers[i * WEB_POLLERS], now_ms);
		}
		if (listener->revents) {
			accept_one(web, now_ms);
		}
	}
	for (size_t i = 0; i < EXCHANGES; i++) {
		web_exchange_end(&web->exchanges[i]);
	}
}

/* SIGINT and SIGTERM are seen while ppoll() waits, and only then; *ret_mask lets them in. */
static void catch_signals(sigset_t *ret_mask)
{
	struct sigaction action = { .sa_handler = on_signal };
	sigset_t ending;
	sigemptyset(&ending);
	sigaddset(&ending, SIGINT);
	sigaddset(&ending, SIGTERM);
	sigprocmask(SIG_BLOCK, &ending, ret_mask);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigdelset(ret_mask, SIGINT);
	sigdelset(ret_mask, SIGTERM);
}

int verb_web(struct cli *cli)
{
	struct berth_failure failure;
	struct berth_answer answer;
	sigset_t mask;
	if (berth_status(cli->berth, &answer, &failure) != 0) {
		return output_failure(&failure);
	}
	berth_answer_finish(&answer);
	struct web *web = memory_must(calloc(1, sizeof(*web)));
	int status = 0;
	web->listen_fd = -1;
	web->site.socket_path = client_socket_path(cli->berth->client);
	if (!make_token(web->site.token)) {
		perror("berth: cannot make a secret name");
		status = EXIT_FAILURE;
	} else if (!listen_on(web, cli->options.port)) {
		fprintf(stderr, "berth: cannot listen on port %u of 127.0.0.1: %s\n",
			cli->options.port, strerror(errno));
		status = EXIT_FAILURE;
	} else {
		catch_signals(&mask);
		print_url(cli, &web->site);
		serve(web, &mask);
	}
	if (web->listen_fd >= 0) {
		close(web->listen_fd);
	}
	free(web);
	return status;
}
