/*
 * The socket API on a dir: registry in a process of its own, with small hooks in the agent's place, for tests that are its
 * clients.
 */
#ifndef TESTS_SUPPORT_API_SERVER_H
#define TESTS_SUPPORT_API_SERVER_H

#include <sys/types.h>

struct api_server_options {
	const char *directory; /* holds everything: registry/, state/, berth.sock */
	int max_watchers;
	int heartbeat_interval_ms;
	int idle_timeout_ms;
	size_t max_size_bytes;
	const char *listen; /* "" for none */
};

/* Returns when the server accepts connections. */
pid_t api_server_start(const struct api_server_options *options);
/* Ends it; its exit status, 0 when all went well. */
int api_server_stop(pid_t pid);

#endif
