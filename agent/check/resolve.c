#include "agent/check/resolve.h"

#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "lib/base/child.h"
#include "lib/base/close_files.h"

void check_resolve_init(struct check_resolve *resolve, struct ev_loop *loop)
{
	*resolve = (struct check_resolve){ .loop = loop, .pipe = -1 };
}

static void look_up(
	const char *host, const char *port, int flags, struct check_addresses *addresses)
{
	struct addrinfo hints = {
		.ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = flags,
	};
	struct addrinfo *found = NULL;
	int error = getaddrinfo(host, port, &hints, &found);
	if (error) {
		snprintf(addresses->problem, sizeof(addresses->problem), "%s",
			error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error));
		return;
	}
	for (const struct addrinfo *item = found; item; item = item->ai_next) {
		if (addresses->count == CHECK_ADDRESSES_MAX) {
			break;
		}
		struct check_address *address = &addresses->items[addresses->count++];
		address->len = item->ai_addrlen;
		memcpy(&address->address, item->ai_addr, item->ai_addrlen);
	}
	freeaddrinfo(found);
}

/* The configuration made sure that the path fits. */
static void name_socket(const char *path, struct check_addresses *addresses)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct check_address *item = &addresses->items[addresses->count++];
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	item->len = sizeof(address);
	memcpy(&item->address, &address, sizeof(address));
}

static bool look_up_without_asking(
	const char *host, const char *port, struct check_addresses *addresses)
{
	if (*host == '/') {
		name_socket(host, addresses);
	} else if (strcasecmp(host, "localhost") == 0) {
		look_up("127.0.0.1", port, AI_NUMERICHOST, addresses);
		look_up("::1", port, AI_NUMERICHOST, addresses);
	} else {
		look_up(host, port, AI_NUMERICHOST, addresses);
	}
	return addresses->count > 0;
}

/* Runs in the child, which must not keep the agent's descriptors, among them locks. */
static _Noreturn void answer(
	const char *host, const char *port, int report, struct check_addresses *addresses)
{
	const int kept[] = { STDERR_FILENO, report };
	close_files_but(kept, ARRAY_LEN(kept));
	look_up(host, port, 0, addresses);
	child_report(report, addresses, sizeof(*addresses));
}

static void on_readable(struct ev_loop *loop, ev_io *watcher, int events)
{
	(void)loop;
	struct check_resolve *resolve = watcher->data;
	struct check_addresses answer;
	if (events & EV_ERROR) { /* a read would block */
		snprintf(resolve->addresses->problem, sizeof(resolve->addresses->problem),
			"the kernel refuses to watch the resolver process");
	} else if (read(resolve->pipe, &answer, sizeof(answer)) == (ssize_t)sizeof(answer) &&
		answer.count >= 0 && answer.count <= CHECK_ADDRESSES_MAX) {
		answer.problem[sizeof(answer.problem) - 1] = '\0';
		*resolve->addresses = answer;
	} else {
		snprintf(resolve->addresses->problem, sizeof(resolve->addresses->problem),
			"the resolver process ended without an answer");
	}
	check_resolve_stop(resolve);
	resolve->on_done(resolve->context);
}

static bool start_child(struct check_resolve *resolve, const char *host, const char *port)
{
	int report;
	pid_t child = child_fork_reporting(true, &report);
	if (child == 0) {
		answer(host, port, report, resolve->addresses);
	}
	if (child < 0) {
		return false;
	}
	resolve->child = child;
	resolve->pipe = report;
	return true;
}

bool check_resolve_start(struct check_resolve *resolve, const char *host, const char *port,
	struct check_addresses *addresses, void (*on_done)(void *context), void *context)
{
	*addresses = (struct check_addresses){ .count = 0 };
	if (look_up_without_asking(host, port, addresses)) {
		return true;
	}
	resolve->addresses = addresses;
	resolve->on_done = on_done;
	resolve->context = context;
	if (!start_child(resolve, host, port)) {
		snprintf(addresses->problem, sizeof(addresses->problem), "%s", strerror(errno));
		return true;
	}
	ev_io_init(&resolve->readable, on_readable, resolve->pipe, EV_READ);
	resolve->readable.data = resolve;
	ev_io_start(resolve->loop, &resolve->readable);
	return false;
}

void check_resolve_stop(struct check_resolve *resolve)
{
	if (resolve->pipe < 0) {
		return;
	}
	ev_io_stop(resolve->loop, &resolve->readable);
	close(resolve->pipe);
	resolve->pipe = -1;
	/*
	 * The loop reaps it, and has not done so yet unless it has exited and the number is still
	 * its own.
	 */
	kill(resolve->child, SIGKILL);
}
