/*
 * The agent's own privileges: what is left of user, groups and capabilities, and whose sockets and
 * directories there are. Each case is in a process of its own, which reports what it became.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/base/log.h"
#include "agent/config/problems.h"
#include "agent/core/state.h"
#include "agent/http/socket.h"
#include "agent/life/privileges.h"
#include "lib/base/array.h"
#include "tests/support/rights.h"
#include "tests/support/scratch.h"

enum { NOBODY = 65534, DAEMON = 1, OTHER = 4711, NO_ID = -1 };

/* ---- calls that fail ---- */

static uid_t refused_user = NO_ID;  /* seteuid() */
static gid_t refused_group = NO_ID; /* setegid() */
static int refused_prctl;           /* prctl(); 0: none */

int seteuid(uid_t user)
{
	errno = EPERM;
	return user == refused_user ? -1 : (int)syscall(SYS_setresuid, -1, user, -1);
}

int setegid(gid_t group)
{
	errno = EPERM;
	return group == refused_group ? -1 : (int)syscall(SYS_setresgid, -1, group, -1);
}

int prctl(int option, ...)
{
	va_list arguments;
	unsigned long values[4];
	va_start(arguments, option);
	for (size_t i = 0; i < 4; i++) {
		values[i] = (unsigned long)va_arg(arguments, long);
	}
	va_end(arguments);
	errno = EPERM;
	return option == refused_prctl
		? -1
		: (int)syscall(SYS_prctl, option, values[0], values[1], values[2], values[3]);
}

/* ---- a case ---- */

#define GIVEN(id) ((id) + 1U) /* 0: there is none */

/* A process that starts as such a user, and its configuration. */
struct row {
	const char *told; /* what it has to report */
	char *runs_as;    /* NULL: no user */
	uid_t real, user;
	gid_t real_group, group;
	uint32_t without;    /* these capabilities; of root: of all that it may have */
	gid_t runs_as_group; /* GIVEN() */
	char *checks[2];
	bool main_process;
	mode_t run; /* of the folder of the socket; 0: there is none */
	uid_t run_owner;
	gid_t socket_group; /* GIVEN() */
	mode_t root;        /* of the folder as the root directory; 0: it is not that */
	char *socket, *state, *listen, *xds, *dns, *other; /* "run/NAME": in the folder */
	bool received;                                     /* the predecessor's sockets */
	bool passes;                                       /* on to a successor without a user */
	uid_t refused_user;                                /* GIVEN() */
	gid_t refused_group;                               /* GIVEN() */
	int refused_prctl;
};

static char folder[SCRATCH_PATH];
static char bounding[128]; /* the capabilities that this process could get */

static char *below(const char *name)
{
	static char paths[4][SCRATCH_PATH + 32];
	static size_t next;
	char *path = paths[next++ % 4];
	snprintf(path, sizeof(paths[0]), "%s%s%s", *name == '/' ? "" : folder,
		*name == '/' ? "" : "/", name);
	return path;
}

static void begin(void)
{
	scratch_folder(folder);
	cr_assert_eq(chmod(folder, 0755), 0);
}

static void end(void)
{
	char command[SCRATCH_PATH + 16];
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	cr_assert_eq(system(command), 0);
}

TestSuite(privileges);

/* The value of a line of /proc/self/status, its blanks as one each. */
static const char *status_of(const char *name)
{
	static char text[128];
	char line[256];
	FILE *file = fopen("/proc/self/status", "re");
	text[0] = '\0';
	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':') {
			char *rest = line + strlen(name) + 1;
			for (char *word; (word = strtok_r(rest, " \t\n", &rest));) {
				size_t len = strlen(text);
				snprintf(text + len, sizeof(text) - len, "%s%s", len ? " " : "",
					word);
			}
		}
	}
	if (file) {
		fclose(file);
	}
	return text;
}

static void set_capabilities(uint32_t permitted, uint32_t inheritable)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];
	cr_assert_eq(syscall(SYS_capget, &header, data), 0);
	data[0].effective &= permitted;
	data[0].permitted &= permitted;
	data[0].inheritable = inheritable;
	cr_assert_eq(syscall(SYS_capset, &header, data), 0);
}

static void become(const struct row *row)
{
	static const gid_t groups[] = { 0, 5 };
	cr_assert_eq(setgroups(2, groups), 0);
	cr_assert_eq(setresgid(row->real_group, row->group, row->group), 0);
	if (row->user == 0) {
		/* As a container's runtime may do it. */
		set_capabilities(~0U, 1U << CAP_KILL | 1U << CAP_CHOWN);
		cr_assert_eq(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_KILL, 0, 0), 0);
	}
	cr_assert_eq(setresuid(row->real, row->user, row->user), 0);
	if (row->user) {
		set_capabilities(0, 0);
	}
	if (row->without) {
		set_capabilities(~row->without, 0);
	}
}

/* "users 65534 65534 65534 65534, groups 1 1 1 1 of 1, inh - prm kept ..." */
static void say_rights(void)
{
	if (access("/proc/self", F_OK) != 0) {
		return;
	}
	static const char *const names[] = { "Inh", "Prm", "Eff", "Bnd", "Amb" };
	dprintf(STDERR_FILENO, "users %s", status_of("Uid"));
	dprintf(STDERR_FILENO, ", groups %s", status_of("Gid"));
	dprintf(STDERR_FILENO, " of %s,", status_of("Groups"));
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char name[8];
		snprintf(name, sizeof(name), "Cap%s", names[i]);
		const char *set = status_of(name);
		dprintf(STDERR_FILENO, " %s",
			strcmp(set, bounding) == 0                     ? "all"
				: strcmp(set, "0000000000000000") == 0 ? "-"
				: strcmp(set, "00000000000000e0") == 0 /* setuid, setgid, kill */
				? "users"
				: "some");
	}
	dprintf(STDERR_FILENO, ", no new %s, keep %d\n", status_of("NoNewPrivs"),
		prctl(PR_GET_KEEPCAPS, 0, 0, 0, 0));
}

/* "NAME 0:0 755 ", or nothing when there is no such file. */
static void say_file(const char *name, const char *path)
{
	struct stat status;
	if (lstat(path, &status) == 0) {
		dprintf(STDERR_FILENO, "%s %u:%u %o ", name, (unsigned)status.st_uid,
			(unsigned)status.st_gid, status.st_mode & 07777);
	}
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* Files, and the sockets that are open. */
static void say_sockets(const struct config_agent *config, const struct upgrade *received)
{
	const struct http_place place = http_socket_find(config->socket);
	say_file("state", config->state_dir);
	say_file("run", below("run"));
	say_file("socket", config->socket);
	say_file("xds", below("run/xds"));
	dprintf(STDERR_FILENO, "%s%s%s%s", received->socket_place.inode == place.inode ? "" : "? ",
		is_open(received->socket_fd) ? "local " : "",
		is_open(received->listen_fd) ? "tcp " : "",
		is_open(received->xds_fd) ? "xds " : "");
	for (size_t i = 0; i < received->listen_count; i++) {
		const struct http_listen *listen = &received->listens[i];
		dprintf(STDERR_FILENO, "%s%s ", listen->name, is_open(listen->fd) ? "" : "?");
	}
	for (size_t i = 0; i < received->dns_count; i++) {
		const struct dns_socket *dns = &received->dns[i];
		dprintf(STDERR_FILENO, "%s/%s%s ", dns->address, dns->tcp ? "tcp" : "udp",
			is_open(dns->fd) ? "" : "?");
	}
}

static void run(const struct row *row)
{
	struct err err = ERR_INIT;
	char *names[] = { row->dns, "127.0.0.2:0" };
	struct config_check checks[3] = { { .user = row->checks[0] }, { .user = row->checks[1] },
		{ .user = "daemon" } };
	struct config_listen listens[] = { { .name = "one", .address = "127.0.0.1:0" },
		{ .name = "two", .address = row->other } };
	struct config config = { .agent = { .user = (row->runs_as ?: ""),
					 .group_id = row->runs_as_group - 1,
					 .socket_group_id = row->socket_group - 1,
					 .socket_mode = row->socket_group == 0 ? 0666 : 0660,
					 .socket = below(row->socket ?: "run/sock"),
					 .state_dir = below(row->state ?: "state"),
					 .listen = (row->listen ?: "") },
		.xds.listen = (row->xds ? below(row->xds) : ""),
		.dns = { .listen = names, .listen_count = row->dns ? 2 : 0 },
		.checks = checks,
		.check_count = row->checks[0] || row->checks[1] ? 2 : 0,
		.listens = listens,
		.listen_count = row->other ? 2 : 0 };
	struct agent agent = { .config = &config, .config_path = "berth.ini" };
	struct upgrade received = { .socket_fd = -1, .listen_fd = -1, .lock_fd = -1, .xds_fd = -1 };
	if (row->xds && strchr(row->xds, ':')) {
		config.xds.listen = row->xds;
	}
	if (row->received) {
		received.socket_fd = received.listen_fd = received.xds_fd = STDIN_FILENO;
		upgrade_add_listen(&received, "two", row->other, STDIN_FILENO);
		upgrade_add_dns_socket(&received, names[0], false, STDIN_FILENO);
		upgrade_add_dns_socket(&received, names[1], true, STDIN_FILENO);
	}
	if (row->root) {
		cr_assert(chroot(folder) == 0 && chdir("/") == 0 && chmod("/", row->root) == 0);
	}
	become(row);
	refused_user = row->refused_user - 1;
	refused_group = row->refused_group - 1;
	refused_prctl = row->refused_prctl;
	umask(0077);
	int code = agent_privileges_drop(&agent, row->main_process, &received, &err);
	if (code) {
		dprintf(STDERR_FILENO, "%s%s\n", err.msg, code == err.code ? "" : ", another code");
	} else {
		say_rights();
	}
	err_clear(&err);
	say_sockets(&config.agent, &received);
	if (row->passes) {
		agent_privileges_pass();
		dprintf(STDERR_FILENO, "passes ");
		say_rights();
		config.agent.user = "";
		cr_assert_eq(agent_privileges_drop(&agent, false, &received, &err), 0);
		say_rights();
	}
	upgrade_finish(&received);
}

/* Runs it in a process; what that writes to standard error, without times. */
static char *tell(const struct row *row, void (*what)(const struct row *row))
{
	static char told[8192];
	int out[2];
	char line[1024];
	int status = -1;
	cr_assert_eq(pipe(out), 0);
	pid_t child = fork();
	if (child == 0) {
		close(out[0]);
		dup2(out[1], STDERR_FILENO);
		close(out[1]);
		what(row);
		syscall(SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0);
		if (row->refused_user || row->refused_group || access("/proc/self", F_OK) != 0) {
			_exit(0);
		}
		exit(0); /* finds leaks */
	}
	close(out[1]);
	FILE *lines = fdopen(out[0], "r");
	told[0] = '\0';
	while (fgets(line, sizeof(line), lines)) {
		size_t len = strlen(told);
		snprintf(told + len, sizeof(told) - len, "%s",
			line[0] == '2' && strlen(line) > 25 ? line + 25 : line);
	}
	fclose(lines);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0, "%d: %s", status, told);
	return told;
}

static void expect(const struct row *rows, size_t count)
{
	rights_needed("users");
	snprintf(bounding, sizeof(bounding), "%s", status_of("CapBnd"));
	for (size_t i = 0; i < count; i++) {
		const struct row *row = &rows[i];
		begin();
		if (row->run) {
			cr_assert_eq(mkdir(below("run"), 0755), 0);
			cr_assert_eq(chown(below("run"), row->run_owner, row->run_owner), 0);
			cr_assert_eq(chmod(below("run"), row->run), 0);
		}
		char *told = tell(row, run);
		/* The folder has another name each time. */
		for (char *place = told; (place = strstr(place, folder));) {
			memmove(place, place + strlen(folder), strlen(place + strlen(folder)) + 1);
		}
		cr_expect_str_eq(told, row->told, "row %zu: %s", i, told);
		end();
	}
}

#define EXPECT(rows) expect(rows, ARRAY_LEN(rows))
#define AS_NOBODY_ALREADY .real = NOBODY, .user = NOBODY, .real_group = NOBODY, .group = NOBODY
#define RUNS(user, group) "info  agent: runs as user " user ", group " group ", "
#define WITHOUT "without capabilities"
#define WITH "with the capabilities setuid, setgid, kill for its checks\n"
#define IDS(user, group, rest)                                                                     \
	"users " user " " user " " user " " user ", groups " group " " group " " group " " group   \
	" of " rest ", keep 0\n"
#define NOTHING(user, group)                                                                       \
	RUNS(user, group)                                                                          \
	WITHOUT ", with no_new_privs\n" IDS(user, group, group ", - - - - -, no new 1")
#define MAIN_PROCESS RUNS("65534", "65534")
#define AS_NOBODY(capabilities) IDS("65534", "65534", "65534, " capabilities ", no new 0")
#define AS_NOBODY_WITHOUT IDS("65534", "65534", "65534, - - - - -, no new 1")
#define NOBODY_WITHOUT NOTHING("65534", "65534")
#define NOBODY_WITH RUNS("65534", "65534") WITH AS_NOBODY("- users users users -")
#define ROOT IDS("0", "0", "0 5, some all all all -, no new 0")
#define STAYED IDS("65534", "65534", "0 5, - - - all -, no new 0")
#define WARNING                                                                                    \
	"warn  agent: checks with a `user` of their own cannot run: the agent has no capability "  \
	"to change the user; let root start it\n"
#define FILES(user, group)                                                                         \
	"state " user ":" group " 755 run " user ":" group " 755 socket " user ":" group           \
	" 666 local "
#define OF_NOBODY FILES("65534", "65534")
#define OF_ROOT FILES("0", "0")
#define ROOTS_OF_1 "state 0:0 755 run 0:0 755 socket 0:1 666 local "
#define STATE "state 65534:65534 755 "
#define ROOTS_SOCKET STATE "run 0:0 755 socket 0:0 666 local "
#define UNBOUND "192.0.2.1:1: Cannot assign requested address\n"
#define REFUSED "Operation not permitted\n"

Test(privileges, user_groups_and_capabilities_are_given_up)
{
	static const struct row rows[] = {
		{ NOBODY_WITHOUT OF_NOBODY, "nobody", .real = 0 },
		{ MAIN_PROCESS WITHOUT "\n" AS_NOBODY("- - - all -") OF_NOBODY, "nobody",
			.main_process = true },
		{ MAIN_PROCESS WITH AS_NOBODY("- users users all -") OF_NOBODY, "nobody",
			.main_process = true, .checks = { "daemon" } },
		/* checks with users leave what they take */
		{ NOBODY_WITH OF_NOBODY, "nobody", .checks = { NULL, "daemon" } },
		{ NOBODY_WITH OF_NOBODY, "nobody", .checks = { "daemon", "" } },
		{ NOBODY_WITH OF_NOBODY, "nobody", .checks = { "nobody", "daemon" } },
		{ NOBODY_WITHOUT OF_NOBODY, "nobody", .checks = { NULL, "" } },
		{ NOBODY_WITHOUT OF_NOBODY, "nobody", .checks = { "nobody", "nobody" } },
		/* a group of its own, with a user and alone */
		{ NOTHING("65534", "1") FILES("65534", "1"), "nobody",
			.runs_as_group = GIVEN(DAEMON) },
		{ NOTHING("0", "1") "state 0:1 755 run 0:1 755 socket 0:0 666 local ", NULL,
			.runs_as_group = GIVEN(DAEMON) },
		/* a user that it is in part is another */
		{ NOTHING("0", "0") ROOTS_OF_1, NULL, .real_group = DAEMON, .group = DAEMON,
			.runs_as_group = GIVEN(0) },
		{ NOTHING("0", "0") OF_ROOT, NULL, .real = DAEMON, .runs_as_group = GIVEN(0) },
		{ NOTHING("0", "0") OF_ROOT, NULL, .real_group = DAEMON,
			.runs_as_group = GIVEN(0) },
		{ NOTHING("0", "0") ROOTS_OF_1, NULL, .group = DAEMON, .runs_as_group = GIVEN(0) },
		/* nothing is to change but what children would inherit */
		{ ROOT, NULL, .real = 0 },
		{ ROOT, "root", .real = 0 },
		{ STAYED, NULL, AS_NOBODY_ALREADY, .checks = { "daemon" } },
		{ STAYED, "nobody", AS_NOBODY_ALREADY },
		{ WARNING STAYED, "nobody", AS_NOBODY_ALREADY, .checks = { "daemon" } },
		/* an upgrade passes the capabilities on to the successor alone */
		{ NOBODY_WITHOUT OF_NOBODY "passes " AS_NOBODY_WITHOUT AS_NOBODY_WITHOUT, "nobody",
			.passes = true },
		{ NOBODY_WITH OF_NOBODY "passes " AS_NOBODY("users users users users users")
				AS_NOBODY("users users users users -"),
			"nobody", .checks = { "daemon" }, .passes = true },
		{ ROOT "passes " ROOT ROOT, NULL, .checks = { "daemon" }, .passes = true },
	};
	EXPECT(rows);
}

Test(privileges, rights_that_are_missing_are_an_error)
{
	static const struct row rows[] = {
		{ "only root can become another user: [agent] user and group say 1:1, this is "
		  "65534:65534\n",
			"daemon", AS_NOBODY_ALREADY },
		{ "there is no user no-such-user\n", "no-such-user", .real = 0 },
		{ "cannot become user 65534, group 65534: " REFUSED ROOTS_SOCKET, "nobody",
			.run = 0755, .without = 1U << CAP_SETUID },
		{ "cannot renounce privileges: " REFUSED ROOTS_SOCKET, "nobody", .run = 0755,
			.refused_prctl = PR_SET_NO_NEW_PRIVS },
		{ "cannot limit the capabilities: " REFUSED ROOTS_SOCKET, "nobody", .run = 0755,
			.without = 1U << CAP_KILL, .checks = { "daemon" } },
		{ "cannot act as user 65534, group 65534: " REFUSED STATE "run 0:0 777 ", "nobody",
			.run = 0777, .refused_user = GIVEN(NOBODY) },
		{ "cannot become root again: " REFUSED STATE
		  "run 0:0 777 socket 65534:65534 666 ? local ",
			"nobody", .run = 0777, .refused_user = GIVEN(0) },
		{ "cannot become root again: " REFUSED STATE
		  "run 0:0 777 socket 65534:65534 666 ? local ",
			"nobody", .run = 0777, .refused_group = GIVEN(0) },
		{ "as user 65534, since root makes no socket where others can write: "
		  "cannot make the socket /run/sock: Permission denied\n" STATE
		  "run 4711:4711 775 ",
			"nobody", .run = 0775, .run_owner = OTHER },
		{ "cannot act as user 65534, group 65534: " REFUSED STATE "run 4711:4711 775 ",
			"nobody", .run = 0775, .run_owner = OTHER, .without = 1U << CAP_SETUID },
		{ "cannot make the directory /dev/null/state: Not a directory\nrun 0:0 777 ",
			"nobody", .run = 0777, .state = "/dev/null/state" },
		/* addresses that cannot be bound */
		{ "cannot listen on " UNBOUND OF_NOBODY, "nobody", .listen = "192.0.2.1:1" },
		{ "[listen two]: cannot listen on " UNBOUND OF_NOBODY "one ", "nobody",
			.other = "192.0.2.1:1" },
		{ "cannot listen on " UNBOUND OF_NOBODY, "nobody", .xds = "192.0.2.1:1" },
		{ "/dev/null exists and is not a socket\n" OF_NOBODY, "nobody",
			.xds = "/dev/null" },
		{ "cannot serve DNS on 192.0.2.1:1 over UDP: "
		  "Cannot assign requested address\n" OF_NOBODY,
			"nobody", .dns = "192.0.2.1:1" },
	};
	EXPECT(rows);
}

Test(privileges, sockets_and_directories_are_made_before_the_user_changes)
{
	static const struct row rows[] = {
		{ NOBODY_WITHOUT STATE
			"run 0:0 755 socket 0:1 660 local tcp xds one two "
			"127.0.0.1:0/udp 127.0.0.1:0/tcp 127.0.0.2:0/udp 127.0.0.2:0/tcp ",
			"nobody", .run = 0755, .socket_group = GIVEN(DAEMON),
			.listen = "127.0.0.1:0", .other = "127.0.0.1:0", .xds = "127.0.0.1:0",
			.dns = "127.0.0.1:0" },
		{ NOBODY_WITHOUT STATE
			"run 65534:65534 755 local tcp xds two one "
			"127.0.0.1:0/udp 127.0.0.2:0/tcp 127.0.0.1:0/tcp 127.0.0.2:0/udp ",
			"nobody", .received = true, .listen = "127.0.0.1:0", .other = "127.0.0.1:0",
			.xds = "run/xds", .dns = "127.0.0.1:0" },
		/* where strangers can write, the user makes the sockets, and root no directory */
		{ NOBODY_WITHOUT STATE
			"run 0:0 777 socket 65534:65534 666 xds 65534:65534 666 local xds ",
			"nobody", .run = 0777, .xds = "run/xds" },
		{ NOBODY_WITHOUT STATE "run 0:0 777 socket 65534:1 660 xds 65534:1 660 local xds ",
			"nobody", .run = 0777, .socket_group = GIVEN(DAEMON), .xds = "run/xds" },
		{ NOBODY_WITHOUT "run 0:0 777 socket 65534:65534 666 local ", "nobody", .run = 0777,
			.state = "run/state", .socket = "run/below/sock" },
		/* in the root directory */
		{ RUNS("0", "1") WITHOUT ", with no_new_privs\nstate 0:1 755 socket 0:0 666 local ",
			NULL, .root = 0755, .runs_as_group = GIVEN(DAEMON), .socket = "/sock",
			.state = "/state" },
		{ RUNS("0", "1") WITHOUT ", with no_new_privs\nsocket 0:1 666 local ", NULL,
			.root = 0777, .runs_as_group = GIVEN(DAEMON), .socket = "/sock",
			.state = "/state" },
	};
	EXPECT(rows);
}

/* ---- a reload ---- */

/* The problems of a configuration that has checks with these users. */
static void refuse(const struct row *row)
{
	struct config_check checks[] = { { .name = "first", .user = "daemon" },
		{ .name = "none", .user = "" }, { .name = "null", .user = NULL },
		{ .name = "own", .user = "nobody" }, { .name = "strange", .user = "no-such-user" },
		{ .name = "more", .user = "bin" }, { .name = "beyond", .user = "daemon" } };
	struct config_check check = { .user = row->checks[0] };
	struct config config = { .agent = { .user = (row->runs_as ?: ""),
					 .group_id = row->runs_as_group - 1 },
		.checks = &check,
		.check_count = check.user != NULL };
	const struct agent agent = { .config = &config, .config_path = "berth.ini" };
	const struct config next = { .checks = checks, .check_count = 6 };
	struct config_problems problems = { 0 };
	become(row);
	agent_privileges_refuse_checks(&agent, &next, &problems);
	for (size_t i = 0; i < problems.count; i++) {
		dprintf(STDERR_FILENO, "%s:%d: %s\n", problems.items[i].file,
			problems.items[i].line, problems.items[i].message);
	}
	config_problems_finish(&problems);
}

#define REFUSED_CHECK(check, user)                                                                 \
	"berth.ini:0: [check " check "] `user`: the agent cannot become " user                     \
	" any more: it gave up its privileges for [agent] user and group when no check needed "    \
	"them; restart it\n"
#define REFUSED_CHECKS REFUSED_CHECK("first", "daemon") REFUSED_CHECK("more", "bin")

Test(privileges, a_reload_cannot_add_the_first_check_with_a_user)
{
	static const struct row rows[] = { { "", NULL, AS_NOBODY_ALREADY }, /* nothing given up */
		{ REFUSED_CHECKS, "nobody", AS_NOBODY_ALREADY },
		{ REFUSED_CHECKS, NULL, AS_NOBODY_ALREADY, .runs_as_group = GIVEN(NOBODY) },
		{ "", "nobody", .real = 0 }, /* root may */
		{ "", "nobody", AS_NOBODY_ALREADY, .checks = { "daemon" } } };
	rights_needed("users");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cr_expect_str_eq(tell(&rows[i], refuse), rows[i].told, "%zu", i);
	}
}
