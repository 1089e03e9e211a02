#include "agent/check/output.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* As much as a pipe holds: one read empties it, and a command that prints for ever gets its share of a turn, no more. */
enum { READ_BYTES = 65536 };

void check_output_init(struct check_output *output)
{
	ev_init(&output->readable, NULL);
	output->pipe = -1;
	output->len = 0;
	output->cut = false;
	output->match = NULL;
}

int check_output_open(struct check_output *output)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC)) {
		return -1;
	}
	/* Only our end: the command expects a blocking one. */
	if (fcntl(ends[0], F_SETFL, O_NONBLOCK)) {
		int error = errno;
		close(ends[0]);
		close(ends[1]);
		errno = error;
		return -1;
	}
	output->pipe = ends[0];
	return ends[1];
}

static void keep(struct check_output *output, const char *data, size_t len)
{
	size_t room = sizeof(output->data) - output->len;
	if (len > room) {
		len = room;
		output->cut = true;
	}
	memcpy(output->data + output->len, data, len);
	output->len += len;
}

/* False at the end of the output. */
static bool take(struct check_output *output)
{
	static char data[READ_BYTES];
	ssize_t got = read(output->pipe, data, sizeof(data));
	if (got > 0) {
		keep(output, data, (size_t)got);
		if (output->match) {
			check_match_add(output->match, data, (size_t)got);
		}
		return true;
	}
	return got < 0 && (errno == EAGAIN || errno == EINTR);
}

static void close_pipe(struct check_output *output, struct ev_loop *loop)
{
	ev_io_stop(loop, &output->readable);
	close(output->pipe);
	output->pipe = -1;
}

static void on_readable(struct ev_loop *loop, ev_io *watcher, int events)
{
	(void)events;
	struct check_output *output = watcher->data;
	if (!take(output)) {
		close_pipe(output, loop);
	}
}

void check_output_watch(struct check_output *output, struct ev_loop *loop)
{
	if (output->pipe < 0 || ev_is_active(&output->readable)) {
		return;
	}
	ev_io_init(&output->readable, on_readable, output->pipe, EV_READ);
	output->readable.data = output;
	ev_io_start(loop, &output->readable);
}

void check_output_finish(struct check_output *output, struct ev_loop *loop)
{
	if (output->pipe >= 0) {
		take(output);
		close_pipe(output, loop);
	}
}

void check_output_append(struct check_output *output, const struct check_output *other)
{
	keep(output, other->data, other->len);
	output->cut = output->cut || other->cut;
}
