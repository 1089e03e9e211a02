#include "cli/command.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/linux_calls.h"
#include "lib/base/memory_file.h"
#include "lib/base/write_all.h"

extern char **environ;

/* A descriptor that reads as `text`, or -1 with errno. */
static int input_of(const char *text)
{
	int fd = memory_file("berth");
	if (fd >= 0 && (write_all(fd, text, strlen(text)) < 0 || lseek(fd, 0, SEEK_SET) != 0)) {
		int reason = errno;
		close(fd);
		errno = reason;
		return -1;
	}
	return fd;
}

static int spawn(char **command, int input, pid_t *ret_pid)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t defaults;
	sigemptyset(&defaults);
	sigaddset(&defaults, SIGPIPE);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigdefault(&attributes, &defaults);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
	int reason = posix_spawnp(ret_pid, command[0], &actions, &attributes, command, environ);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	return reason;
}

/* The exit status as a shell has it; says what is not 0. */
static int judge(int status, const char *command, const char *event, const char *path)
{
	if (WIFSIGNALED(status)) {
		fprintf(stderr, "berth: note: %s of %s: signal %d ended %s\n", event, path,
			WTERMSIG(status), command);
		return 128 + WTERMSIG(status);
	}
	if (WEXITSTATUS(status) != 0) {
		fprintf(stderr, "berth: note: %s of %s: %s ended with exit status %d\n", event,
			path, command, WEXITSTATUS(status));
	}
	return WEXITSTATUS(status);
}

int command_run(char **command, const char *event, const char *path, const char *input)
{
	pid_t pid = -1;
	int status = 0;
	setenv("BERTH_EVENT", event, 1);
	setenv("BERTH_PATH", path, 1);
	int fd = input_of(input);
	int reason = fd < 0 ? errno : spawn(command, fd, &pid);
	if (fd >= 0) {
		close(fd);
	}
	if (reason != 0) {
		fprintf(stderr, "berth: %s: %s\n", command[0], linux_spawn_error(reason));
		return -1;
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
	}
	return judge(status, command[0], event, path);
}
