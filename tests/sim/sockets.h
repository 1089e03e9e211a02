/*
 * Descriptors in memory: Unix sockets, pipes and eventfds of the simulated processes and of their
 * clients. They have the numbers from SOCKETS_FIRST on; files.c sends what is called with such a
 * number here, and everything else to the kernel. None of them blocks. Functions that libc has too
 * return what libc does and set errno.
 *
 *   FRESH --bind, listen--> LISTENING --connect of another--> (a connection waits for accept)
 *     '--connect--> CONNECTED <--accept-- '
 *
 *   a pipe is CONNECTED in one direction; an eventfd is a COUNTER
 */
#ifndef TESTS_SIM_SOCKETS_H
#define TESTS_SIM_SOCKETS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/types.h>

enum { SOCKETS_FIRST = 512, SOCKETS_MOST = 512 };

struct process;

static inline bool sockets_has(int fd)
{
	return fd >= SOCKETS_FIRST && fd < SOCKETS_FIRST + SOCKETS_MOST;
}

/* ---- making; the process that runs owns them ---- */

int sockets_open(bool close_on_exec);
int sockets_pipe(int fds[2], bool close_on_exec);
int sockets_counter(uint64_t value, bool close_on_exec);
/* Another end that writes to the same pipe, or that listens at the same place. */
int sockets_dup(int fd);

/* ---- as in libc ---- */

/* The file is the kernel's: it is there, and other programs see it. */
int sockets_bind(int fd, const struct sockaddr *address, socklen_t len);
int sockets_listen(int fd);
int sockets_connect(int fd, const struct sockaddr *address);
int sockets_accept(int fd, bool close_on_exec);
ssize_t sockets_read(int fd, void *data, size_t size);
ssize_t sockets_write(int fd, const void *data, size_t len);
int sockets_end_writing(int fd);
/* SCM_RIGHTS: a copy of the kernel's descriptor goes to the other end, which takes it; -1: none. */
void sockets_pass(int fd, int descriptor);
int sockets_take_passed(int fd);
int sockets_get_option(int fd, int option, void *ret_value, socklen_t *len);
int sockets_control(int fd, int command, long argument);
int sockets_close(int fd);

/* ---- epoll; one may watch another ---- */

/* `events` is 0 for a descriptor that is not wanted any more. */
void sockets_watch(int epoll, int fd, uint32_t events, epoll_data_t data);
/* Of those that the process watches with it: so many have events. */
int sockets_ready(struct process *process, int epoll, struct epoll_event *events, int max);
/* As poll() reports it. */
short sockets_poll(int fd, short events);

/* ---- of a process ---- */

/* From now on called with the end that reads, after each write of a process. NULL ends that. */
void sockets_on_write(void (*on_write)(int reader_fd));

void sockets_close_all(const struct process *process, bool on_exec);

#endif
