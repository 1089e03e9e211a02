/*
 * The common part of tcp and http checks: connect, send a few bytes, look at the answer, all before
 * a deadline.
 *
 * Tries each address of the target in turn; each gets its part of the time that is left, so that
 * one black hole does not hide a server that answers. The judge reads the answer. The socket never
 * blocks the loop, and `answer_max` bounds its memory for any server.
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

#include "agent/check/result.h"
#include "agent/config/config.h"

struct check_socket;

/*
 * Looks at the answer so far, from its beginning; called once everything has been sent (with what
 * there is: nothing) and again after every read. True when that is enough, with the detail of
 * `result` filled, and its verdict, which begins as failing (output, too, if it likes). `complete`:
 * there is no more, because the server closed or answer_max is reached; then it must decide.
 */
typedef bool check_socket_judge(const struct config_check *config, const char *answer, size_t len,
	bool complete, struct check_result *result);

struct check_socket_exchange {
	const char *send; /* copied */
	size_t send_len;
	size_t answer_max;
	check_socket_judge *judge;
};

/*
 * on_result comes once, always from the loop, after which the socket is freed. `config` is borrowed
 * until then.
 */
struct check_socket *check_socket_start(struct ev_loop *loop, const struct config_check *config,
	const struct check_socket_exchange *exchange,
	void (*on_result)(void *context, const struct check_result *result), void *context);

/* Gives up; no result comes. */
void check_socket_abandon(struct check_socket *socket);

#endif
