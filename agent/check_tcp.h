/*
 * A tcp check: the target accepts a connection and, if asked, answers something with the expected bytes in it.
 */
#ifndef CHECK_TCP_H
#define CHECK_TCP_H

#include "check_socket.h"

#define CHECK_TCP_ANSWER_BYTES (64 * 1024)

/* What to send, and how to judge: see check_socket.h. `exchange` borrows from `config`. */
void check_tcp_exchange(const struct config_check *config, struct check_socket_exchange *exchange);

#endif
