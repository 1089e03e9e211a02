/*
 * A tcp check: the target accepts a connection and, if asked, answers something with the expected bytes in it.
 */
#ifndef AGENT_CHECK_TCP_H
#define AGENT_CHECK_TCP_H

#include "agent/check/socket.h"

#define CHECK_TCP_ANSWER_BYTES (64 * 1024)

/* What to send, and how to judge: see socket.h. `exchange` borrows from `config`. */
void check_tcp_exchange(const struct config_check *config, struct check_socket_exchange *exchange);

#endif
