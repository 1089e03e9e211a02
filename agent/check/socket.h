/*
 * The common part of tcp and http checks: connect, send a few bytes, look at the answer, all before
 * a deadline.
 *
 * Tries each address of the target in turn; each gets its part of the time that is left, so that
 * one black hole does not hide a server that answers. The judge reads the answer, and bounds the
 * memory for it. The socket never blocks the loop.
 *
 *   RESOLVING --addresses--> CONNECTING --connected--> SENDING --all sent--> RECEIVING --verdict-->
 *                             |      ^  refused, or its part of the time is over
 *                             '------'  with the next address; without one the check fails
 */
#ifndef AGENT_CHECK_SOCKET_H
#define AGENT_CHECK_SOCKET_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/check/linger.h"
#include "agent/check/result.h"
#include "agent/config/config.h"

struct check_socket;

struct check_judge {
	/*
	 * Takes the next bytes of the answer; called once everything has been sent (with none) and
	 * again after every read. True when that is enough, with the detail of `result` filled, and
	 * its verdict, which begins as failing (output, too, if it likes). `complete`: the server
	 * has closed; then it must decide.
	 */
	bool (*take)(void *context, const char *bytes, size_t len, bool complete,
		struct check_result *result);
	void (*destroy)(void *context);
	void *context;
};

struct check_socket_exchange {
	const char *send; /* copied */
	size_t send_len;
	bool server_closes; /* it was asked to, behind its answer */
	struct check_judge judge;
};

/*
 * on_result comes once, always from the loop, after which the socket is freed, and its connection
 * goes to `linger`. `config` is borrowed until then. Takes the judge.
 */
struct check_socket *check_socket_start(struct ev_loop *loop, const struct config_check *config,
	const struct check_socket_exchange *exchange, struct check_linger *linger,
	void (*on_result)(void *context, const struct check_result *result), void *context);

/* Gives up; no result comes. */
void check_socket_abandon(struct check_socket *socket);

#endif
