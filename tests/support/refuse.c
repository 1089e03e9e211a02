/*
 * Runs a program below a filter that refuses system calls, as an old kernel (ENOSYS) or a container
 * runtime's filter (EPERM, ENOSYS) does: refuse ENOSYS close_range,openat2 -- PROGRAM ARGS…
 *
 * A call that libseccomp does not know by name is an error; so is one that this processor lacks,
 * unless its name has a "?" in front.
 */
#include <errno.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Noreturn void fail(const char *what, int error)
{
	fprintf(stderr, "refuse: %s: %s\n", what, strerror(error));
	exit(99);
}

static void refuse(scmp_filter_ctx filter, int error, const char *name)
{
	int optional = name[0] == '?';
	int call = seccomp_syscall_resolve_name(name + optional);
	int rc = call == __NR_SCMP_ERROR
		? -ENOENT
		: seccomp_rule_add(filter, SCMP_ACT_ERRNO((unsigned)error), call, 0);
	if (rc && !optional) {
		fail(name, -rc);
	}
}

int main(int argc, char **argv)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	if (argc < 5 || strcmp(argv[3], "--") != 0 || !filter) {
		fprintf(stderr, "usage: refuse ENOSYS|EPERM CALL,… -- PROGRAM …\n");
		return 99;
	}
	int error = strcmp(argv[1], "EPERM") == 0 ? EPERM : ENOSYS;
	for (char *name = strtok(argv[2], ","); name; name = strtok(NULL, ",")) {
		refuse(filter, error, name);
	}
	/* Root needs no no_new_privs for a filter, and runtimes do not set it for root either. */
	seccomp_attr_set(filter, SCMP_FLTATR_CTL_NNP, geteuid() != 0);
	int rc = seccomp_load(filter);
	if (rc) {
		fail("no filter", -rc);
	}
	seccomp_release(filter);
	execvp(argv[4], argv + 4);
	fail(argv[4], errno);
}
