#include "agent/core/upgrade.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "lib/base/close_files.h"
#include "lib/base/json_text.h"
#include "lib/base/memory_file.h"
#include "lib/base/text.h"
#include "lib/base/write_all.h"

static const char VARIABLE[] = "BERTH_UPGRADE";

enum {
	VERSION = 1,
	FIRST_ACTIVATION_FD = 3,
	DOCUMENT_MAX_BYTES = 64 * 1024 * 1024,
	NUMBER_MAX = 4194303, /* the greatest that Linux gives to a process; descriptors are less */
};

/* ---- descriptors ---- */

static int parse_int(const char *text)
{
	char *end;
	errno = 0;
	long value = strtol(text, &end, 10);
	return errno || end == text || *end || value < 0 || value > NUMBER_MAX ? -1 : (int)value;
}

static void set_close_on_exec(int fd, bool on)
{
	fcntl(fd, F_SETFD, on ? FD_CLOEXEC : 0);
}

/* Accepts a number of the document only when it names an open descriptor. */
static int take_descriptor(const json_t *number)
{
	int fd = json_is_integer(number) ? (int)json_integer_value(number) : -1;
	if (fd < 0 || fcntl(fd, F_GETFD) < 0) {
		return -1;
	}
	set_close_on_exec(fd, true);
	return fd;
}

/* ---- receiving ---- */

static json_t *read_document(int fd)
{
	off_t size = lseek(fd, 0, SEEK_END);
	if (size <= 0 || size > DOCUMENT_MAX_BYTES) {
		return NULL;
	}
	void *data = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, fd, 0);
	if (data == MAP_FAILED) {
		return NULL;
	}
	json_error_t error;
	json_t *document = json_loadb(data, (size_t)size, 0, &error);
	munmap(data, (size_t)size);
	if (json_integer_value(json_object_get(document, "version")) != VERSION) {
		json_decref(document);
		return NULL;
	}
	return document;
}

static void take_connections(struct upgrade *upgrade)
{
	const json_t *list = upgrade_get(upgrade, "connections");
	upgrade->connections = allocate_zeroed(
		json_array_size(list), sizeof(*upgrade->connections));
	size_t index;
	json_t *item;
	json_array_foreach ((json_t *)list, index, item) {
		struct http_kept *kept = &upgrade->connections[upgrade->connection_count];
		json_t *fd;
		json_int_t id;
		int local, pinned;
		const char *container = "";
		const char *listener = "";
		if (json_unpack(item, "{s:o, s:I, s:b, s:b, s?s, s?s}", "fd", &fd, "id", &id,
			    "local", &local, "pinned", &pinned, "container", &container, "listener",
			    &listener) == 0) {
			*kept = (struct http_kept){ .fd = take_descriptor(fd),
				.id = (uint64_t)id,
				.local = local != 0,
				.pinned = pinned != 0 };
			text_printf(kept->container, sizeof(kept->container), "%s", container);
			text_printf(kept->listener, sizeof(kept->listener), "%s", listener);
			/*
			 * The end of a pinned connection matters even when its descriptor is gone.
			 */
			upgrade->connection_count += kept->fd >= 0 || kept->pinned;
		}
	}
}

void upgrade_add_dns_socket(struct upgrade *upgrade, const char *address, bool tcp, int fd)
{
	upgrade->dns = allocate_grow(upgrade->dns, upgrade->dns_count, sizeof(*upgrade->dns));
	struct dns_socket *socket = &upgrade->dns[upgrade->dns_count++];
	*socket = (struct dns_socket){ .tcp = tcp, .fd = fd };
	text_printf(socket->address, sizeof(socket->address), "%s", address);
}

bool upgrade_has_dns_socket(const struct upgrade *upgrade, const char *address, bool tcp)
{
	for (size_t i = 0; i < upgrade->dns_count; i++) {
		const struct dns_socket *socket = &upgrade->dns[i];
		if (socket->tcp == tcp && strcmp(socket->address, address) == 0) {
			return true;
		}
	}
	return false;
}

static void take_dns_sockets(struct upgrade *upgrade)
{
	size_t index;
	json_t *item;
	json_array_foreach ((json_t *)(uintptr_t)upgrade_get(upgrade, "dns"), index, item) {
		const char *address;
		json_t *number;
		int tcp;
		if (json_unpack(item, "{s:s, s:b, s:o}", "address", &address, "tcp", &tcp, "fd",
			    &number) == 0) {
			int fd = take_descriptor(number);
			if (fd >= 0) {
				upgrade_add_dns_socket(upgrade, address, tcp != 0, fd);
			}
		}
	}
}

void upgrade_add_listen(struct upgrade *upgrade, const char *name, const char *address, int fd)
{
	upgrade->listens = allocate_grow(
		upgrade->listens, upgrade->listen_count, sizeof(*upgrade->listens));
	upgrade->listens[upgrade->listen_count++] =
		(struct http_listen){ .name = name, .address = address, .fd = fd };
}

int upgrade_listen_fd(const struct upgrade *upgrade, const char *name, const char *address)
{
	for (size_t i = 0; i < upgrade->listen_count; i++) {
		const struct http_listen *listen = &upgrade->listens[i];
		if (strcmp(listen->name, name) == 0 && strcmp(listen->address, address) == 0) {
			return listen->fd;
		}
	}
	return -1;
}

static void take_listens(struct upgrade *upgrade)
{
	size_t index;
	json_t *item;
	json_array_foreach ((json_t *)(uintptr_t)upgrade_get(upgrade, "listens"), index, item) {
		const char *name;
		const char *address;
		json_t *number;
		if (json_unpack(item, "{s:s, s:s, s:o}", "name", &name, "address", &address, "fd",
			    &number) == 0) {
			int fd = take_descriptor(number);
			if (fd >= 0) {
				upgrade_add_listen(upgrade, name, address, fd);
			}
		}
	}
}

static void take_bridge_sockets(struct upgrade *upgrade)
{
	size_t index;
	json_t *item;
	json_array_foreach ((json_t *)(uintptr_t)upgrade_get(upgrade, "bridge"), index, item) {
		const char *container;
		json_t *number;
		json_int_t device;
		json_int_t inode;
		int fd = json_unpack(item, "{s:s, s:o, s:I, s:I}", "container", &container, "fd",
				 &number, "device", &device, "inode", &inode) == 0
			? take_descriptor(number)
			: -1;
		if (fd < 0) {
			continue;
		}
		upgrade->bridge = allocate_grow(
			upgrade->bridge, upgrade->bridge_count, sizeof(*upgrade->bridge));
		struct bridge_socket *socket = &upgrade->bridge[upgrade->bridge_count++];
		*socket = (struct bridge_socket){ .fd = fd,
			.place = { .device = (uint64_t)device, .inode = (uint64_t)inode } };
		text_printf(socket->container, sizeof(socket->container), "%s", container);
	}
}

static void take_owners(struct upgrade *upgrade)
{
	size_t index;
	json_t *item;
	json_array_foreach ((json_t *)(uintptr_t)upgrade_get(upgrade, "owners"), index, item) {
		const char *container;
		const char *path;
		json_t *number;
		json_int_t inode;
		int fd = json_unpack(item, "{s:s, s:s, s:o, s:I}", "container", &container, "path",
				 &path, "fd", &number, "inode", &inode) == 0
			? take_descriptor(number)
			: -1;
		if (fd < 0) {
			continue;
		}
		upgrade->owners = allocate_grow(
			upgrade->owners, upgrade->owner_count, sizeof(*upgrade->owners));
		struct bridge_owner_file *file = &upgrade->owners[upgrade->owner_count++];
		*file = (struct bridge_owner_file){ .fd = fd, .inode = (uint64_t)inode };
		text_printf(file->container, sizeof(file->container), "%s", container);
		text_printf(file->path, sizeof(file->path), "%s", path);
	}
}

static void take_abandoned(struct upgrade *upgrade)
{
	size_t index;
	json_t *item;
	json_array_foreach ((json_t *)(uintptr_t)upgrade_get(upgrade, "lookers"), index, item) {
		const char *container;
		json_t *number;
		json_int_t pid;
		json_int_t stalled_ms;
		int fd = json_unpack(item, "{s:s, s:o, s:I, s:I}", "container", &container, "fd",
				 &number, "pid", &pid, "stalled_ms", &stalled_ms) == 0
			? take_descriptor(number)
			: -1;
		if (fd < 0) {
			continue;
		}
		upgrade->abandoned = allocate_grow(
			upgrade->abandoned, upgrade->abandoned_count, sizeof(*upgrade->abandoned));
		struct bridge_abandoned *looker = &upgrade->abandoned[upgrade->abandoned_count++];
		*looker = (struct bridge_abandoned){
			.fd = fd, .pid = (pid_t)pid, .stalled_ms = stalled_ms
		};
		text_printf(looker->container, sizeof(looker->container), "%s", container);
	}
}

static void receive_from_predecessor(struct upgrade *upgrade, const char *variable)
{
	int fd = parse_int(variable);
	upgrade->document = fd >= 0 ? read_document(fd) : NULL;
	if (!upgrade->document) {
		log_error("upgrade", "the predecessor's document cannot be read: starting afresh");
		/* Unknown sockets and locks would block our own. */
		close_files(STDERR_FILENO + 1, INT_MAX);
		return;
	}
	close(fd);
	upgrade->socket_fd = take_descriptor(upgrade_get(upgrade, "socket_fd"));
	upgrade->listen_fd = take_descriptor(upgrade_get(upgrade, "listen_fd"));
	upgrade->lock_fd = take_descriptor(upgrade_get(upgrade, "lock_fd"));
	upgrade->xds_fd = take_descriptor(upgrade_get(upgrade, "xds_fd"));
	upgrade->keep_socket = json_is_true(upgrade_get(upgrade, "keep_socket"));
	const json_t *place = upgrade_get(upgrade, "socket_place");
	upgrade->socket_place = (struct http_place){
		.device = (uint64_t)json_integer_value(json_array_get(place, 0)),
		.inode = (uint64_t)json_integer_value(json_array_get(place, 1)),
	};
	upgrade->main_pid = (pid_t)json_integer_value(upgrade_get(upgrade, "main_pid"));
	take_connections(upgrade);
	take_dns_sockets(upgrade);
	take_bridge_sockets(upgrade);
	take_owners(upgrade);
	take_abandoned(upgrade);
	take_listens(upgrade);
}

/* The agent serves one socket of a kind; it closes any other. */
static void take_activated(int *ret_fd, int fd)
{
	if (*ret_fd >= 0) {
		log_warn("upgrade",
			"closing descriptor %d of the service manager: one "
			"socket of a kind is served",
			fd);
		close(fd);
		return;
	}
	*ret_fd = fd;
}

/* A socket of the service manager that is for names: UDP, or named so (FileDescriptorName=dns). */
static bool take_activated_dns(struct upgrade *upgrade, int fd, const char *name)
{
	struct sockaddr_storage address = { .ss_family = AF_UNSPEC };
	socklen_t len = sizeof(address);
	char host[INET6_ADDRSTRLEN];
	char port[8];
	char text[sizeof(host) + sizeof(port) + 4];
	int type;
	socklen_t type_len = sizeof(type);
	if (getsockname(fd, (struct sockaddr *)&address, &len) < 0 ||
		getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_len) < 0 ||
		(type != SOCK_DGRAM && strcmp(name, "dns") != 0) ||
		getnameinfo((struct sockaddr *)&address, len, host, sizeof(host), port,
			sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
		return false;
	}
	text_printf(text, sizeof(text), address.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host,
		port);
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	upgrade_add_dns_socket(upgrade, text, type == SOCK_STREAM, fd);
	return true;
}

/* The next of names that colons separate; "" behind the last. */
static const char *next_name(char **rest)
{
	const char *name = strsep(rest, ":");
	return name ? name : "";
}

/*
 * Sorts the service manager's sockets: a Unix socket is `socket`, a socket for names goes to the
 * DNS server, another one is `listen`.
 */
static void receive_activation(struct upgrade *upgrade)
{
	const char *count = getenv("LISTEN_FDS");
	const char *pid = getenv("LISTEN_PID");
	if (!count || !pid || parse_int(pid) != (int)getpid()) {
		return;
	}
	const char *names = getenv("LISTEN_FDNAMES");
	char *copy = allocate_text(names ? names : "");
	char *rest = copy;
	for (int fd = FIRST_ACTIVATION_FD; fd < FIRST_ACTIVATION_FD + parse_int(count); fd++) {
		struct sockaddr address = { .sa_family = AF_UNSPEC };
		socklen_t len = sizeof(address);
		const char *name = next_name(&rest);
		if (getsockname(fd, &address, &len)) {
			continue;
		}
		set_close_on_exec(fd, true);
		bool local = address.sa_family == AF_UNIX;
		if (!local && take_activated_dns(upgrade, fd, name)) {
			continue;
		}
		upgrade->keep_socket = upgrade->keep_socket || local;
		take_activated(local ? &upgrade->socket_fd : &upgrade->listen_fd, fd);
	}
	free(copy);
}

void upgrade_receive(struct upgrade *upgrade)
{
	*upgrade =
		(struct upgrade){ .socket_fd = -1, .listen_fd = -1, .lock_fd = -1, .xds_fd = -1 };
	const char *variable = getenv(VARIABLE);
	if (variable) {
		receive_from_predecessor(upgrade, variable);
	} else {
		receive_activation(upgrade);
	}
	unsetenv(VARIABLE);
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDNAMES");
}

void upgrade_finish(struct upgrade *upgrade)
{
	json_decref(upgrade->document);
	free(upgrade->connections);
	free(upgrade->dns);
	free(upgrade->bridge);
	free(upgrade->owners);
	free(upgrade->abandoned);
	free(upgrade->listens);
	upgrade->listens = NULL;
	upgrade->listen_count = 0;
	upgrade->bridge = NULL;
	upgrade->bridge_count = 0;
	upgrade->owners = NULL;
	upgrade->owner_count = 0;
	upgrade->abandoned = NULL;
	upgrade->abandoned_count = 0;
	upgrade->dns = NULL;
	upgrade->dns_count = 0;
	upgrade->document = NULL;
	upgrade->connections = NULL;
	upgrade->connection_count = 0;
}

const json_t *upgrade_get(const struct upgrade *upgrade, const char *name)
{
	return json_object_get(upgrade->document, name);
}

const char *upgrade_text(const struct upgrade *upgrade, const char *name)
{
	const char *text = json_string_value(upgrade_get(upgrade, name));
	return text ? text : "";
}

/* ---- passing on ---- */

static void pass_descriptor(json_t *document, const char *name, int fd)
{
	if (fd >= 0) {
		set_close_on_exec(fd, false);
		json_object_set_new(document, name, json_integer(fd));
	}
}

static void pass_connections(const struct upgrade *upgrade)
{
	json_t *list = json_array();
	for (size_t i = 0; i < upgrade->connection_count; i++) {
		const struct http_kept *kept = &upgrade->connections[i];
		set_close_on_exec(kept->fd, false);
		json_array_append_new(list,
			json_pack("{s:i, s:I, s:b, s:b, s:s, s:s}", "fd", kept->fd, "id",
				(json_int_t)kept->id, "local", kept->local, "pinned", kept->pinned,
				"container", kept->container, "listener", kept->listener));
	}
	json_object_set_new(upgrade->document, "connections", list);
}

static void pass_dns_sockets(const struct upgrade *upgrade)
{
	json_t *list = json_array();
	for (size_t i = 0; i < upgrade->dns_count; i++) {
		const struct dns_socket *socket = &upgrade->dns[i];
		set_close_on_exec(socket->fd, false);
		json_array_append_new(list,
			json_pack("{s:s, s:b, s:i}", "address", socket->address, "tcp", socket->tcp,
				"fd", socket->fd));
	}
	json_object_set_new(upgrade->document, "dns", list);
}

static void pass_listens(const struct upgrade *upgrade)
{
	json_t *list = json_array();
	for (size_t i = 0; i < upgrade->listen_count; i++) {
		const struct http_listen *listen = &upgrade->listens[i];
		set_close_on_exec(listen->fd, false);
		json_array_append_new(list,
			json_pack("{s:s, s:s, s:i}", "name", listen->name, "address",
				listen->address, "fd", listen->fd));
	}
	json_object_set_new(upgrade->document, "listens", list);
}

static void pass_bridge_sockets(const struct upgrade *upgrade)
{
	json_t *list = json_array();
	for (size_t i = 0; i < upgrade->bridge_count; i++) {
		const struct bridge_socket *socket = &upgrade->bridge[i];
		set_close_on_exec(socket->fd, false);
		json_array_append_new(list,
			json_pack("{s:s, s:i, s:I, s:I}", "container", socket->container, "fd",
				socket->fd, "device", (json_int_t)socket->place.device, "inode",
				(json_int_t)socket->place.inode));
	}
	json_object_set_new(upgrade->document, "bridge", list);
}

static void pass_owners(const struct upgrade *upgrade)
{
	json_t *list = json_array();
	for (size_t i = 0; i < upgrade->owner_count; i++) {
		const struct bridge_owner_file *file = &upgrade->owners[i];
		set_close_on_exec(file->fd, false);
		json_array_append_new(list,
			json_pack("{s:s, s:s, s:i, s:I}", "container", file->container, "path",
				file->path, "fd", file->fd, "inode", (json_int_t)file->inode));
	}
	json_object_set_new(upgrade->document, "owners", list);
}

static void pass_abandoned(const struct upgrade *upgrade)
{
	json_t *list = json_array();
	for (size_t i = 0; i < upgrade->abandoned_count; i++) {
		const struct bridge_abandoned *looker = &upgrade->abandoned[i];
		set_close_on_exec(looker->fd, false);
		json_array_append_new(list,
			json_pack("{s:s, s:i, s:I, s:I}", "container", looker->container, "fd",
				looker->fd, "pid", (json_int_t)looker->pid, "stalled_ms",
				(json_int_t)looker->stalled_ms));
	}
	json_object_set_new(upgrade->document, "lookers", list);
}

static int write_document(const json_t *document, struct err *err)
{
	int fd = memory_file("berth-upgrade");
	if (fd < 0 || fcntl(fd, F_SETFD, 0) != 0) {
		return err_set_errno(
			err, BERTH_FAILED, errno, "cannot make the file for the successor");
	}
	/* json_dumpfd() does not notice every write that fails. */
	char *text = allocated(json_text(document, JSON_COMPACT));
	if (write_all(fd, text, strlen(text))) {
		err_set_errno(err, BERTH_FAILED, errno, "cannot write the file for the successor");
		close(fd);
		fd = err->code;
	}
	free(text);
	return fd;
}

int upgrade_exec(const struct upgrade *upgrade, const char *binary, char **argv, struct err *err)
{
	json_t *document = upgrade->document;
	json_object_set_new(document, "version", json_integer(VERSION));
	pass_descriptor(document, "socket_fd", upgrade->socket_fd);
	pass_descriptor(document, "listen_fd", upgrade->listen_fd);
	pass_descriptor(document, "xds_fd", upgrade->xds_fd);
	pass_descriptor(document, "lock_fd", upgrade->lock_fd);
	json_object_set_new(document, "keep_socket", json_boolean(upgrade->keep_socket));
	json_object_set_new(document, "socket_place",
		json_pack("[I, I]", (json_int_t)upgrade->socket_place.device,
			(json_int_t)upgrade->socket_place.inode));
	json_object_set_new(document, "main_pid", json_integer(upgrade->main_pid));
	pass_connections(upgrade);
	pass_dns_sockets(upgrade);
	pass_bridge_sockets(upgrade);
	pass_owners(upgrade);
	pass_abandoned(upgrade);
	pass_listens(upgrade);
	int fd = write_document(document, err);
	if (fd < 0) {
		return fd;
	}
	char number[16];
	snprintf(number, sizeof(number), "%d", fd);
	setenv(VARIABLE, number, 1);
	execv(binary, argv);
	err_set_errno(err, BERTH_FAILED, errno, "cannot execute %s", binary);
	unsetenv(VARIABLE);
	close(fd);
	return err->code;
}
