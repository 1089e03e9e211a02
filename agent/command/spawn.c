#include "agent/command/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "lib/base/array.h"
#include "lib/base/close_files.h"

/* The user that the process runs as. */
struct identity {
	int error;   /* errno: the user could not be found */
	bool change; /* else it keeps the agent's */
	uid_t uid;
	gid_t gid;
	gid_t *groups;
	int group_count;
};

struct command_launch {
	/*
	 * NULL-terminated: a place for the run's marker, then own_count variables of the options,
	 * then those of the agent's own that none of them replaces, borrowed from its `environ`.
	 */
	char **environment;
	size_t own_count;
	struct identity identity;
	char *user;
	char *cwd;
	struct command_limit *limits;
	size_t limit_count;
	bool no_new_privileges;
};

/* ---- limits ---- */

static const struct {
	const char *name;
	int resource;
} limits[] = {
	{ "as", RLIMIT_AS },
	{ "core", RLIMIT_CORE },
	{ "cpu", RLIMIT_CPU },
	{ "data", RLIMIT_DATA },
	{ "fsize", RLIMIT_FSIZE },
	{ "memlock", RLIMIT_MEMLOCK },
	{ "nofile", RLIMIT_NOFILE },
	{ "nproc", RLIMIT_NPROC },
	{ "stack", RLIMIT_STACK },
};

int command_limit_resource(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
		if (strcmp(limits[i].name, name) == 0) {
			return limits[i].resource;
		}
	}
	return -1;
}

/* ---- environment ---- */

static bool same_name(const char *one, const char *other)
{
	size_t len = strcspn(one, "=");
	return strncmp(one, other, len) == 0 && other[len] == '=';
}

/* The variables of the options and the marker of a run win over the agent's own. */
static bool is_replaced(const struct command_launch *launch, const char *variable)
{
	if (same_name("BERTH_RUN=", variable)) {
		return true;
	}
	for (size_t i = 1; i <= launch->own_count; i++) {
		if (same_name(launch->environment[i], variable)) {
			return true;
		}
	}
	return false;
}

/*
 * Variables for the service from its manager: a command that used them would speak for the agent.
 * The agent removes LISTEN_FDS and its like from its own environment when it starts.
 */
static bool is_of_the_manager(const char *variable)
{
	return same_name("NOTIFY_SOCKET=", variable) || same_name("WATCHDOG_USEC=", variable) ||
		same_name("WATCHDOG_PID=", variable);
}

static void add_variable(struct command_launch *launch, const struct command_variable *variable)
{
	char *text = allocate_format("%s=%s", variable->name, variable->value);
	if (is_replaced(launch, text)) {
		free(text);
		return;
	}
	launch->environment[++launch->own_count] = text;
}

static void make_environment(
	struct command_launch *launch, const struct command_launch_options *options)
{
	size_t inherited = 0;
	while (environ[inherited]) {
		inherited++;
	}
	size_t most = 1 + options->variable_count + inherited;
	launch->environment = allocate_zeroed(most + 1, sizeof(char *));
	for (size_t i = 0; i < options->variable_count; i++) {
		add_variable(launch, &options->variables[i]);
	}
	char **end = launch->environment + 1 + launch->own_count;
	for (size_t i = 0; i < inherited; i++) {
		if (!is_replaced(launch, environ[i]) && !is_of_the_manager(environ[i])) {
			*end++ = environ[i];
		}
	}
}

/* ---- identity ---- */

static void find_groups(struct identity *identity, const char *user)
{
	int size = 32;
	int count;
	do {
		free(identity->groups);
		identity->groups = allocate_zeroed((size_t)size, sizeof(gid_t));
		count = size;
		size *= 2;
	} while (getgrouplist(user, identity->gid, identity->groups, &count) < 0);
	identity->group_count = count;
}

static void find_identity(struct identity *identity, const char *user)
{
	if (!*user) {
		return;
	}
	errno = 0;
	const struct passwd *entry = getpwnam(user);
	if (!entry) {
		identity->error = errno ? errno : ENOENT;
		return;
	}
	identity->uid = entry->pw_uid;
	identity->gid = entry->pw_gid;
	/*
	 * The agent's own user needs no privilege, and without privilege nothing could be changed
	 * anyway.
	 */
	identity->change = identity->uid != geteuid() || getuid() != geteuid();
	if (identity->change) {
		find_groups(identity, user);
	}
}

struct command_launch *command_launch_create(const struct command_launch_options *options)
{
	struct command_launch *launch = allocate_zeroed(1, sizeof(*launch));
	launch->user = allocate_text(options->user);
	launch->cwd = allocate_text(options->cwd);
	launch->no_new_privileges = options->no_new_privileges;
	launch->limits = allocate_zeroed(options->limit_count + 1, sizeof(*launch->limits));
	launch->limit_count = options->limit_count;
	for (size_t i = 0; i < options->limit_count; i++) {
		launch->limits[i] = options->limits[i];
	}
	make_environment(launch, options);
	find_identity(&launch->identity, options->user);
	return launch;
}

void command_launch_destroy(struct command_launch *launch)
{
	if (!launch) {
		return;
	}
	for (size_t i = 1; i <= launch->own_count; i++) {
		free(launch->environment[i]);
	}
	free(launch->environment);
	free(launch->identity.groups);
	free(launch->user);
	free(launch->cwd);
	free(launch->limits);
	free(launch);
}

/* ---- in the child ---- */

/*
 * posix_spawn() cannot change the user or a limit, and a second process image that could do so
 * would cost another exec per run. So this does what posix_spawn() does inside: vfork, then nothing
 * but system calls until exec. It is safe because the agent has one thread and blocks all signals
 * meanwhile; and since the child shares the agent's memory, it reports in a variable what went
 * wrong, with no pipe. Ids are changed by bare system calls: the C library's functions would look
 * for other threads to change.
 */
struct failure {
	const char *what; /* NULL: none */
	const char *whom;
	int error;
};

static _Noreturn void fail(struct failure *failure, const char *what, const char *whom)
{
	*failure = (struct failure){ .what = what, .whom = whom, .error = errno };
	_exit(127);
}

static void take_place(const struct command_spawn *spawn)
{
	if (spawn->placement == COMMAND_SESSION) {
		setsid();
		return;
	}
	setpgid(0, 0);
	/* TTOU is blocked like all signals: so a group in the background may take the terminal. */
	if (isatty(STDIN_FILENO)) {
		tcsetpgrp(STDIN_FILENO, getpid());
	}
}

/* The descriptors lie above 2, so that no dup2 overwrites what a later one needs. */
static bool redirect(const struct command_spawn *spawn)
{
	for (int target = 0; target < 3; target++) {
		int file = spawn->files[target];
		if (file < 0 && target == STDIN_FILENO && spawn->placement == COMMAND_SESSION) {
			file = open("/dev/null", O_RDONLY);
			if (file < 0) {
				return false;
			}
		}
		if (file >= 0 && dup2(file, target) < 0) {
			return false;
		}
	}
	if (!spawn->keep_files) {
		close_files(STDERR_FILENO + 1, INT_MAX);
	}
	return true;
}

static bool set_limits(const struct command_launch *launch)
{
	for (size_t i = 0; i < launch->limit_count; i++) {
		if (setrlimit((unsigned)launch->limits[i].resource, &launch->limits[i].value)) {
			return false;
		}
	}
	return true;
}

static bool change_identity(const struct identity *identity)
{
	return syscall(SYS_setgroups, (size_t)identity->group_count, identity->groups) == 0 &&
		syscall(SYS_setresgid, identity->gid, identity->gid, identity->gid) == 0 &&
		syscall(SYS_setresuid, identity->uid, identity->uid, identity->uid) == 0;
}

/*
 * A change of user forgets the death signal, so it is asked for afterwards. An agent that died
 * before has already given its child to another parent, and the signal would never come.
 */
static void die_with(pid_t agent, int signal_number)
{
	prctl(PR_SET_PDEATHSIG, signal_number, 0, 0, 0);
	if (getppid() != agent) {
		_exit(127);
	}
}

static void default_signals(void)
{
	struct sigaction action = { .sa_handler = SIG_DFL };
	for (int number = 1; number < NSIG; number++) {
		sigaction(number, &action, NULL);
	}
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void child(const struct command_spawn *spawn, pid_t agent, struct failure *failure)
{
	const struct command_launch *launch = spawn->launch;
	take_place(spawn);
	if (!redirect(spawn)) {
		fail(failure, "cannot redirect", "input and output");
	}
	if (!set_limits(launch)) {
		fail(failure, "cannot set a limit of", spawn->argv[0]);
	}
	if (launch->identity.change && !change_identity(&launch->identity)) {
		fail(failure, "cannot become user", launch->user);
	}
	if (launch->no_new_privileges && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) {
		fail(failure, "cannot renounce privileges for", spawn->argv[0]);
	}
	if (*launch->cwd && chdir(launch->cwd)) {
		fail(failure, "cannot change to", launch->cwd);
	}
	if (spawn->death_signal) {
		die_with(agent, spawn->death_signal);
	}
	/* Last, so that no handler of the agent's can run in the child. */
	default_signals();
	execvpe(spawn->argv[0], spawn->argv,
		spawn->marker ? launch->environment : launch->environment + 1);
	fail(failure, "cannot run", spawn->argv[0]);
}

/* ---- in the agent ---- */

/* Not inlined: what vfork's second return may clobber stays in this frame. */
static __attribute__((noinline)) pid_t start(
	const struct command_spawn *spawn, struct failure *failure)
{
	pid_t agent = getpid();
	sigset_t all, before;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	/* NOLINTBEGIN(clang-analyzer-security.insecureAPI.vfork,clang-analyzer-unix.Vfork):
	 * a fork() would copy the page tables of a large agent for each check; child() changes its
	 * own frame and `failure` only, and ends in exec or _exit */
	pid_t pid = vfork();
	if (pid == 0) {
		child(spawn, agent, failure);
	}
	/* NOLINTEND(clang-analyzer-security.insecureAPI.vfork,clang-analyzer-unix.Vfork) */
	if (pid < 0) {
		*failure = (struct failure){ "cannot start", "a process", errno };
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	return pid;
}

/* exec says "permission denied" of a directory. */
static int explain(int error, const char *program)
{
	struct stat status;
	bool directory = error == EACCES && strchr(program, '/') && stat(program, &status) == 0 &&
		S_ISDIR(status.st_mode);
	return directory ? EISDIR : error;
}

pid_t command_spawn(const struct command_spawn *spawn, struct err *err)
{
	const struct command_launch *launch = spawn->launch;
	struct failure failure = { "cannot find user", launch->user, launch->identity.error };
	pid_t pid = -1;
	if (!failure.error) {
		failure = (struct failure){ 0 };
		launch->environment[0] = (char *)spawn->marker;
		pid = start(spawn, &failure);
	}
	if (!failure.what) {
		return pid;
	}
	/* A failed child has exited; the loop reaps it as any child without a watcher. */
	int error = explain(failure.error, failure.whom);
	err_set_errno(err, BERTH_FAILED, error, "%s %s", failure.what, failure.whom);
	return -error;
}
