#include "tests/sim/sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/base/list.h"
#include "tests/sim/process.h"

enum { ROOM = 212992, MOST_WAITING = 16 };

enum kind { FREE, FRESH, LISTENING, CONNECTED, COUNTER };

/* The part that a listening socket shares with its copies. */
struct listener {
	size_t copies;
	dev_t device;
	ino_t inode;
	int waiting[MOST_WAITING]; /* for accept */
	size_t waiting_count;
};

struct socket {
	enum kind kind;
	bool close_on_exec;
	bool reset; /* the other end was closed, and had not read everything */
	struct process *owner;
	int peer;    /* reads what is written here; -1: none */
	int writers; /* ends that write to this one */
	int passed;  /* a descriptor of the kernel's that came here; -1: none */
	char *data;  /* ROOM bytes, kept for the next one with this number */
	size_t begin;
	size_t len;
	uint64_t counter;
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* empty: not bound */
	struct listener *listener;                              /* while LISTENING */
	int epoll;                                              /* that watches it */
	uint32_t events;                                        /* that it watches */
	struct list watched; /* of its owner, while there are such */
	epoll_data_t epoll_data;
};

static struct socket sockets[SOCKETS_MOST];
static int used; /* none behind is used */
static void (*on_write)(int reader_fd);

static struct socket *at(int fd)
{
	return &sockets[fd - SOCKETS_FIRST];
}

static int fail(int error)
{
	errno = error;
	return -1;
}

/* ---- making ---- */

static void set_owner(struct socket *socket, struct process *owner)
{
	process_count_descriptor(socket->owner, -1);
	process_count_descriptor(owner, 1);
	socket->owner = owner;
}

static int make(enum kind kind, bool close_on_exec)
{
	int place = 0;
	while (place < used && sockets[place].kind != FREE) {
		place++;
	}
	if (place == SOCKETS_MOST) {
		return fail(EMFILE);
	}
	used = place < used ? used : place + 1;
	struct socket *socket = &sockets[place];
	char *data = socket->data;
	*socket = (struct socket){
		.kind = kind, .close_on_exec = close_on_exec, .peer = -1, .passed = -1, .data = data
	};
	set_owner(socket, process_current());
	return SOCKETS_FIRST + place;
}

/* Bytes written to `from` are read from `to`. */
static void join(int from, int to)
{
	at(from)->kind = CONNECTED;
	at(from)->peer = to;
	at(to)->kind = CONNECTED;
	at(to)->writers++;
	if (!at(to)->data) {
		at(to)->data = malloc(ROOM);
	}
}

int sockets_open(bool close_on_exec)
{
	return make(FRESH, close_on_exec);
}

int sockets_pipe(int fds[2], bool close_on_exec)
{
	int to = make(FRESH, close_on_exec);
	int from = to < 0 ? -1 : make(FRESH, close_on_exec);
	if (from < 0) {
		if (to >= 0) {
			sockets_close(to);
		}
		return fail(EMFILE);
	}
	join(from, to);
	fds[0] = to;
	fds[1] = from;
	return 0;
}

int sockets_counter(uint64_t value, bool close_on_exec)
{
	int fd = make(COUNTER, close_on_exec);
	if (fd >= 0) {
		at(fd)->counter = value;
	}
	return fd;
}

int sockets_dup(int fd)
{
	int copy = make(FRESH, true);
	if (copy >= 0 && at(fd)->peer >= 0) {
		join(copy, at(fd)->peer);
	} else if (copy >= 0 && at(fd)->kind == LISTENING) {
		at(copy)->kind = LISTENING;
		at(copy)->listener = at(fd)->listener;
		at(copy)->listener->copies++;
	}
	return copy;
}

/* ---- connections ---- */

int sockets_bind(int fd, const struct sockaddr *address, socklen_t len)
{
	int file = (int)syscall(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int code = (int)syscall(SYS_bind, file, address, len);
	int error = errno;
	syscall(SYS_close, file);
	if (code == 0) {
		memcpy(at(fd)->path, ((const struct sockaddr_un *)address)->sun_path,
			sizeof(at(fd)->path));
	}
	return code ? fail(error) : 0;
}

int sockets_listen(int fd)
{
	struct stat file;
	struct socket *socket = at(fd);
	if (stat(socket->path, &file) != 0) {
		return fail(errno);
	}
	struct process *process = process_pause();
	socket->listener = calloc(1, sizeof(*socket->listener));
	process_resume(process);
	socket->kind = LISTENING;
	socket->listener->copies = 1;
	socket->listener->device = file.st_dev;
	socket->listener->inode = file.st_ino;
	return 0;
}

/* Several paths may lead to its file. */
static struct socket *find_listener(const struct stat *file)
{
	for (int i = 0; i < used; i++) {
		if (sockets[i].kind == LISTENING && sockets[i].listener->device == file->st_dev &&
			sockets[i].listener->inode == file->st_ino) {
			return &sockets[i];
		}
	}
	return NULL;
}

/* Bytes, or the end of them, come from another process. */
static void wake_other(const struct socket *from, const struct socket *to)
{
	if (from->owner && to->owner && from->owner != to->owner) {
		process_wake(to->owner);
	}
}

int sockets_connect(int fd, const struct sockaddr *address)
{
	const char *path = ((const struct sockaddr_un *)address)->sun_path;
	struct stat file;
	if (stat(path, &file) != 0) {
		return -1;
	}
	const struct socket *socket = find_listener(&file);
	if (!socket) {
		return fail(ECONNREFUSED);
	}
	struct listener *listener = socket->listener;
	int end = listener->waiting_count < MOST_WAITING ? make(FRESH, false) : -1;
	if (end < 0) {
		return fail(EAGAIN);
	}
	join(fd, end);
	join(end, fd);
	set_owner(at(end), socket->owner);
	listener->waiting[listener->waiting_count++] = end;
	wake_other(at(fd), socket);
	return 0;
}

int sockets_accept(int fd, bool close_on_exec)
{
	struct listener *listener = at(fd)->listener;
	if (!listener || listener->waiting_count == 0) {
		return fail(EAGAIN);
	}
	int end = listener->waiting[0];
	memmove(listener->waiting, listener->waiting + 1,
		--listener->waiting_count * sizeof(listener->waiting[0]));
	set_owner(at(end), process_current());
	at(end)->close_on_exec = close_on_exec;
	return end;
}

/* ---- bytes ---- */

static ssize_t read_counter(struct socket *socket, void *data, size_t size)
{
	if (socket->counter == 0 || size < sizeof(socket->counter)) {
		return fail(socket->counter ? EINVAL : EAGAIN);
	}
	memcpy(data, &socket->counter, sizeof(socket->counter));
	socket->counter = 0;
	return sizeof(socket->counter);
}

ssize_t sockets_read(int fd, void *data, size_t size)
{
	struct socket *socket = at(fd);
	if (socket->kind != CONNECTED) {
		return socket->kind == COUNTER ? read_counter(socket, data, size) : fail(EBADF);
	}
	if (socket->len == 0 && socket->reset) {
		socket->reset = false;
		return fail(ECONNRESET);
	}
	if (socket->len == 0) {
		return socket->writers == 0 ? 0 : fail(EAGAIN);
	}
	size_t len = size < socket->len ? size : socket->len;
	memcpy(data, socket->data + socket->begin, len);
	socket->len -= len;
	socket->begin = socket->len ? socket->begin + len : 0;
	return (ssize_t)len;
}

static void report_write(int reader_fd)
{
	struct process *process = process_current();
	if (process && on_write) {
		process_pause();
		on_write(reader_fd);
		process_resume(process);
	}
}

void sockets_on_write(void (*callback)(int reader_fd))
{
	on_write = callback;
}

ssize_t sockets_write(int fd, const void *data, size_t len)
{
	struct socket *socket = at(fd);
	if (socket->kind == COUNTER) {
		uint64_t more = 0;
		memcpy(&more, data, sizeof(more));
		socket->counter += more;
		return sizeof(more);
	}
	if (socket->kind != CONNECTED || socket->peer < 0) {
		return fail(socket->kind == CONNECTED ? EPIPE : ENOTCONN);
	}
	struct socket *peer = at(socket->peer);
	size_t taken = len < ROOM - peer->len ? len : ROOM - peer->len;
	if (taken == 0 && len > 0) {
		return fail(EAGAIN);
	}
	if (peer->begin + peer->len + taken > ROOM) {
		memmove(peer->data, peer->data + peer->begin, peer->len);
		peer->begin = 0;
	}
	memcpy(peer->data + peer->begin + peer->len, data, taken);
	peer->len += taken;
	wake_other(socket, peer);
	report_write(socket->peer);
	return (ssize_t)taken;
}

void sockets_pass(int fd, int descriptor)
{
	int peer = at(fd)->peer;
	if (peer >= 0 && at(peer)->passed < 0) {
		at(peer)->passed = (int)syscall(SYS_fcntl, descriptor, F_DUPFD_CLOEXEC, 0);
	}
}

int sockets_take_passed(int fd)
{
	int descriptor = at(fd)->passed;
	at(fd)->passed = -1;
	return descriptor;
}

int sockets_end_writing(int fd)
{
	struct socket *socket = at(fd);
	if (socket->peer >= 0) {
		at(socket->peer)->writers--;
		wake_other(socket, at(socket->peer));
		socket->peer = -1;
	}
	return 0;
}

/* ---- the end ---- */

/* Those who write to it get an error from now on. */
static void leave_writers(int fd)
{
	for (int i = 0; i < used && at(fd)->writers > 0; i++) {
		if (sockets[i].kind == CONNECTED && sockets[i].peer == fd) {
			sockets[i].peer = -1;
			sockets[i].reset = at(fd)->len > 0;
			wake_other(at(fd), &sockets[i]);
			at(fd)->writers--;
		}
	}
}

/* With its last copy those go who wait. */
static void leave_listener(struct socket *socket)
{
	struct listener *listener = socket->listener;
	socket->listener = NULL;
	if (--listener->copies == 0) {
		for (size_t i = 0; i < listener->waiting_count; i++) {
			sockets_close(listener->waiting[i]);
		}
		struct process *process = process_pause();
		free(listener);
		process_resume(process);
	}
}

int sockets_close(int fd)
{
	struct socket *socket = at(fd);
	if (socket->kind == FREE) {
		return fail(EBADF);
	}
	if (socket->listener) {
		leave_listener(socket);
	}
	sockets_end_writing(fd);
	leave_writers(fd);
	if (socket->passed >= 0) {
		syscall(SYS_close, socket->passed);
	}
	sockets_watch(-1, fd, 0, (epoll_data_t){ 0 });
	set_owner(socket, NULL);
	socket->kind = FREE;
	while (used > 0 && sockets[used - 1].kind == FREE) {
		used--;
	}
	return 0;
}

/* ---- what they are like ---- */

int sockets_get_option(int fd, int option, void *ret_value, socklen_t *len)
{
	int value = 0;
	if (option == SO_PEERCRED) {
		static struct ucred peer; /* this program itself */
		if (!peer.pid) {
			peer = (struct ucred){ (pid_t)syscall(SYS_getpid), getuid(), getgid() };
		}
		memcpy(ret_value, &peer, sizeof(peer));
		return 0;
	}
	if (option == SO_PEERGROUPS) {
		*len = 0;
		return 0;
	}
	if (option == SO_ACCEPTCONN) {
		value = at(fd)->kind == LISTENING;
	} else if (option == SO_TYPE) {
		value = SOCK_STREAM;
	} else if (option != SO_ERROR) {
		return fail(ENOPROTOOPT);
	}
	memcpy(ret_value, &value, sizeof(value));
	return 0;
}

int sockets_control(int fd, int command, long argument)
{
	struct socket *socket = at(fd);
	if (socket->kind == FREE) {
		return fail(EBADF);
	}
	switch (command) {
	case F_GETFD:
		return socket->close_on_exec ? FD_CLOEXEC : 0;
	case F_SETFD:
		socket->close_on_exec = (argument & FD_CLOEXEC) != 0;
		return 0;
	case F_GETFL:
		return O_RDWR | O_NONBLOCK;
	case F_SETFL:
		return 0;
	case F_DUPFD_CLOEXEC:
		return sockets_dup(fd);
	default:
		return fail(EINVAL);
	}
}

static uint32_t events_of(const struct socket *socket)
{
	uint32_t events = 0;
	if (socket->kind == LISTENING || socket->kind == COUNTER) {
		bool waits = socket->listener && socket->listener->waiting_count > 0;
		return waits || socket->counter > 0 ? EPOLLIN : 0;
	}
	bool ended = socket->writers == 0;
	if (socket->len > 0 || ended || socket->reset) {
		events |= EPOLLIN;
	}
	if (socket->peer < 0 || at(socket->peer)->len < ROOM) {
		events |= EPOLLOUT;
	}
	if (ended) {
		events |= EPOLLRDHUP;
	}
	if (ended && socket->peer < 0) {
		events |= EPOLLHUP;
	}
	return events;
}

void sockets_watch(int epoll, int fd, uint32_t events, epoll_data_t data)
{
	struct socket *socket = at(fd);
	if (events && !socket->events) {
		list_append(process_watched(socket->owner), &socket->watched);
	} else if (!events && socket->events) {
		list_remove(&socket->watched);
	}
	socket->epoll = epoll;
	socket->events = events;
	socket->epoll_data = data;
}

/* An epoll that the other one watches: an event of it, unless there is one already. */
static int add_inner(struct epoll_event *events, int count, int inner, int outer)
{
	epoll_data_t data;
	if (!files_is_watched(inner, outer, &data)) {
		return count;
	}
	for (int i = 0; i < count; i++) {
		if (events[i].data.u64 == data.u64) {
			return count;
		}
	}
	events[count] = (struct epoll_event){ EPOLLIN, data };
	return count + 1;
}

int sockets_ready(struct process *process, int epoll, struct epoll_event *events, int max)
{
	int count = 0;
	const struct list *watched = process_watched(process);
	for (const struct list *next = watched->next; next != watched && count < max;
		next = next->next) {
		const struct socket *socket = LIST_ITEM(next, struct socket, watched);
		uint32_t ready = events_of(socket) & (socket->events | EPOLLHUP | EPOLLERR);
		if (ready && socket->epoll == epoll) {
			events[count++] = (struct epoll_event){ ready, socket->epoll_data };
		} else if (ready) {
			count = add_inner(events, count, socket->epoll, epoll);
		}
	}
	return count;
}

/* The bits of poll() are those of epoll. */
short sockets_poll(int fd, short events)
{
	return (short)(events_of(at(fd)) & ((uint32_t)(unsigned short)events | POLLHUP | POLLERR));
}

/* ---- of a process ---- */

/* A descriptor that stays open after exec is not watched any more. */
void sockets_close_all(const struct process *process, bool on_exec)
{
	for (int i = 0; i < used; i++) {
		struct socket *socket = &sockets[i];
		if (socket->kind == FREE || socket->owner != process) {
			continue;
		}
		if (!on_exec || socket->close_on_exec) {
			sockets_close(SOCKETS_FIRST + i);
		} else {
			sockets_watch(-1, SOCKETS_FIRST + i, 0, (epoll_data_t){ 0 });
		}
	}
}
