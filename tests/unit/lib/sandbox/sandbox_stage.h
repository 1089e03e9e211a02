/*
 * A process in its cage, on a kernel that is as a test wants it. Each cage is that of a child; what
 * it has found out is in memory that it shares with the test.
 */
#ifndef TESTS_UNIT_LIB_SANDBOX_SANDBOX_STAGE_H
#define TESTS_UNIT_LIB_SANDBOX_SANDBOX_STAGE_H

#include <criterion/criterion.h>

#include "lib/sandbox/sandbox.h"

#ifdef BERTH_SANDBOX

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <malloc.h>
#include <netinet/in.h>
#include <seccomp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "tests/support/deeds.h"
#include "tests/support/scratch.h"

enum { ALL_RIGHTS = 31, MOST_RULES = 8, MOST_CALLS = 256, MOST_SOCKETS = 16 };

/* ---- the kernel, as a test wants it ---- */

static struct notes {
	char words[SANDBOX_WORDS_BYTES];
	/* of landlock */
	size_t asked_bytes;
	uint64_t asked[3]; /* kinds of access to files, to ports, scopes */
	struct {
		unsigned type;
		uint64_t allowed;
		uint64_t port;
		ino_t inode;
	} rules[MOST_RULES];
	int rule_count;
	int descriptors; /* that are open more than before */
	/* of the filter */
	int calls; /* rules that were added */
	int named[MOST_CALLS];
	int named_count;                   /* of them, without conditions */
	uint64_t sockets[MOST_SOCKETS][2]; /* families, with their protocols */
	int socket_count;
	int filters; /* made, and not released yet */
	bool bounded, interruptible;
	/* of memory */
	int arenas;
} * notes;

static struct {
	int landlock;      /* its version; 0: there is none */
	bool takes_rules;  /* and not only the question for the version */
	bool restricts;    /* the process at the end */
	bool has_filters;  /* of system calls */
	bool lacks_memory; /* for a filter */
	int failing_rule;  /* of the filter, from 1 on */
	int failure;       /* of it */
	bool in_the_cage;
} kernel;

static inline int answer(int error)
{
	errno = error;
	return error ? -1 : 0;
}

static inline int make_ruleset(const void *attributes, size_t size, unsigned flags)
{
	if (!attributes) {
		return size == 0 && flags == LANDLOCK_CREATE_RULESET_VERSION && kernel.landlock > 0
			? kernel.landlock
			: answer(EOPNOTSUPP);
	}
	if (flags != 0 || kernel.landlock == 0 || !kernel.takes_rules) {
		return answer(EINVAL);
	}
	notes->asked_bytes = size;
	memcpy(notes->asked, attributes, size < sizeof(notes->asked) ? size : sizeof(notes->asked));
	return open("/", O_PATH | O_CLOEXEC);
}

static inline int add_rule(unsigned type, const void *attributes, unsigned flags)
{
	const struct landlock_path_beneath_attr *file = attributes;
	const uint64_t *numbers = attributes;
	struct stat stat = { .st_ino = 0 };
	if (flags != 0 || notes->rule_count == MOST_RULES) {
		return answer(EINVAL);
	}
	if (type == LANDLOCK_RULE_PATH_BENEATH && fstat(file->parent_fd, &stat) != 0) {
		return answer(EBADF);
	}
	notes->rules[notes->rule_count].type = type;
	notes->rules[notes->rule_count].allowed = numbers[0];
	notes->rules[notes->rule_count].inode = stat.st_ino;
	notes->rules[notes->rule_count].port = type == LANDLOCK_RULE_PATH_BENEATH ? 0 : numbers[1];
	notes->rule_count++;
	return 0;
}

long syscall(long number, ...)
{
	static long (*next)(long number, ...);
	long of[6];
	va_list list;
	va_start(list, number);
	for (int i = 0; i < 6; i++) {
		of[i] = va_arg(list, long);
	}
	va_end(list);
	if (kernel.in_the_cage) {
		switch (number) {
		case SYS_landlock_create_ruleset:
			return make_ruleset((const void *)of[0], (size_t)of[1], (unsigned)of[2]);
		case SYS_landlock_add_rule:
			return add_rule((unsigned)of[1], (const void *)of[2], (unsigned)of[3]);
		case SYS_landlock_restrict_self:
			return answer(of[1] == 0 && kernel.restricts ? 0 : EINVAL);
		}
	}
	next = next ? next : (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	return next(number, of[0], of[1], of[2], of[3], of[4], of[5]);
}

int seccomp_rule_add_array(scmp_filter_ctx filter, uint32_t action, int number, unsigned count,
	const struct scmp_arg_cmp *arguments)
{
	static int (*next)(scmp_filter_ctx, uint32_t, int, unsigned, const struct scmp_arg_cmp *);
	next = next
		? next
		: (int (*)(scmp_filter_ctx, uint32_t, int, unsigned,
			  const struct scmp_arg_cmp *))dlsym(RTLD_NEXT, "seccomp_rule_add_array");
	if (count == 0 && notes->named_count < MOST_CALLS) {
		notes->named[notes->named_count++] = number;
	} else if (number == SCMP_SYS(socket) && count == 3 && notes->socket_count < MOST_SOCKETS) {
		notes->sockets[notes->socket_count][0] = arguments[0].datum_a;
		notes->sockets[notes->socket_count++][1] = arguments[2].datum_a;
	}
	return ++notes->calls == kernel.failing_rule
		? kernel.failure
		: next(filter, action, number, count, arguments);
}

scmp_filter_ctx seccomp_init(uint32_t action)
{
	static scmp_filter_ctx (*next)(uint32_t);
	next = next ? next : (scmp_filter_ctx(*)(uint32_t))dlsym(RTLD_NEXT, "seccomp_init");
	scmp_filter_ctx filter = kernel.lacks_memory ? NULL : next(action);
	notes->filters += filter != NULL;
	return filter;
}

void seccomp_release(scmp_filter_ctx filter)
{
	static void (*next)(scmp_filter_ctx);
	next = next ? next : (void (*)(scmp_filter_ctx))dlsym(RTLD_NEXT, "seccomp_release");
	notes->filters--;
	next(filter);
}

int seccomp_load(const scmp_filter_ctx filter)
{
	static int (*next)(const scmp_filter_ctx);
	struct itimerval left;
	sigset_t blocked;
	next = next ? next : (int (*)(const scmp_filter_ctx))dlsym(RTLD_NEXT, "seccomp_load");
	notes->bounded = getitimer(ITIMER_PROF, &left) == 0 && left.it_value.tv_sec == 0 &&
		left.it_value.tv_usec > 0;
	sigprocmask(SIG_BLOCK, NULL, &blocked);
	notes->interruptible = !sigismember(&blocked, SIGPROF);
	return kernel.has_filters ? next(filter) : -EINVAL;
}

#ifdef M_ARENA_MAX
int mallopt(int parameter, int value)
{
	if (parameter == M_ARENA_MAX) {
		notes->arenas = value;
	}
	return 1;
}
#endif

/* ---- a process in its cage ---- */

static struct sandbox_profile profile;

static inline int descriptors(void)
{
	int count = 0;
	for (int fd = 0; fd < 100; fd++) {
		count += fcntl(fd, F_GETFD) >= 0;
	}
	return count;
}

static bool without_input; /* it has no descriptor 0 */

static inline void enter(void)
{
	if (without_input) {
		close(STDIN_FILENO);
	}
	int before = descriptors();
	kernel.in_the_cage = true;
	sandbox_enter(&profile, notes->words);
	kernel.in_the_cage = false;
	notes->descriptors = descriptors() - before;
}

static inline int nothing(void)
{
	return 0;
}

static inline int done_if(bool good)
{
	errno = EDOM;
	return good ? 0 : -1;
}

/* The cage of the profile, and what it says of itself. */
static inline const char *words_of_cage(void)
{
	memset(notes, 0, sizeof(*notes));
	cr_assert_eq(deed_outcome(enter, nothing), 0);
	return notes->words;
}

/* The errno of a deed with these rights; 0: it is done. */
static inline int outcome(unsigned rights, int (*does)(void))
{
	profile.rights = rights;
	return deed_outcome(enter, does);
}

static char folder[SCRATCH_PATH];
static char file[SCRATCH_PATH + 8];

static inline void begin(void)
{
	notes = mmap(
		NULL, sizeof(*notes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(notes, MAP_FAILED);
	/* A library of which every function is replaced would not be linked. */
	cr_assert_not_null(seccomp_version());
	kernel.takes_rules = kernel.restricts = kernel.has_filters = true;
	profile.memory_mib = 1024;
	scratch_folder(folder);
	snprintf(file, sizeof(file), "%s/file", folder);
	int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	cr_assert_eq(write(fd, "text", 4), 4);
	close(fd);
}

static inline void end(void)
{
	unlink(file);
	rmdir(folder);
	munmap(notes, sizeof(*notes));
}

#define SANDBOX_TEST(suite, name)                                                                  \
	static void name(void);                                                                    \
	Test(suite, name)                                                                          \
	{                                                                                          \
		begin();                                                                           \
		name();                                                                            \
		end();                                                                             \
	}                                                                                          \
	static void name(void)

#endif

#endif
