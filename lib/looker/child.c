#include "lib/looker/child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "lib/base/close_files.h"
#include "lib/base/program_find.h"

enum { PATH_BYTES = 4096, VARIABLES_MAX = 32, PROC_NAME_BYTES = 40 };

extern char **environ;

int looker_program_open(const char *name, struct err *err)
{
	char path[PATH_BYTES];
	program_find(path, sizeof(path), name);
	int fd = open(path, O_PATH | O_CLOEXEC);
	int high = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, LOOKER_CHILD_FD + 1) : -1;
	if (high < 0) {
		err_set_errno(err, BERTH_FAILED, errno, "cannot use %s", path);
	}
	if (fd >= 0) {
		close(fd);
	}
	return high >= 0 ? high : err->code;
}

/* As its own main() wants it: no signal but KILL reaches it. A terminal's ^C is not for it. */
static int set_attributes(posix_spawnattr_t *attributes)
{
	sigset_t all;
	sigfillset(&all);
	return posix_spawnattr_setflags(attributes,
		       POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF) ||
		posix_spawnattr_setpgroup(attributes, 0) ||
		posix_spawnattr_setsigmask(attributes, &all) ||
		posix_spawnattr_setsigdefault(attributes, &all);
}

static int set_files(posix_spawn_file_actions_t *actions, int fd)
{
	return posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDWR, 0) ||
		posix_spawn_file_actions_adddup2(actions, 0, 1) ||
		posix_spawn_file_actions_adddup2(actions, fd, LOOKER_CHILD_FD);
}

/* The loader's variables, and a sanitizer's: all others may hold secrets. */
static char *const *environment(void)
{
	static const char *const beginnings[] = {
		"LD_",
#ifdef __SANITIZE_ADDRESS__
		"ASAN_OPTIONS=",
		"UBSAN_OPTIONS=",
		"LSAN_OPTIONS=",
#endif
	};
	static char *variables[VARIABLES_MAX];
	size_t count = 0;
	for (char **at = environ; at && *at; at++) {
		for (size_t i = 0; i < ARRAY_LEN(beginnings); i++) {
			if (count + 1 < VARIABLES_MAX &&
				strncmp(*at, beginnings[i], strlen(beginnings[i])) == 0) {
				variables[count++] = *at;
			}
		}
	}
	variables[count] = NULL;
	return variables;
}

static int spawn(pid_t *ret_pid, int program, const char *name, int fd)
{
	char path[PROC_NAME_BYTES];
	char *const arguments[] = { (char *)name, NULL };
	posix_spawnattr_t attributes;
	posix_spawn_file_actions_t actions;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", program);
	if (posix_spawnattr_init(&attributes)) {
		return ENOMEM;
	}
	if (posix_spawn_file_actions_init(&actions)) {
		posix_spawnattr_destroy(&attributes);
		return ENOMEM;
	}
	int rc = set_attributes(&attributes) || set_files(&actions, fd)
		? ENOMEM
		: posix_spawn(ret_pid, path, &actions, &attributes, arguments, environment());
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	return rc;
}

pid_t looker_child_start(int program, const char *name, int *ret_socket, struct err *err)
{
	int ends[2];
	pid_t pid = -1;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
		return err_set_errno(err, BERTH_FAILED, errno, "no socket for %s", name);
	}
	int rc = fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0 ? errno
							 : spawn(&pid, program, name, ends[1]);
	close(ends[1]);
	if (rc) {
		close(ends[0]);
		return err_set_errno(err, BERTH_FAILED, rc, "cannot start %s", name);
	}
	*ret_socket = ends[0];
	return pid;
}

bool looker_child_begin(const char *name)
{
	int type;
	socklen_t len = sizeof(type);
	if (getsockopt(LOOKER_CHILD_FD, SOL_SOCKET, SO_TYPE, &type, &len) != 0) {
		return false;
	}
	prctl(PR_SET_NAME, name);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_DUMPABLE, 0);
	close_files(LOOKER_CHILD_FD + 1, INT_MAX);
	return true;
}
