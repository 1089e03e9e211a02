/*
 * The document that an agent gets from its predecessor, or from the service manager. No document
 * crashes the agent, which takes from it only open descriptors that close on exec, and texts that
 * fit.
 * An input that begins with "=" is the variable that names the document; an input that begins with
 * "@" is what a service manager sets: lines with the process (empty: this one), the number of
 * sockets and their names.
 */
#include <assert.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/core/upgrade.h"
#include "lib/base/array.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* The descriptors that a document can name: 0 to 9 are there, as an agent's sockets would be. */
enum { FIRST = 3, DESCRIPTORS = 10 };

/*
 * The agent writes a line about each document that it refuses, and closes all from 3 on: standard
 * error waits as descriptor 0.
 */
static void receive(struct upgrade *upgrade)
{
	int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
	dup2(STDERR_FILENO, STDIN_FILENO);
	dup2(nowhere, STDERR_FILENO);
	close(nowhere);
	upgrade_receive(upgrade);
	dup2(STDIN_FILENO, STDERR_FILENO);
}

static void open_descriptors(void)
{
	for (int fd = 0; fd < DESCRIPTORS; fd++) {
		if (fcntl(fd, F_GETFD) < 0) {
			int file = open("/dev/null", O_RDWR);
			assert(file >= 0 && (file == fd || dup2(file, fd) == fd));
			if (file != fd) {
				close(file);
			}
		}
	}
}

static void check_descriptor(int fd)
{
	/* Standard error has been put back since. */
	assert(fd == -1 || fd == STDERR_FILENO || (fcntl(fd, F_GETFD) & FD_CLOEXEC));
}

static void check(const struct upgrade *upgrade)
{
	const json_t *connections = upgrade_get(upgrade, "connections");
	const json_t *dns = upgrade_get(upgrade, "dns");
	check_descriptor(upgrade->socket_fd);
	check_descriptor(upgrade->listen_fd);
	check_descriptor(upgrade->lock_fd);
	assert(upgrade->connection_count <= json_array_size(connections));
	for (size_t i = 0; i < upgrade->connection_count; i++) {
		check_descriptor(upgrade->connections[i].fd);
		assert(upgrade->connections[i].fd >= 0 || upgrade->connections[i].pinned);
	}
	assert(upgrade->dns_count <= json_array_size(dns));
	for (size_t i = 0; i < upgrade->dns_count; i++) {
		const struct dns_socket *socket = &upgrade->dns[i];
		check_descriptor(socket->fd);
		assert(socket->fd >= 0 && strlen(socket->address) < sizeof(socket->address));
		assert(upgrade_has_dns_socket(upgrade, socket->address, socket->tcp));
	}
	assert(upgrade_text(upgrade, "binary") && upgrade_text(upgrade, "no such member"));
	(void)upgrade_has_dns_socket(upgrade, "127.0.0.1:53", true);
}

static void receive_document(const uint8_t *data, size_t len)
{
	char number[16];
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	assert(fd >= 0 && write(fd, data, len) == (ssize_t)len);
	snprintf(number, sizeof(number), "%d", fd);
	setenv("BERTH_UPGRADE", number, 1);
	struct upgrade upgrade;
	receive(&upgrade);
	assert(!getenv("BERTH_UPGRADE"));
	if (upgrade.document) {
		check(&upgrade);
	} else {
		assert(upgrade.socket_fd == -1 && upgrade.connection_count == 0);
		assert(fcntl(fd, F_GETFD) < 0);
	}
	upgrade_finish(&upgrade);
}

static void receive_variable(const char *text)
{
	struct upgrade upgrade;
	setenv("BERTH_UPGRADE", text, 1);
	receive(&upgrade);
	assert(!upgrade.document && upgrade.socket_fd == -1);
	upgrade_finish(&upgrade);
}

/* From 3 on, as a service manager has them; 9 is not a socket. */
static void open_sockets(void)
{
	static const struct {
		int family;
		int type;
	} sockets[] = { { AF_UNIX, SOCK_STREAM }, { AF_INET, SOCK_DGRAM }, { AF_INET6, SOCK_DGRAM },
		{ AF_INET, SOCK_STREAM }, { AF_INET6, SOCK_STREAM }, { AF_UNIX, SOCK_STREAM } };
	for (int i = 0; i < (int)(ARRAY_LEN(sockets)); i++) {
		int fd = socket(sockets[i].family, sockets[i].type, 0);
		if (fd >= 0) { /* there may be no IPv6 */
			dup2(fd, FIRST + i);
			close(fd);
		}
	}
}

static void close_sockets(void)
{
	for (int fd = FIRST; fd < DESCRIPTORS; fd++) {
		close(fd);
	}
}

static void activate(char *text)
{
	static const char *const variables[] = { "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES" };
	char own[16];
	snprintf(own, sizeof(own), "%d", (int)getpid());
	for (size_t i = 0; i < 3; i++) {
		const char *line = strsep(&text, "\n");
		if (line) {
			setenv(variables[i], i == 0 && !*line ? own : line, 1);
		}
	}
	/* The agent does the same with thousands of descriptors as with ten. */
	const char *count = getenv("LISTEN_FDS");
	if (count && strtol(count, NULL, 10) > DESCRIPTORS - FIRST) {
		setenv("LISTEN_FDS", "7", 1);
	}
	open_sockets();
	struct upgrade upgrade;
	receive(&upgrade);
	check_descriptor(upgrade.socket_fd);
	check_descriptor(upgrade.listen_fd);
	for (size_t i = 0; i < upgrade.dns_count; i++) {
		check_descriptor(upgrade.dns[i].fd);
		assert(strchr(upgrade.dns[i].address, ':'));
	}
	assert(!getenv("LISTEN_PID") && !getenv("LISTEN_FDS") && !getenv("LISTEN_FDNAMES"));
	upgrade_finish(&upgrade);
	close_sockets();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	open_descriptors();
	if (len == 0 || (data[0] != '=' && data[0] != '@')) {
		receive_document(data, len);
		return 0;
	}
	char *text = strndup((const char *)data + 1, len - 1);
	assert(text);
	if (data[0] == '=' && strspn(text, " \t\n0123456789+") != strlen(text)) {
		receive_variable(text); /* a number would be that of any descriptor */
	} else if (data[0] == '@') {
		activate(text);
	}
	free(text);
	return 0;
}
