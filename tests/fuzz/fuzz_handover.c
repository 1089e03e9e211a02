/*
 * The document that an agent hands to its successor. No document crashes it; what is taken from it
 * are open descriptors that close on exec, and texts that fit.
 */
#include <assert.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/upgrade.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* The descriptors that a document can name: 0 to 9 are there, as an agent's sockets would be. */
enum { DESCRIPTORS = 10 };

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
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char number[16];
	open_descriptors();
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
	return 0;
}
