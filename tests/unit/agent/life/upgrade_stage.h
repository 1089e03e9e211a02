/*
 * An agent's upgrade: the new program is a script, which says how it was called and with which
 * document. The turn of the loop before it is executed waits for the test where it is held.
 */
#ifndef TESTS_UNIT_AGENT_LIFE_UPGRADE_STAGE_H
#define TESTS_UNIT_AGENT_LIFE_UPGRADE_STAGE_H

#include <errno.h>
#include <sys/epoll.h>

#include "tests/unit/agent/life/life_stage.h"

static const char *program; /* in the place of /proc/self/exe */
static const char *gate;    /* while this FIFO is there, and nobody has it open, a disk hangs */

ssize_t readlink(const char *restrict path, char *restrict target, size_t size)
{
	if (strcmp(path, "/proc/self/exe") != 0 || !program) {
		return syscall(SYS_readlinkat, AT_FDCWD, path, target, size);
	}
	errno = ENOENT;
	size_t len = strlen(program);
	memcpy(target, program, len < size ? len : size);
	return len ? (ssize_t)len : -1;
}

int fsync(int fd)
{
	struct stat status;
	bool is_file = gate && fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
	int held = is_file ? open(gate, O_RDONLY | O_CLOEXEC) : -1;
	if (held >= 0) {
		close(held);
	}
	return 0;
}

/* ---- the turn of the loop before the new program is executed ---- */

/* Shared with the agent. */
static struct turn {
	enum { TURN_LOOSE, TURN_IS_NEXT, TURN_HELD } step;
	bool sleeps;      /* the loop has waited for something to happen */
	bool sleeps_deaf; /* the same while SIGTERM is blocked */
	bool blocks;      /* the program that is executed begins without SIGTERM */
	bool refuses;     /* to execute any */
} * turn;

static inline void watch_turns(void)
{
	turn = mmap(NULL, sizeof(*turn), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(turn, MAP_FAILED);
}

static inline bool is_deaf(void)
{
	sigset_t set;
	sigprocmask(SIG_BLOCK, NULL, &set);
	return sigismember(&set, SIGTERM) == 1;
}

int epoll_wait(int fd, struct epoll_event *events, int max, int timeout_ms)
{
	if (turn) {
		turn->sleeps |= timeout_ms != 0;
		turn->sleeps_deaf |= timeout_ms != 0 && is_deaf();
		if (turn->step == TURN_IS_NEXT && is_deaf()) {
			turn->step = TURN_HELD;
		}
		while (turn->step == TURN_HELD) {
			usleep(1000);
		}
	}
	return (int)syscall(SYS_epoll_pwait, fd, events, max, timeout_ms, NULL, 8);
}

int execv(const char *path, char *const argv[])
{
	if (turn) {
		turn->blocks = is_deaf();
	}
	if (turn && turn->refuses) {
		errno = ENOEXEC;
		return -1;
	}
	return execve(path, argv, environ);
}

/* ---- the new program ---- */

static const char script[] = "#!/bin/sh\n"
			     "cd %s\n"
			     "if [ \"$1\" = -t ]; then\n"
			     "	echo \"$0 $@\" >>tested\n"
			     "	. ./verdict\n"
			     "	exit 0\n"
			     "fi\n"
			     "cat /proc/self/fd/$BERTH_UPGRADE >document.new\n"
			     "echo \"$@\" >called\n"
			     "ls -l /proc/self/fd >open\n"
			     "[ -e begun ] && . ./begun\n"
			     "mv document.new document\n"
			     "exit 6\n";

static inline void install(struct life *life, const char *verdict)
{
	static char path[SCRATCH_PATH + 64];
	char text[sizeof(script) + SCRATCH_PATH];
	snprintf(text, sizeof(text), script, life->folder);
	life_write(life, "program", text);
	life_write(life, "verdict", verdict);
	snprintf(path, sizeof(path), "%s", life_path(life, "program"));
	cr_assert_eq(chmod(path, 0755), 0);
	program = path;
}

static inline void ask_for_upgrade(struct life *life)
{
	cr_assert_eq(kill(life->pid, SIGUSR2), 0);
	cr_assert_str_eq(life_told(life), "RELOADING=1");
}

/* Until the turn is held in which the agent is about to execute the new program. */
static inline void ask_for_last_turn(struct life *life)
{
	turn->step = TURN_IS_NEXT;
	ask_for_upgrade(life);
	LIFE_UNTIL(turn->step == TURN_HELD);
}

/* The document that the successor got. */
static inline json_t *upgraded(struct life *life)
{
	cr_assert_eq(life_wait(life), 6, "%s", life_read(life, "log"));
	json_t *document = json_loads(life_read(life, "document"), 0, NULL);
	cr_assert_not_null(document, "%s", life_read(life, "document"));
	return document;
}

/* The same, and no upgrade: "agent" goes on for this reason. */
static inline void expect_refusal(struct life *life, const char *why)
{
	char text[256];
	snprintf(text, sizeof(text), "upgrading > running (%s)", why);
	cr_expect_str_eq(life_told(life), "READY=1");
	cr_expect_str_eq(life_last(life, "agent"), text);
	cr_expect(life_logs(life, "warn  agent: upgrading -> running: "));
	cr_expect_not(life_has(life, "document"));
}

/* ---- requests ---- */

static inline int open_connection(struct life *life, const char *request)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", life_path(life, "sock"));
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	cr_assert_eq(write(fd, request, strlen(request)), (ssize_t)strlen(request));
	return fd;
}

#define RUN_CHECK                                                                                  \
	"POST /v1/agent/checks/c/run HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"

#endif
