/*
 * The socket of a container, berth.sock in its subdirectory, by the descriptor of that: it is made
 * here, since strangers can hold the directory; the agent gets it, and accepts.
 */
#ifndef LOOKER_SOCKET_H
#define LOOKER_SOCKET_H

#include <stdint.h>

#include "lib/base/err.h"

struct socket_place {
	uint64_t device;
	uint64_t inode; /* 0: there is none */
};

/*
 * Makes the socket unless the file is the one at *place: 0, and in *ret_fd a descriptor that
 * listens and in *place where its file is; -1 in *ret_fd: it is there. Else BERTH_FAILED.
 */
int socket_renew(int directory, struct socket_place *place, int *ret_fd, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(4);

#endif
