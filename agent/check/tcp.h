/* A tcp check: a connection, and the expected bytes in the answer if the configuration has some. */
#ifndef AGENT_CHECK_TCP_H
#define AGENT_CHECK_TCP_H

#include "agent/check/socket.h"

/* The bytes to send, and how to judge the answer; they are borrowed from `config`. */
struct check_socket_exchange check_tcp_exchange(const struct config_check *config);

#endif
