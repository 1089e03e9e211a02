#include "lib/registry/dir/writer.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "lib/base/child.h"
#include "lib/base/close_files.h"

/* The outcome of a task, as its child writes it: smaller than a pipe's buffer, so in one piece. */
struct report {
	struct err err;
	struct registry_stat stat;
	bool childless;
	bool has_path;
	char path[LIMIT_PATH_BYTES + 1]; /* of a node with a number */
};

static _Noreturn void run(struct dir_context *context, struct registry_task *task, int report_fd)
{
	struct report report = { .err = ERR_INIT };
	/* Clients' connections and owners' locks must end with the process, not with its child. */
	const int kept[] = { STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, context->store.root_fd,
		context->store.lock_fd, report_fd };
	close_files_but(kept, ARRAY_LEN(kept));
	context->session = (struct dir_session){ 0 };
	dir_task_run(context, task);
	report.err = task->ret_err;
	report.stat = task->ret_stat;
	report.childless = task->ret_childless;
	if (task->ret_data && task->ret_len < sizeof(report.path)) {
		report.has_path = true;
		memcpy(report.path, task->ret_data, task->ret_len);
	}
	child_report(report_fd, &report, sizeof(report));
}

bool dir_writer_start(
	struct dir_writer *writer, struct dir_context *context, struct registry_task *task)
{
	int report;
	pid_t pid = child_fork_reporting(true, &report);
	if (pid == 0) {
		run(context, task, report);
	}
	if (pid < 0) {
		return false;
	}
	writer->pid = pid;
	writer->report = report;
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
