#include "lib/registry/dir/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "lib/base/close_files.h"

/* The outcome of a task, as its child writes it: smaller than a pipe's buffer, so in one piece. */
struct report {
	struct err err;
	struct registry_stat stat;
	bool childless;
	bool has_path;
	char path[LIMIT_PATH_BYTES + 1]; /* of a node with a number */
};

/* Clients' connections and owners' locks must end with the process, not with its child. */
static void close_others(int one, int two, int three)
{
	const int kept[] = { one, two, three };
	int from = STDERR_FILENO + 1;
	for (;;) {
		int next = -1;
		for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
			if (kept[i] >= from && (next < 0 || kept[i] < next)) {
				next = kept[i];
			}
		}
		if (next < 0) {
			close_files(from, INT_MAX);
			return;
		}
		close_files(from, next - 1);
		from = next + 1;
	}
}

/* In the child; every signal is blocked, so that no handler of the process runs here. */
static _Noreturn void run(
	struct dir_context *context, struct registry_task *task, pid_t parent, int report_fd)
{
	struct report report = { .err = ERR_INIT };
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (getppid() != parent) {
		_exit(1); /* it has died before, and the signal will not come */
	}
	close_others(context->store.root_fd, context->store.lock_fd, report_fd);
	context->session = (struct dir_session){ 0 };
	dir_task_run(context, task);
	report.err = task->ret_err;
	report.stat = task->ret_stat;
	report.childless = task->ret_childless;
	if (task->ret_data && task->ret_len < sizeof(report.path)) {
		report.has_path = true;
		memcpy(report.path, task->ret_data, task->ret_len);
	}
	(void)!write(report_fd, &report, sizeof(report));
	_exit(0);
}

bool dir_writer_start(
	struct dir_writer *writer, struct dir_context *context, struct registry_task *task)
{
	int ends[2];
	sigset_t all, before;
	pid_t parent = getpid();
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK)) {
		return false;
	}
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	pid_t pid = fork();
	if (pid == 0) {
		run(context, task, parent, ends[1]);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	close(ends[1]);
	if (pid < 0) {
		close(ends[0]);
		return false;
	}
	writer->pid = pid;
	writer->report = ends[0];
	writer->task = task;
	struct epoll_event readable = { .events = EPOLLIN };
	(void)!epoll_ctl(writer->wake, EPOLL_CTL_ADD, writer->report, &readable);
	return true;
}

static void give(struct registry_task *task, const struct report *report)
{
	task->ret_err = report->err;
	task->ret_stat = report->stat;
	task->ret_childless = report->childless;
	if (!report->has_path) {
		return;
	}
	task->ret_data = strdup(report->path);
	if (task->ret_data) {
		task->ret_len = strlen(task->ret_data);
	} else {
		err_set(&task->ret_err, BERTH_FAILED, "no memory for the name of %s", task->path);
	}
}

bool dir_writer_ended(struct dir_writer *writer, struct dir_context *context)
{
	struct report report;
	if (writer->pid == 0) {
		return true;
	}
	ssize_t got = read(writer->report, &report, sizeof(report));
	if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
		return false;
	}
	bool whole = got == (ssize_t)sizeof(report);
	if (writer->task && whole) {
		give(writer->task, &report);
	} else if (writer->task) {
		err_set(&writer->task->ret_err, BERTH_TIMEOUT,
			"nobody knows whether %s was written: the process that did it was killed",
			writer->task->path);
	}
	if (!whole) {
		context->store.swept = false; /* of what it left */
	}
	close(writer->report);
	/* It ends now. A loop of the process may have seen its end before. */
	while (waitpid(writer->pid, NULL, 0) < 0 && errno == EINTR) {
	}
	writer->pid = 0;
	writer->task = NULL;
	return true;
}

void dir_writer_give_up(struct dir_writer *writer, struct dir_context *context)
{
	if (writer->pid != 0) {
		kill(writer->pid, SIGKILL);
		writer->task = NULL;
		context->store.swept = false;
	}
}
