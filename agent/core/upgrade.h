/*
 * The state that an agent passes to its successor in an upgrade: a JSON document in an anonymous
 * file, and open descriptors.
 *
 * The document carries a version. The successor takes the members that it knows and ignores the
 * others, so that both sides may be different builds. A service manager passes descriptors in the
 * same way (socket activation, LISTEN_FDS).
 */
#ifndef AGENT_CORE_UPGRADE_H
#define AGENT_CORE_UPGRADE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "lib/base/err.h"
#include "agent/bridge/looker.h"
#include "agent/bridge/socket.h"
#include "agent/dns/dns.h"
#include "agent/http/http.h"

struct upgrade {
	json_t *document;               /* NULL: this process was started afresh */
	int socket_fd;                  /* the descriptors are -1 when there is none */
	struct http_place socket_place; /* of socket_fd, unless the service manager made it */
	int listen_fd;
	struct http_listen
		*listens; /* further listeners; the texts belong to `document` or config */
	size_t listen_count;
	int lock_fd;
	int xds_fd; /* the listening socket of berth-xds */
	/* the listening socket is the service manager's: do not unlink its path */
	bool keep_socket;
	pid_t main_pid;                /* 0: none runs */
	struct http_kept *connections; /* HTTP connections between two requests */
	size_t connection_count;
	struct dns_socket *dns; /* listening sockets for names */
	size_t dns_count;
	struct bridge_socket *bridge; /* listening sockets of containers */
	size_t bridge_count;
	struct bridge_owner_file *owners; /* of records in containers that are stalled */
	size_t owner_count;
	struct bridge_abandoned *abandoned; /* lookers that hang there */
	size_t abandoned_count;
};

/*
 * Reads and clears $BERTH_UPGRADE and $LISTEN_FDS. Call it before anything is opened: when the
 * predecessor's document cannot be read, this closes every descriptor, and the agent starts afresh.
 */
void upgrade_receive(struct upgrade *upgrade);
/* Frees the document; the descriptors stay open. */
void upgrade_finish(struct upgrade *upgrade);

/* Sockets for names that the successor, or the start itself, is to find as inherited. */
bool upgrade_has_dns_socket(const struct upgrade *upgrade, const char *address, bool tcp);
void upgrade_add_dns_socket(struct upgrade *upgrade, const char *address, bool tcp, int fd);

/* The descriptor of the further listener of this name at this address; -1: there is none. */
int upgrade_listen_fd(const struct upgrade *upgrade, const char *name, const char *address);
/* The texts are borrowed. */
void upgrade_add_listen(struct upgrade *upgrade, const char *name, const char *address, int fd);

/* Members of the document; NULL or "" when there is none. Borrowed. */
const json_t *upgrade_get(const struct upgrade *upgrade, const char *name);
const char *upgrade_text(const struct upgrade *upgrade, const char *name);

/*
 * Puts `document` and the descriptors of `upgrade` (which lose their close-on-exec flag) where the
 * successor finds them, and executes `binary`. Returns only on failure. Adds the descriptors'
 * numbers to `document`.
 */
int upgrade_exec(const struct upgrade *upgrade, const char *binary, char **argv, struct err *err)
	ERR_REQUIRED(4);

#endif
