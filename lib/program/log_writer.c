#include "lib/program/log_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/buffer.h"
#include "lib/base/clock.h"
#include "lib/base/child.h"
#include "lib/base/close_files.h"

#define NAME "berth-log"

enum {
	QUEUE_BYTES = 256 * 1024, /* some thousand lines, as a start with many components logs */
	FINISH_MS = 1000,
	FINISH_LOOK_MS = 2,
};

/* In front of each line in the pipe. */
struct head {
	uint64_t dropped; /* of all lines before this one */
	uint32_t len;
};

_Static_assert(sizeof(struct head) + LOG_WRITER_LINE_BYTES <= PIPE_BUF, "a pipe takes it at once");

/* Both processes count here. */
struct tally {
	_Atomic uint64_t queued;
	_Atomic uint64_t taken;   /* by the writer from the pipe */
	_Atomic uint64_t dropped; /* by the program */
	_Atomic uint64_t failed;  /* to be written */
	_Atomic uint64_t reported;
};

static struct tally own_tally;
static struct tally *tally = &own_tally;
static log_writer_compose *compose_line;
static int queue_fd = -1;
static pid_t program;
static pid_t writer;

/* ---- writing, in the writer, or in the program where there is none ---- */

static struct {
	bool is_writer;
	int error;        /* of the last line that could not be written; 0: no room for it */
	bool cut;         /* stderr ends within a line */
	char previous[2]; /* the beginning of the last line */
} output;

static bool program_is_gone(void)
{
	struct pollfd queue = { .fd = STDIN_FILENO };
	return poll(&queue, 1, 0) == 1 && (queue.revents & POLLHUP);
}

/* Only the writer waits, and looks from time to time whether it still has a program. */
static ssize_t write_some(const char *text, size_t len)
{
	static const struct itimerval look = { { 1, 0 }, { 1, 0 } }, none;
	struct pollfd file = { .fd = STDERR_FILENO, .events = POLLOUT };
	if (!output.is_writer && poll(&file, 1, 0) == 0) {
		errno = EAGAIN;
		return -1;
	}
	if (!output.is_writer) {
		return write(STDERR_FILENO, text, len);
	}
	setitimer(ITIMER_REAL, &look, NULL);
	ssize_t written = write(STDERR_FILENO, text, len);
	int error = errno;
	bool interrupted = written < 0 && error == EINTR;
	if (written < 0 && error == EAGAIN) { /* another process has made it non-blocking */
		interrupted = poll(&file, 1, -1) < 0;
		error = EINTR;
	}
	if (interrupted && program_is_gone()) {
		_exit(0);
	}
	setitimer(ITIMER_REAL, &none, NULL);
	errno = error;
	return written;
}

static bool put(const char *text, size_t len)
{
	while (len > 0) {
		ssize_t written = write_some(text, len);
		if (written > 0) {
			text += written;
			len -= (size_t)written;
			output.cut = len > 0;
		} else if (written == 0 || errno != EINTR) {
			output.error = written < 0 && errno != EAGAIN ? errno : 0;
			return false;
		}
	}
	return true;
}

static bool put_line(const char *line, size_t len)
{
	return (!output.cut || put("\n", 1)) && put(line, len);
}

/* `lost`: as many in all. False when the report cannot be written either. */
static bool report_loss(uint64_t lost)
{
	char message[160];
	struct buffer line;
	uint64_t reported = atomic_load(&tally->reported);
	if (lost <= reported || !compose_line) {
		return true;
	}
	uint64_t count = lost - reported;
	snprintf(message, sizeof(message), "%llu %s lost: %s", (unsigned long long)count,
		count == 1 ? "line" : "lines",
		output.error ? strerror(output.error) : "stderr was not read fast enough");
	buffer_init(&line, LOG_WRITER_LINE_BYTES);
	compose_line(&line, output.previous, message);
	bool written = put_line(buffer_text(&line), line.len);
	buffer_finish(&line);
	if (written) {
		atomic_store(&tally->reported, lost);
		output.error = 0;
	}
	return written;
}

/* `dropped`: as many before this line. */
static void put_or_count(const char *line, size_t len, uint64_t dropped)
{
	if (!report_loss(dropped + atomic_load(&tally->failed)) || !put_line(line, len)) {
		atomic_fetch_add(&tally->failed, 1);
	}
	output.previous[0] = line[0];
}

uint64_t log_writer_lost(void)
{
	return atomic_load(&tally->dropped) + atomic_load(&tally->failed);
}

/* ---- the writer ---- */

/* False at the end: the program is gone. */
static bool read_whole(void *data, size_t len)
{
	char *at = data;
	while (len > 0) {
		ssize_t got = read(STDIN_FILENO, at, len);
		if (got == 0 || (got < 0 && errno != EINTR)) {
			return false;
		}
		at += got > 0 ? got : 0;
		len -= got > 0 ? (size_t)got : 0;
	}
	return true;
}

static bool queue_is_empty(void)
{
	int unread = 0;
	return ioctl(STDIN_FILENO, FIONREAD, &unread) == 0 && unread == 0;
}

static void on_alarm(int signal_number)
{
	(void)signal_number; /* it has interrupted a write(), and that is all */
}

static _Noreturn void write_lines(int end)
{
	static const struct sigaction look = { .sa_handler = on_alarm };
	char line[LOG_WRITER_LINE_BYTES];
	struct head head;
	sigset_t alarm_only;
	dup2(end, STDIN_FILENO);
	close(STDOUT_FILENO);
	close_files(STDERR_FILENO + 1, INT_MAX);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	/* pidof and its like find a program by either name. */
	prctl(PR_SET_NAME, NAME, 0, 0, 0);
	size_t len = strlen(program_invocation_name);
	memset(program_invocation_name, '\0', len);
	memcpy(program_invocation_name, NAME, len < strlen(NAME) ? len : strlen(NAME));
	/* Of signals to the whole group or the service it hears none: the end has lines, too. */
	sigemptyset(&alarm_only);
	sigaddset(&alarm_only, SIGALRM);
	sigaction(SIGALRM, &look, NULL);
	sigprocmask(SIG_UNBLOCK, &alarm_only, NULL);
	output.is_writer = true;
	while (read_whole(&head, sizeof(head)) && head.len <= sizeof(line) &&
		read_whole(line, head.len)) {
		put_or_count(line, head.len, head.dropped);
		atomic_fetch_add(&tally->taken, 1);
		if (queue_is_empty()) {
			(void)report_loss(log_writer_lost());
		}
	}
	_exit(0);
}

/* ---- the program ---- */

static int start(int ends[2])
{
	if (fcntl(ends[1], F_SETFL, O_NONBLOCK)) {
		return -1;
	}
	(void)fcntl(ends[1], F_SETPIPE_SZ, QUEUE_BYTES); /* else it has the kernel's default */
	writer = child_fork(false);
	if (writer == 0) {
		write_lines(ends[0]);
	}
	return writer < 0 ? -1 : 0;
}

int log_writer_start(log_writer_compose *compose)
{
	int ends[2];
	void *shared = mmap(
		NULL, sizeof(*tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	compose_line = compose;
	if (shared == MAP_FAILED) {
		return -1;
	}
	if (pipe2(ends, O_CLOEXEC)) {
		munmap(shared, sizeof(*tally));
		return -1;
	}
	tally = shared;
	atomic_store(&tally->dropped, atomic_load(&own_tally.dropped));
	atomic_store(&tally->failed, atomic_load(&own_tally.failed));
	int rc = start(ends);
	int error = errno;
	close(ends[0]);
	if (rc) {
		writer = 0;
		close(ends[1]);
	} else {
		queue_fd = ends[1];
		program = getpid();
		signal(SIGPIPE, SIG_IGN); /* the writer may be killed */
	}
	errno = error;
	return rc;
}

/* Nobody writes the rest of the pipe. No new writer is made: the program is large by now. */
static void forget_writer(void)
{
	close(queue_fd);
	queue_fd = -1;
	writer = 0;
	atomic_fetch_add(&tally->dropped, atomic_load(&tally->queued) - atomic_load(&tally->taken));
}

static void enqueue(const char *line, size_t len)
{
	const struct head head = { .dropped = atomic_load(&tally->dropped), .len = (uint32_t)len };
	const struct iovec parts[] = { { (void *)&head, sizeof(head) }, { (void *)line, len } };
	/* Counted before: the writer may be faster. */
	atomic_fetch_add(&tally->queued, 1);
	if (writev(queue_fd, parts, 2) < 0) {
		atomic_fetch_sub(&tally->queued, 1);
		if (errno != EAGAIN) {
			forget_writer();
		} else {
			atomic_fetch_add(&tally->dropped, 1);
		}
	}
}

void log_writer_write(const char *line, size_t len)
{
	int error = errno;
	bool queued = queue_fd >= 0 && program == getpid();
	if (queued) {
		enqueue(line, len);
	}
	if (!queued || queue_fd < 0) {
		put_or_count(line, len, atomic_load(&tally->dropped));
	}
	errno = error;
}

void log_writer_finish(void)
{
	if (queue_fd < 0 || program != getpid()) {
		return;
	}
	int64_t end_ms = clock_monotonic_ms() + FINISH_MS;
	close(queue_fd);
	queue_fd = -1;
	while (waitpid(writer, NULL, WNOHANG) == 0) {
		poll(NULL, 0, FINISH_LOOK_MS);
		if (clock_monotonic_ms() >= end_ms) {
			kill(writer, SIGKILL);
			break;
		}
	}
	writer = 0;
}
