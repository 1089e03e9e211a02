#include "agent/command/output.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/*
 * As much as a pipe holds: one read empties it, and a command that prints for ever gets its share
 * of a loop iteration, no more.
 */
enum { READ_BYTES = 65536 };

void command_output_init(struct command_output *output, size_t max)
{
	*output = (struct command_output){ .pipe = -1 };
	ev_init(&output->readable, NULL);
	buffer_init(&output->kept, max);
}

void command_output_free(struct command_output *output)
{
	buffer_finish(&output->kept);
}

int command_output_open(struct command_output *output)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC)) {
		return -1;
	}
	/* Only the agent's end: the command expects a blocking one. */
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

static void keep(struct command_output *output, const char *data, size_t len)
{
	size_t room = output->kept.max - output->kept.len;
	output->cut = output->cut || len > room;
	buffer_append(&output->kept, data, len < room ? len : room);
}

/* False at the end of the output. */
static bool take(struct command_output *output)
{
	static char data[READ_BYTES];
	ssize_t got = read(output->pipe, data, sizeof(data));
	if (got > 0) {
		keep(output, data, (size_t)got);
		if (output->on_data) {
			output->on_data(output->context, data, (size_t)got);
		}
		return true;
	}
	return got < 0 && (errno == EAGAIN || errno == EINTR);
}

static void close_pipe(struct command_output *output, struct ev_loop *loop)
{
	ev_io_stop(loop, &output->readable);
	close(output->pipe);
	output->pipe = -1;
}

static void on_readable(struct ev_loop *loop, ev_io *watcher, int events)
{
	(void)events;
	struct command_output *output = watcher->data;
	if (!take(output)) {
		close_pipe(output, loop);
	}
}

void command_output_watch(struct command_output *output, struct ev_loop *loop)
{
	if (output->pipe < 0 || ev_is_active(&output->readable)) {
		return;
	}
	ev_io_init(&output->readable, on_readable, output->pipe, EV_READ);
	output->readable.data = output;
	ev_io_start(loop, &output->readable);
}

void command_output_finish(struct command_output *output, struct ev_loop *loop)
{
	if (output->pipe >= 0) {
		take(output);
		close_pipe(output, loop);
	}
}
