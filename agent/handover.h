/*
 * What a process that re-executes itself passes to itself: a JSON document in an anonymous file, and open descriptors.
 *
 * The document carries a version. A successor takes what it knows and leaves the rest, so that an upgrade never depends on both
 * sides being the same build. Descriptors come the same way from a service manager (socket activation, LISTEN_FDS).
 */
#ifndef AGENT_HANDOVER_H
#define AGENT_HANDOVER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "lib/base/err.h"
#include "agent/http/http.h"

struct handover {
	json_t *document; /* NULL: this process was started afresh */
	int socket_fd;    /* these are -1 when there is none */
	int listen_fd;
	int lock_fd;
	bool keep_socket; /* the listening socket is the service manager's: do not unlink its path */
	pid_t main_pid;   /* 0: none runs */
	struct http_kept *connections; /* HTTP connections between two requests */
	size_t connection_count;
};

/*
 * Reads and clears what the environment says ($BERTH_HANDOVER, $LISTEN_FDS). To be called before anything is opened: of a hand-over
 * that cannot be read every descriptor is closed, and the start is a fresh one.
 */
void handover_receive(struct handover *handover);
/* Frees the document; the descriptors belong to whoever took them. */
void handover_finish(struct handover *handover);

/* Members of the document; NULL or "" when there is none. Borrowed. */
const json_t *handover_get(const struct handover *handover, const char *name);
const char *handover_text(const struct handover *handover, const char *name);

/*
 * Puts `document` and the descriptors of `handover` (which lose their close-on-exec) where a successor finds them, and executes
 * `binary`. Returns only on failure. `document` gets the descriptors' numbers added.
 */
int handover_exec(const struct handover *handover, const char *binary, char **argv, struct err *err)
	ERR_REQUIRED(4);

#endif
