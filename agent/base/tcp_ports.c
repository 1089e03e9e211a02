#include "agent/base/tcp_ports.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK_BYTES = 64 * 1024, MAX_BYTES = 4 * 1024 * 1024 };

/* The states of include/net/tcp_states.h in which a peer can still send or receive. */
enum { ESTABLISHED = 1, SYN_RECV = 3, CLOSE_WAIT = 8, LISTEN = 10 };

static void add_port(uint8_t *set, unsigned port)
{
	set[port / 8] |= (uint8_t)(1U << (port % 8));
}

/* "  12: 0100007F:1F90 00000000:0000 0A …": number, local address, remote address, state. */
static void add_line(struct tcp_ports *ports, const char *line)
{
	unsigned port;
	unsigned state;
	if (sscanf(line, " %*u: %*32[0-9A-Fa-f]:%4x %*32[0-9A-Fa-f]:%*4x %2x", &port, &state) !=
			2 ||
		port > UINT16_MAX) { /* %x takes a sign */
		return;
	}
	if (state == LISTEN) {
		add_port(ports->listening, port);
	} else if (state == ESTABLISHED || state == SYN_RECV || state == CLOSE_WAIT) {
		add_port(ports->connected, port);
	}
}

void tcp_ports_add_text(struct tcp_ports *ports, const char *text)
{
	while (*text) {
		add_line(ports, text);
		const char *end = strchr(text, '\n');
		text = end ? end + 1 : text + strlen(text);
	}
}

/* Moves what follows the last newline to the front; returns its length. */
static size_t add_whole_lines(struct tcp_ports *ports, char *text, size_t len)
{
	char *end = memrchr(text, '\n', len);
	if (!end) {
		return len;
	}
	*end = '\0';
	tcp_ports_add_text(ports, text);
	size_t left = len - (size_t)(end + 1 - text);
	memmove(text, end + 1, left);
	return left;
}

static int read_all(struct tcp_ports *ports, int fd, const char *file, struct err *err)
{
	static char text[CHUNK_BYTES];
	size_t len = 0;
	size_t total = 0;
	ssize_t n;
	while ((n = read(fd, text + len, CHUNK_BYTES - len)) > 0) {
		total += (size_t)n;
		if (total > MAX_BYTES) {
			return err_set(
				err, BERTH_LIMIT_EXCEEDED, "%s lists too many sockets", file);
		}
		len = add_whole_lines(ports, text, len + (size_t)n);
		len = len < CHUNK_BYTES ? len : 0; /* no line is that long */
	}
	return n < 0 ? err_set_errno(err, BERTH_FAILED, errno, "%s", file) : 0;
}

static int read_file(struct tcp_ports *ports, const char *directory, const char *name,
	bool required, struct err *err)
{
	char file[256];
	snprintf(file, sizeof(file), "%s/%s", directory, name);
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		return errno == ENOENT && !required
			? 0
			: err_set_errno(err, BERTH_FAILED, errno, "%s", file);
	}
	int code = read_all(ports, fd, file, err);
	close(fd);
	return code;
}

int tcp_ports_read(struct tcp_ports *ret, const char *directory, struct err *err)
{
	static struct tcp_ports found;
	found = (struct tcp_ports){ { 0 }, { 0 } };
	int code = read_file(&found, directory, "tcp", true, err);
	if (code == 0) {
		code = read_file(&found, directory, "tcp6", false, err);
	}
	if (code == 0) {
		*ret = found;
	}
	return code;
}
