/*
 * The agent's own privileges: what is left of user, groups and capabilities, and whose sockets and
 * directories there are. Each case is in a process of its own, which says what has become of it.
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
#include "tests/support/staged.h"

enum { NOBODY = 65534, DAEMON = 1, OTHER = 4711 };

/* setuid, setgid and kill, as /proc shows them. */
#define FOR_USERS "00000000000000e0"
#define NO_CAPABILITIES "0000000000000000"

struct stage {
	char folder[SCRATCH_PATH];
	char state_dir[SCRATCH_PATH + 16];
	char socket[SCRATCH_PATH + 16];
	char xds[SCRATCH_PATH + 16];
	char bounding[128]; /* the capabilities that this process could get */
	struct config config;
	struct config_check checks[3];
	struct config_listen listens[2];
	struct agent agent;
	struct upgrade received;
	char told[8192]; /* what the process wrote */
};

/* ---- calls that fail ---- */

static uid_t refused_user = NOBODY + 1;  /* seteuid() */
static gid_t refused_group = NOBODY + 1; /* setegid() */
static int refused_prctl;                /* prctl(); 0: none */

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

/* The value of a line of /proc/self/status, its blanks as one each. */
static void find_status(const char *name, char text[128])
{
	char line[256];
	FILE *file = fopen("/proc/self/status", "re");
	text[0] = '\0';
	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':') {
			char *rest = line + strlen(name) + 1;
			for (char *word; (word = strtok_r(rest, " \t\n", &rest));) {
				size_t len = strlen(text);
				snprintf(text + len, 128 - len, "%s%s", len ? " " : "", word);
			}
		}
	}
	if (file) {
		fclose(file);
	}
}

static void empty_agent(struct config_agent *agent)
{
	*agent = (struct config_agent){ .user = "",
		.group_id = (unsigned)-1,
		.socket_group_id = (unsigned)-1,
		.socket_mode = 0666,
		.listen = "" };
}

static struct stage *begin(struct stage *stage)
{
	struct config *config = &stage->config;
	scratch_folder(stage->folder);
	cr_assert_eq(chmod(stage->folder, 0755), 0);
	snprintf(stage->state_dir, sizeof(stage->state_dir), "%s/state", stage->folder);
	snprintf(stage->socket, sizeof(stage->socket), "%s/run/sock", stage->folder);
	snprintf(stage->xds, sizeof(stage->xds), "%s/run/xds", stage->folder);
	find_status("CapBnd", stage->bounding);
	empty_agent(&config->agent);
	config->agent.state_dir = stage->state_dir;
	config->agent.socket = stage->socket;
	config->xds.listen = "";
	config->checks = stage->checks;
	config->listens = stage->listens;
	stage->listens[0] = (struct config_listen){ .name = "one", .address = "127.0.0.1:0" };
	stage->listens[1] = (struct config_listen){ .name = "two", .address = "127.0.0.1:0" };
	stage->agent.config = config;
	stage->agent.config_path = "berth.ini";
	stage->received =
		(struct upgrade){ .socket_fd = -1, .listen_fd = -1, .lock_fd = -1, .xds_fd = -1 };
	return stage;
}

static void end(struct stage *stage)
{
	char command[SCRATCH_PATH + 16];
	snprintf(command, sizeof(command), "rm -rf %s", stage->folder);
	cr_assert_eq(system(command), 0);
}

#define STAGED(name)                                                                               \
	STAGED_TEST(privileges, name, struct stage *, stage, begin(&(struct stage){ 0 }), end)

/* The folder of the sockets. */
static void make_run(const struct stage *stage, uid_t user, gid_t group, mode_t mode)
{
	char run[SCRATCH_PATH + 16];
	snprintf(run, sizeof(run), "%s/run", stage->folder);
	cr_assert_eq(mkdir(run, 0755), 0);
	cr_assert_eq(chown(run, user, group), 0);
	cr_assert_eq(chmod(run, mode), 0);
}

/* As which user the next process begins, and with which capabilities besides. */
struct beginning {
	uid_t real;
	uid_t user;
	gid_t real_group;
	gid_t group;
	uint32_t without; /* these capabilities */
};

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

static void become(const struct beginning *as)
{
	static const gid_t groups[] = { 0, 5 };
	cr_assert_eq(setgroups(2, groups), 0);
	cr_assert_eq(setresgid(as->real_group, as->group, as->group), 0);
	if (as->user == 0) {
		/* As a container's runtime may do it. */
		set_capabilities(~0U, 1U << CAP_KILL | 1U << CAP_CHOWN);
		cr_assert_eq(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_KILL, 0, 0), 0);
	}
	cr_assert_eq(setresuid(as->real, as->user, as->user), 0);
	if (as->without) {
		set_capabilities(~as->without, 0);
	}
}

/* Runs it in a process; what it writes to standard error is in stage->told, without times. */
static const char *tell(
	struct stage *stage, const struct beginning *as, void (*run)(struct stage *stage))
{
	int out[2];
	char line[1024];
	int status = -1;
	cr_assert_eq(pipe(out), 0);
	pid_t child = fork();
	if (child == 0) {
		close(out[0]);
		dup2(out[1], STDERR_FILENO);
		close(out[1]);
		become(as);
		run(stage);
		upgrade_finish(&stage->received);
		syscall(SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0);
		if (refused_user <= NOBODY || refused_group <= NOBODY ||
			access("/proc/self", F_OK) != 0) {
			_exit(0);
		}
		exit(0); /* finds leaks */
	}
	close(out[1]);
	FILE *lines = fdopen(out[0], "r");
	stage->told[0] = '\0';
	while (fgets(line, sizeof(line), lines)) {
		size_t len = strlen(stage->told);
		snprintf(stage->told + len, sizeof(stage->told) - len, "%s",
			line[0] == '2' && strlen(line) > 25 ? line + 25 : line);
	}
	fclose(lines);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0, "%d: %s", status, stage->told);
	return stage->told;
}

static void say_rights(const struct stage *stage)
{
	static const char *const names[] = { "Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff",
		"CapBnd", "CapAmb", "NoNewPrivs" };
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char text[128];
		find_status(names[i], text);
		dprintf(STDERR_FILENO, "%s %s; ", names[i],
			strcmp(names[i], "CapBnd") == 0 && strcmp(text, stage->bounding) == 0
				? "all"
				: text);
	}
	dprintf(STDERR_FILENO, "KeepCaps %d\n", prctl(PR_GET_KEEPCAPS, 0, 0, 0, 0));
}

static void drop_with(struct stage *stage, bool main_process)
{
	struct err err = ERR_INIT;
	int code = agent_privileges_drop(&stage->agent, main_process, &stage->received, &err);
	if (code) {
		dprintf(STDERR_FILENO, "%s%s\n", err.msg, code == err.code ? "" : ", another code");
		err_clear(&err);
	} else {
		say_rights(stage);
	}
}

static void drop(struct stage *stage)
{
	drop_with(stage, false);
}

static void drop_for_a_main_process(struct stage *stage)
{
	drop_with(stage, true);
}

static const struct beginning root = { 0 };
static const struct beginning nobody = { NOBODY, NOBODY, NOBODY, NOBODY, 0 };

/* Of a process that was `user` and has become it. */
#define RIGHTS(user, group, groups, inherited, own, bounding, ambient, no_new)                     \
	"Uid " user " " user " " user " " user "; Gid " group " " group " " group " " group        \
	"; Groups " groups "; CapInh " inherited "; CapPrm " own "; CapEff " own                   \
	"; CapBnd " bounding "; CapAmb " ambient "; NoNewPrivs " no_new "; KeepCaps 0\n"

#define AS_NOBODY(own, bounding, no_new)                                                           \
	RIGHTS("65534", "65534", "65534", NO_CAPABILITIES, own, bounding, NO_CAPABILITIES, no_new)

/* ---- user, groups, capabilities ---- */

STAGED(an_agent_with_a_user_has_no_capability_and_can_get_none)
{
	rights_needed("users");
	stage->config.agent.user = "nobody";
	cr_expect_str_eq(tell(stage, &root, drop),
		"info  agent: runs as user 65534, group 65534, without capabilities, with "
		"no_new_privs\n" AS_NOBODY(NO_CAPABILITIES, NO_CAPABILITIES, "1"));
}

STAGED(a_main_process_may_hold_programs_with_another_user)
{
	rights_needed("users");
	stage->config.agent.user = "nobody";
	cr_expect_str_eq(tell(stage, &root, drop_for_a_main_process),
		"info  agent: runs as user 65534, group 65534, without capabilities\n" AS_NOBODY(
			NO_CAPABILITIES, "all", "0"));
	stage->checks[0].user = "daemon";
	stage->config.check_count = 1;
	cr_expect_str_eq(tell(stage, &root, drop_for_a_main_process),
		"info  agent: runs as user 65534, group 65534, with the capabilities setuid, "
		"setgid, kill for its checks\n" AS_NOBODY(FOR_USERS, "all", "0"));
}

STAGED(checks_with_users_leave_what_they_take)
{
	static const struct {
		const char *users[2]; /* and of one that is not of the agent */
		bool leave;
	} cases[] = { { { NULL, "daemon" }, true }, { { "daemon", "" }, true },
		{ { "nobody", "daemon" }, true }, { { NULL, "" }, false },
		{ { "nobody", "nobody" }, false } };
	rights_needed("users");
	stage->config.agent.user = "nobody";
	stage->config.check_count = 2;
	stage->checks[2].user = "daemon";
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		stage->checks[0].user = (char *)(uintptr_t)cases[i].users[0];
		stage->checks[1].user = (char *)(uintptr_t)cases[i].users[1];
		cr_expect_str_eq(tell(stage, &root, drop),
			cases[i].leave ? "info  agent: runs as user 65534, group 65534, with the "
					 "capabilities setuid, setgid, kill for its "
					 "checks\n" AS_NOBODY(FOR_USERS, FOR_USERS, "0")
				       : "info  agent: runs as user 65534, group 65534, without "
					 "capabilities, with no_new_privs\n" AS_NOBODY(
						 NO_CAPABILITIES, NO_CAPABILITIES, "1"),
			"%zu: %s", i, stage->told);
	}
}

STAGED(a_group_alone_leaves_the_user)
{
	rights_needed("users");
	stage->config.agent.group_id = DAEMON;
	cr_expect_str_eq(tell(stage, &root, drop),
		"info  agent: runs as user 0, group 1, without capabilities, with "
		"no_new_privs\n" RIGHTS("0", "1", "1", NO_CAPABILITIES, NO_CAPABILITIES,
			NO_CAPABILITIES, NO_CAPABILITIES, "1"));
	stage->config.agent.user = "nobody";
	cr_expect_str_eq(tell(stage, &root, drop),
		"info  agent: runs as user 65534, group 1, without capabilities, with "
		"no_new_privs\n" RIGHTS("65534", "1", "1", NO_CAPABILITIES, NO_CAPABILITIES,
			NO_CAPABILITIES, NO_CAPABILITIES, "1"));
}

STAGED(a_group_of_number_0_is_one_too)
{
	const struct beginning other = { .real_group = DAEMON, .group = DAEMON };
	rights_needed("users");
	stage->config.agent.group_id = 0;
	tell(stage, &other, drop);
	cr_expect_not_null(strstr(stage->told, "runs as user 0, group 0"), "%s", stage->told);
	cr_expect_not_null(strstr(stage->told, "Gid 0 0 0 0; Groups 0; "), "%s", stage->told);
}

STAGED(without_user_and_group_no_user_is_missed)
{
	rights_needed("users");
	stage->checks[0].user = "daemon";
	stage->config.check_count = 1;
	tell(stage, &nobody, drop);
	cr_expect_eq(strncmp(stage->told, "Uid 65534", 9), 0, "%s", stage->told);
}

STAGED(without_user_and_group_nothing_changes_but_what_children_would_inherit)
{
	rights_needed("users");
	tell(stage, &root, drop);
	cr_expect_null(strstr(stage->told, "runs as"), "%s", stage->told);
	cr_expect_not_null(strstr(stage->told, "Uid 0 0 0 0; Gid 0 0 0 0; Groups 0 5; CapInh "),
		"%s", stage->told);
	cr_expect_not_null(
		strstr(stage->told,
			"CapBnd all; CapAmb " NO_CAPABILITIES "; NoNewPrivs 0; KeepCaps 0\n"),
		"%s", stage->told);
	cr_expect_neq(access(stage->state_dir, F_OK), 0);
	cr_expect_neq(access(stage->socket, F_OK), 0);
}

STAGED(a_user_that_it_is_already_needs_nothing)
{
	static const char warning[] =
		"warn  agent: checks with a `user` of their own cannot run: the agent has no "
		"capability to change the user; let root start it\n";
	rights_needed("users");
	stage->config.agent.user = "nobody";
	tell(stage, &nobody, drop);
	cr_expect_eq(strncmp(stage->told, "Uid 65534", 9), 0, "%s", stage->told);
	cr_expect_neq(access(stage->socket, F_OK), 0);
	stage->checks[0].user = "daemon";
	stage->config.check_count = 1;
	tell(stage, &nobody, drop);
	cr_expect_eq(strncmp(stage->told, warning, strlen(warning)), 0, "%s", stage->told);
	stage->config.agent.user = "root";
	tell(stage, &root, drop);
	cr_expect_eq(strncmp(stage->told, "Uid 0", 5), 0, "%s", stage->told);
	cr_expect_neq(access(stage->socket, F_OK), 0);
}

STAGED(a_user_that_it_is_in_part_is_another)
{
	static const struct beginning parts[] = { { DAEMON, 0, 0, 0, 0 }, { 0, 0, DAEMON, 0, 0 },
		{ 0, 0, 0, DAEMON, 0 } };
	rights_needed("users");
	stage->config.agent.user = "root";
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		tell(stage, &parts[i], drop);
		cr_expect_not_null(
			strstr(stage->told, "runs as user 0, group 0"), "%zu: %s", i, stage->told);
		cr_expect_not_null(strstr(stage->told, "Uid 0 0 0 0; Gid 0 0 0 0; "), "%zu: %s", i,
			stage->told);
		cr_expect_eq(unlink(stage->socket), 0);
	}
}

STAGED(only_root_becomes_another)
{
	rights_needed("users");
	stage->config.agent.user = "daemon";
	cr_expect_str_eq(tell(stage, &nobody, drop),
		"only root can become another user: [agent] user and group say 1:1, this is "
		"65534:65534\n");
	stage->config.agent.user = "no-such-user";
	cr_expect_str_eq(tell(stage, &root, drop), "there is no user no-such-user\n");
	cr_expect_neq(access(stage->socket, F_OK), 0);
	stage->config.agent.user = "nobody";
	make_run(stage, 0, 0, 0755);
	const struct beginning bound = { .without = 1U << CAP_SETUID };
	cr_expect_str_eq(tell(stage, &bound, drop),
		"cannot become user 65534, group 65534: Operation not permitted\n");
}

STAGED(rights_that_cannot_be_given_up_are_an_error)
{
	const struct beginning bound = { .without = 1U << CAP_KILL };
	rights_needed("users");
	make_run(stage, 0, 0, 0755);
	stage->config.agent.user = "nobody";
	refused_prctl = PR_SET_NO_NEW_PRIVS;
	cr_expect_str_eq(
		tell(stage, &root, drop), "cannot renounce privileges: Operation not permitted\n");
	refused_prctl = 0;
	stage->checks[0].user = "daemon";
	stage->config.check_count = 1;
	cr_expect_str_eq(tell(stage, &bound, drop),
		"cannot limit the capabilities: Operation not permitted\n");
}

/* ---- sockets and directories ---- */

static void say_file(const char *name, const char *path)
{
	struct stat status;
	if (lstat(path, &status) == 0) {
		dprintf(STDERR_FILENO, "%s of %u:%u, %o\n", name, (unsigned)status.st_uid,
			(unsigned)status.st_gid, status.st_mode & 07777);
	} else {
		dprintf(STDERR_FILENO, "%s is absent\n", name);
	}
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void say_sockets(struct stage *stage)
{
	struct upgrade *received = &stage->received;
	const struct http_place place = http_socket_find(stage->config.agent.socket);
	say_file("state", stage->config.agent.state_dir);
	say_file("socket", stage->config.agent.socket);
	if (received->socket_place.inode != place.inode) {
		dprintf(STDERR_FILENO, "at another place\n");
	}
	dprintf(STDERR_FILENO, "socket %d, listen %d, xds %d,", is_open(received->socket_fd),
		is_open(received->listen_fd), is_open(received->xds_fd));
	for (size_t i = 0; i < received->listen_count; i++) {
		const struct http_listen *listen = &received->listens[i];
		dprintf(STDERR_FILENO, " %s %s %d,", listen->name, listen->address,
			is_open(listen->fd));
	}
	for (size_t i = 0; i < received->dns_count; i++) {
		const struct dns_socket *dns = &received->dns[i];
		dprintf(STDERR_FILENO, " %s %s %d,", dns->address, dns->tcp ? "tcp" : "udp",
			is_open(dns->fd));
	}
	dprintf(STDERR_FILENO, "\n");
}

/* Drops, and says which sockets there are, without the rights. */
static void bind_all(struct stage *stage)
{
	struct err err = ERR_INIT;
	umask(0077);
	log_set(LOG_LEVEL_ERROR, false);
	if (agent_privileges_drop(&stage->agent, false, &stage->received, &err)) {
		dprintf(STDERR_FILENO, "%s\n", err.msg);
	}
	err_clear(&err);
	say_sockets(stage);
}

STAGED(directories_and_the_socket_are_made_before_the_user_changes)
{
	rights_needed("users");
	stage->config.agent.user = "nobody";
	cr_expect_str_eq(tell(stage, &root, bind_all),
		"state of 65534:65534, 755\nsocket of 65534:65534, 666\n"
		"socket 1, listen 0, xds 0,\n");
	struct stat status;
	cr_assert_eq(lstat(stage->folder, &status), 0);
	cr_expect_eq(status.st_uid, 0);
	char run[SCRATCH_PATH + 16];
	snprintf(run, sizeof(run), "%s/run", stage->folder);
	cr_assert_eq(lstat(run, &status), 0);
	cr_expect_eq(status.st_uid, NOBODY);
	cr_expect_eq(status.st_gid, NOBODY);
}

STAGED(every_address_is_bound)
{
	static char *const names[] = { "127.0.0.1:0", "127.0.0.2:0" };
	rights_needed("users");
	make_run(stage, 0, 0, 0755);
	stage->config.agent.user = "nobody";
	stage->config.agent.listen = "127.0.0.1:0";
	stage->config.agent.socket_group_id = DAEMON;
	stage->config.agent.socket_mode = 0660;
	stage->config.listen_count = 2;
	stage->config.dns.listen = (char **)(uintptr_t)names;
	stage->config.dns.listen_count = 2;
	stage->config.xds.listen = "127.0.0.1:0";
	cr_expect_str_eq(tell(stage, &root, bind_all),
		"state of 65534:65534, 755\nsocket of 0:1, 660\nsocket 1, listen 1, xds 1, one "
		"127.0.0.1:0 1, two 127.0.0.1:0 1, 127.0.0.1:0 udp 1, 127.0.0.1:0 tcp 1, "
		"127.0.0.2:0 udp 1, 127.0.0.2:0 tcp 1,\n");
}

STAGED(a_predecessors_sockets_are_not_bound_again)
{
	static char *const names[] = { "127.0.0.1:0", "127.0.0.2:0" };
	struct upgrade *received = &stage->received;
	rights_needed("users");
	stage->config.agent.user = "nobody";
	stage->config.agent.listen = "127.0.0.1:0";
	stage->config.listen_count = 2;
	stage->config.dns.listen = (char **)(uintptr_t)names;
	stage->config.dns.listen_count = 2;
	stage->config.xds.listen = stage->xds;
	received->socket_fd = received->listen_fd = received->xds_fd = STDIN_FILENO;
	upgrade_add_listen(received, "two", "127.0.0.1:0", STDIN_FILENO);
	upgrade_add_dns_socket(received, "127.0.0.1:0", false, STDIN_FILENO);
	upgrade_add_dns_socket(received, "127.0.0.2:0", true, STDIN_FILENO);
	cr_expect_str_eq(tell(stage, &root, bind_all),
		"state of 65534:65534, 755\nsocket is absent\nsocket 1, listen 1, xds 1, two "
		"127.0.0.1:0 1, one 127.0.0.1:0 1, 127.0.0.1:0 udp 1, 127.0.0.2:0 tcp 1, "
		"127.0.0.1:0 tcp 1, 127.0.0.2:0 udp 1,\n");
	upgrade_finish(received);
	cr_expect_neq(access(stage->xds, F_OK), 0);
}

STAGED(an_address_that_cannot_be_bound_is_an_error)
{
	static char *const names[] = { "192.0.2.1:1" };
	struct config *config = &stage->config;
	rights_needed("users");
	config->agent.user = "nobody";
	stage->listens[1].address = "192.0.2.1:1";
	for (int i = 0; i < 5; i++) {
		config->agent.listen = i == 0 ? "192.0.2.1:1" : "";
		config->listen_count = i == 1 ? 2 : 0;
		config->xds.listen = i == 2 ? "192.0.2.1:1" : i == 3 ? "/dev/null" : "";
		config->dns.listen = (char **)(uintptr_t)names;
		config->dns.listen_count = i == 4;
		tell(stage, &root, drop);
		cr_expect_not_null(strstr(stage->told, i == 3 ? "/dev/null" : "192.0.2.1:1"),
			"%d: %s", i, stage->told);
		cr_expect_eq(
			strncmp(stage->told, "[listen two]: ", 14) == 0, i == 1, "%s", stage->told);
		cr_expect_null(strstr(stage->told, "Uid"), "%d: %s", i, stage->told);
		unlink(stage->socket);
	}
}

STAGED(where_strangers_can_write_the_user_makes_the_sockets)
{
	rights_needed("users");
	make_run(stage, 0, 0, 0777);
	stage->config.agent.user = "nobody";
	stage->config.xds.listen = stage->xds;
	cr_expect_str_eq(tell(stage, &root, bind_all),
		"state of 65534:65534, 755\nsocket of 65534:65534, 666\n"
		"socket 1, listen 0, xds 1,\n");
	cr_expect_eq(unlink(stage->socket), 0);
	cr_expect_eq(unlink(stage->xds), 0);
	stage->config.agent.socket_group_id = DAEMON;
	cr_expect_str_eq(tell(stage, &root, bind_all),
		"state of 65534:65534, 755\nsocket of 65534:1, 666\n"
		"socket 1, listen 0, xds 1,\n");
	cr_expect_eq(unlink(stage->socket), 0);
	cr_expect_eq(unlink(stage->xds), 0);
	/* It is root again in between: the rights are as without strangers. */
	tell(stage, &root, drop);
	cr_expect_not_null(strstr(stage->told, AS_NOBODY(NO_CAPABILITIES, NO_CAPABILITIES, "1")),
		"%s", stage->told);
}

STAGED(a_socket_of_the_user_whose_way_there_or_back_fails_is_an_error)
{
	rights_needed("users");
	make_run(stage, 0, 0, 0777);
	stage->config.agent.user = "nobody";
	refused_user = NOBODY;
	cr_expect_str_eq(tell(stage, &root, drop),
		"cannot act as user 65534, group 65534: Operation not permitted\n");
	refused_user = 0;
	cr_expect_str_eq(
		tell(stage, &root, drop), "cannot become root again: Operation not permitted\n");
	refused_user = NOBODY + 1;
	refused_group = 0;
	cr_expect_str_eq(
		tell(stage, &root, drop), "cannot become root again: Operation not permitted\n");
	refused_group = NOBODY + 1;
}

STAGED(a_socket_that_root_cannot_make_is_an_error_of_its_own)
{
	rights_needed("users");
	make_run(stage, 0, 0, 0755);
	stage->config.agent.user = "nobody";
	int fd = open(stage->socket, O_WRONLY | O_CREAT, 0600);
	cr_assert_geq(fd, 0);
	close(fd);
	tell(stage, &root, drop);
	cr_expect_eq(
		strncmp(stage->told, stage->socket, strlen(stage->socket)), 0, "%s", stage->told);
	cr_expect_not_null(strstr(stage->told, " exists and is not a socket\n"), "%s", stage->told);
}

STAGED(a_directory_of_strangers_that_the_user_cannot_write_is_an_error)
{
	char text[2 * SCRATCH_PATH];
	rights_needed("users");
	make_run(stage, OTHER, OTHER, 0775);
	stage->config.agent.user = "nobody";
	tell(stage, &root, drop);
	cr_expect_eq(
		strncmp(stage->told,
			"as user 65534, since root makes no socket where others can write: ", 66),
		0, "%s", stage->told);
	snprintf(text, sizeof(text), "%s", stage->socket);
	cr_expect_not_null(strstr(stage->told, text), "%s", stage->told);
	const struct beginning bound = { .without = 1U << CAP_SETUID };
	cr_expect_str_eq(tell(stage, &bound, drop),
		"cannot act as user 65534, group 65534: Operation not permitted\n");
}

STAGED(where_strangers_can_write_no_directory_is_made)
{
	rights_needed("users");
	make_run(stage, 0, 0, 0777);
	snprintf(stage->state_dir, sizeof(stage->state_dir), "%s/run/state", stage->folder);
	stage->config.agent.user = "nobody";
	cr_expect_str_eq(tell(stage, &root, bind_all),
		"state is absent\nsocket of 65534:65534, 666\nsocket 1, listen 0, xds 0,\n");
	char below[SCRATCH_PATH + 24];
	snprintf(below, sizeof(below), "%s/run/below/sock", stage->folder);
	stage->config.agent.socket = below;
	/* The user makes it with the socket, when it binds that. */
	cr_expect_str_eq(tell(stage, &root, bind_all),
		"state is absent\nsocket of 65534:65534, 666\nsocket 1, listen 0, xds 0,\n");
	stage->config.agent.socket = stage->socket;
	stage->config.agent.state_dir = "/dev/null/state";
	tell(stage, &root, drop);
	cr_expect_not_null(strstr(stage->told, "/dev/null"), "%s", stage->told);
	cr_expect_null(strstr(stage->told, "Uid"), "%s", stage->told);
}

static void bind_in_the_root(struct stage *stage)
{
	cr_assert_eq(chroot(stage->folder), 0);
	cr_assert_eq(chdir("/"), 0);
	stage->config.agent.socket = "/sock";
	stage->config.agent.state_dir = "/state";
	bind_all(stage);
}

STAGED(a_socket_in_the_root_directory_is_judged_by_that)
{
	rights_needed("users");
	stage->config.agent.group_id = DAEMON;
	tell(stage, &root, bind_all); /* elsewhere, by a group of its own */
	cr_expect_not_null(strstr(stage->told, "socket of 0:"), "%s", stage->told);
	cr_expect_str_eq(tell(stage, &root, bind_in_the_root),
		"state of 0:1, 755\nsocket of 0:0, 666\nsocket 1, listen 0, xds 0,\n");
	cr_assert_eq(chmod(stage->folder, 0777), 0);
	snprintf(stage->socket, sizeof(stage->socket), "%s/sock", stage->folder);
	cr_assert_eq(unlink(stage->socket), 0);
	cr_expect_str_eq(tell(stage, &root, bind_in_the_root),
		"state of 0:1, 755\nsocket of 0:1, 666\nsocket 1, listen 0, xds 0,\n");
}

/* ---- later: a reload, an upgrade ---- */

/* The problems of a configuration that has checks with these users. */
static void refuse(struct stage *stage)
{
	struct config_check checks[] = { { .name = "first", .user = "daemon" },
		{ .name = "none", .user = "" }, { .name = "null", .user = NULL },
		{ .name = "own", .user = "nobody" }, { .name = "strange", .user = "no-such-user" },
		{ .name = "other", .user = "daemon" }, { .name = "more", .user = "bin" },
		{ .name = "beyond", .user = "daemon" } };
	const struct config next = { .checks = checks, .check_count = 7 };
	struct config_problems problems = { 0 };
	agent_privileges_refuse_checks(&stage->agent, &next, &problems);
	for (size_t i = 0; i < problems.count; i++) {
		dprintf(STDERR_FILENO, "%s:%d: %s\n", problems.items[i].file,
			problems.items[i].line, problems.items[i].message);
	}
	config_problems_finish(&problems);
}

#define REFUSED(check, user)                                                                       \
	"berth.ini:0: [check " check "] `user`: the agent cannot become " user                     \
	" any more: it gave up its privileges for [agent] user and group when no check needed "    \
	"them; restart it\n"

STAGED(a_reload_cannot_add_the_first_check_with_a_user)
{
	rights_needed("users");
	cr_expect_str_eq(tell(stage, &nobody, refuse), "", "nothing was given up");
	stage->config.agent.user = "nobody";
	cr_expect_str_eq(tell(stage, &nobody, refuse),
		REFUSED("first", "daemon") REFUSED("other", "daemon") REFUSED("more", "bin"));
	stage->config.agent.user = "";
	stage->config.agent.group_id = NOBODY;
	cr_expect_str_eq(tell(stage, &nobody, refuse),
		REFUSED("first", "daemon") REFUSED("other", "daemon") REFUSED("more", "bin"));
	cr_expect_str_eq(tell(stage, &root, refuse), "", "root may");
	stage->checks[0].user = "daemon";
	stage->config.check_count = 1;
	cr_expect_str_eq(tell(stage, &nobody, refuse), "", "there was one from the start");
}

static void pass(struct stage *stage)
{
	log_set(LOG_LEVEL_ERROR, false);
	struct err err = ERR_INIT;
	cr_assert_eq(agent_privileges_drop(&stage->agent, false, &stage->received, &err), 0);
	agent_privileges_pass();
	say_rights(stage);
	stage->config.agent.user = "";
	drop(stage);
}

STAGED(an_upgrade_passes_the_capabilities_on_to_the_successor_alone)
{
	rights_needed("users");
	stage->config.agent.user = "nobody";
	cr_expect_str_eq(tell(stage, &root, pass),
		AS_NOBODY(NO_CAPABILITIES, NO_CAPABILITIES, "1")
			AS_NOBODY(NO_CAPABILITIES, NO_CAPABILITIES, "1"),
		"there is none to pass");
	cr_assert_eq(unlink(stage->socket), 0);
	stage->checks[0].user = "daemon";
	stage->config.check_count = 1;
	cr_expect_str_eq(tell(stage, &root, pass),
		RIGHTS("65534", "65534", "65534", FOR_USERS, FOR_USERS, FOR_USERS, FOR_USERS, "0")
			RIGHTS("65534", "65534", "65534", FOR_USERS, FOR_USERS, FOR_USERS,
				NO_CAPABILITIES, "0"));
	stage->config.agent.user = "";
	tell(stage, &root, pass);
	const char *passed = strstr(stage->told, "CapAmb ");
	cr_expect_eq(strncmp(passed + 7, NO_CAPABILITIES, strlen(NO_CAPABILITIES)), 0, "%s",
		stage->told);
	cr_expect_null(strstr(stage->told, FOR_USERS), "%s", stage->told);
}
