#include "agent/life/privileges.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/core/state.h"
#include "agent/base/allocate.h"
#include "agent/base/directory.h"
#include "agent/base/log.h"
#include "lib/base/array.h"
#include "lib/base/trust.h"
#include "agent/config/problems.h"
#include "agent/http/socket.h"

enum { CAPABILITIES = 64 };

/* For checks that run as users of their own: to become that user, and to end what it started. */
static const int for_users[] = { CAP_SETUID, CAP_SETGID, CAP_KILL };

struct identity {
	uid_t uid;
	gid_t gid;
	const char *name; /* of the user, whose other groups are taken too; NULL: none */
};

/* ---- user and group ---- */

/* The groups of the configuration were found when it was read. */
static int find_identity(
	const struct config_agent *config, struct identity *ret_identity, struct err *err)
{
	*ret_identity = (struct identity){ .uid = geteuid(), .gid = getegid() };
	if (*config->user) {
		const struct passwd *entry = getpwnam(config->user);
		if (!entry) {
			return err_set(err, BERTH_FAILED, "there is no user %s", config->user);
		}
		ret_identity->name = config->user;
		ret_identity->uid = entry->pw_uid;
		ret_identity->gid = entry->pw_gid;
	}
	if (config->group_id != (unsigned)-1) {
		ret_identity->gid = config->group_id;
	}
	return 0;
}

static bool is_ours(const struct identity *identity)
{
	return identity->uid == geteuid() && identity->uid == getuid() &&
		identity->gid == getegid() && identity->gid == getgid();
}

static int take_groups(const struct identity *identity)
{
	return identity->name ? initgroups(identity->name, identity->gid)
			      : setgroups(1, &identity->gid);
}

static int become(const struct identity *identity, struct err *err)
{
	bool changed = take_groups(identity) == 0 &&
		setresgid(identity->gid, identity->gid, identity->gid) == 0 &&
		setresuid(identity->uid, identity->uid, identity->uid) == 0;
	return changed ? 0
		       : err_set_errno(err, BERTH_FAILED, errno, "cannot become user %u, group %u",
				 (unsigned)identity->uid, (unsigned)identity->gid);
}

/* ---- sockets ---- */

static int bind_names(const struct config_dns *config, struct upgrade *received, struct err *err)
{
	for (size_t i = 0; i < config->listen_count; i++) {
		for (int tcp = 0; tcp < 2; tcp++) {
			if (upgrade_has_dns_socket(received, config->listen[i], tcp)) {
				continue;
			}
			int fd = dns_socket_open(config->listen[i], tcp, err);
			if (fd < 0) {
				return fd;
			}
			upgrade_add_dns_socket(received, config->listen[i], tcp, fd);
		}
	}
	return 0;
}

static bool is_roots_directory_of(const char *path)
{
	struct err err = ERR_INIT;
	const char *slash = strrchr(path, '/');
	char *folder = slash > path ? allocate_bytes(path, (size_t)(slash - path))
				    : allocate_text("/");
	bool trusted = trust_check_directory(folder, &err) == 0;
	free(folder);
	return trusted;
}

/*
 * With the rights of the user, and of the socket's group, until become_root_again(). The real user
 * stays root: the user cannot reach into this process.
 */
static int act_as(const struct identity *identity, gid_t group, struct err *err)
{
	bool changed = take_groups(identity) == 0 && setegid(group) == 0 &&
		seteuid(identity->uid) == 0;
	return changed ? 0
		       : err_set_errno(err, BERTH_FAILED, errno, "cannot act as user %u, group %u",
				 (unsigned)identity->uid, (unsigned)group);
}

static void become_root_again(gid_t group, struct err *err)
{
	if (seteuid(0) || setegid(group)) {
		err_set_errno(err, BERTH_FAILED, errno, "cannot become root again");
	}
}

/*
 * Where strangers can write, and the agent's user is one of them, root's own bind() would follow
 * where they lead.
 */
static int bind_local(const struct config_agent *config, const char *path,
	const struct identity *identity, int *ret_fd, struct err *err)
{
	bool as_user = !is_roots_directory_of(path);
	gid_t root_group = getegid();
	gid_t group = config->socket_group_id != (unsigned)-1 ? config->socket_group_id
							      : identity->gid;
	if (as_user && act_as(identity, group, err)) {
		return err->code;
	}
	*ret_fd = http_socket_unix(path, config->socket_mode, config->socket_group_id, err);
	if (as_user && err->code) {
		err_wrap(err, "as user %u, since root makes no socket where others can write",
			(unsigned)identity->uid);
	}
	if (as_user) {
		become_root_again(root_group, err);
	}
	return err->code;
}

static int bind_xds(const struct config *config, const struct identity *identity,
	struct upgrade *received, struct err *err)
{
	const char *listen = config->xds.listen;
	if (!*listen || received->xds_fd >= 0) {
		return 0;
	}
	if (listen[0] == '/') {
		return bind_local(&config->agent, listen, identity, &received->xds_fd, err);
	}
	received->xds_fd = http_socket_tcp(listen, err);
	return err->code;
}

static int bind_listens(const struct config *config, struct upgrade *received, struct err *err)
{
	for (size_t i = 0; i < config->listen_count; i++) {
		const struct config_listen *listen = &config->listens[i];
		if (upgrade_listen_fd(received, listen->name, listen->address) >= 0) {
			continue;
		}
		int fd = http_socket_tcp(listen->address, err);
		if (fd < 0) {
			return err_wrap(err, "[listen %s]", listen->name);
		}
		upgrade_add_listen(received, listen->name, listen->address, fd);
	}
	return 0;
}

static int bind_sockets(const struct config *config, const struct identity *identity,
	struct upgrade *received, struct err *err)
{
	const struct config_agent *agent = &config->agent;
	if (received->socket_fd < 0) {
		if (bind_local(agent, agent->socket, identity, &received->socket_fd, err)) {
			return err->code;
		}
		received->socket_place = http_socket_find(agent->socket);
	}
	if (*agent->listen && received->listen_fd < 0) {
		received->listen_fd = http_socket_tcp(agent->listen, err);
		if (received->listen_fd < 0) {
			return received->listen_fd;
		}
	}
	return bind_listens(config, received, err) || bind_xds(config, identity, received, err)
		? err->code
		: bind_names(&config->dns, received, err);
}

/*
 * The agent makes and removes files in these directories after it has become the user. Where root
 * must not make them, the agent does it afterwards.
 */
static int make_directories(
	const struct config_agent *config, const struct identity *identity, struct err *err)
{
	const struct directory_owner owner = { .uid = identity->uid, .gid = identity->gid };
	if (directory_make(config->state_dir, &owner, err) == BERTH_NO_PATH_PERMISSIONS) {
		err_clear(err);
	}
	if (err->code == 0 &&
		directory_make_for(config->socket, &owner, err) == BERTH_NO_PATH_PERMISSIONS) {
		err_clear(err);
	}
	return err->code;
}

/* ---- capabilities ---- */

static bool checks_have_users(const struct config *config)
{
	for (size_t i = 0; i < config->check_count; i++) {
		const char *user = config->checks[i].user;
		if (user && *user && strcmp(user, config->agent.user) != 0) {
			return true;
		}
	}
	return false;
}

static bool is_for_users(int capability)
{
	for (size_t i = 0; i < ARRAY_LEN(for_users); i++) {
		if (for_users[i] == capability) {
			return true;
		}
	}
	return false;
}

/* A kernel knows fewer than there are numbers; without CAP_SETPCAP there is nothing to regain. */
static void bound_capabilities(bool users)
{
	for (int capability = 0; capability < CAPABILITIES; capability++) {
		if (!users || !is_for_users(capability)) {
			(void)prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
		}
	}
}

static bool set_capabilities(bool users, bool inheritable)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { { 0 } };
	for (size_t i = 0; users && i < ARRAY_LEN(for_users); i++) {
		struct __user_cap_data_struct *word = &data[CAP_TO_INDEX(for_users[i])];
		word->effective |= CAP_TO_MASK(for_users[i]);
		word->permitted |= CAP_TO_MASK(for_users[i]);
		word->inheritable |= inheritable ? CAP_TO_MASK(for_users[i]) : 0;
	}
	return syscall(SYS_capset, &header, data) == 0;
}

static bool may_change_user(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { { 0 } };
	return syscall(SYS_capget, &header, data) == 0 &&
		(data[CAP_TO_INDEX(CAP_SETUID)].permitted & CAP_TO_MASK(CAP_SETUID));
}

/* A user that the agent is already needs no privilege. */
static bool is_another(const char *user)
{
	const struct passwd *entry = user && *user ? getpwnam(user) : NULL;
	return entry && entry->pw_uid != geteuid();
}

void agent_privileges_refuse_checks(
	const struct agent *agent, const struct config *next, struct config_problems *problems)
{
	const struct config_agent *config = &agent->config->agent;
	bool dropped = *config->user || config->group_id != (unsigned)-1;
	/* With such a check from the start nothing was given up, or there never was any. */
	if (!dropped || may_change_user() || checks_have_users(agent->config)) {
		return;
	}
	for (size_t i = 0; i < next->check_count; i++) {
		const struct config_check *check = &next->checks[i];
		if (is_another(check->user)) {
			config_problems_add(problems, agent->config_path, 0,
				"[check %s] `user`: the agent cannot become %s any more: it gave "
				"up its privileges for [agent] user and group when no check "
				"needed them; restart it",
				check->name, check->user);
		}
	}
}

void agent_privileges_pass(void)
{
	/*
	 * Fails where there is none to pass, as for an agent without `user`: exec() does the rest.
	 */
	if (geteuid() == 0 || !set_capabilities(true, true)) {
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(for_users); i++) {
		(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, for_users[i], 0, 0);
	}
}

/* ---- all of it ---- */

static int change(const struct identity *identity, bool main_process, bool users, struct err *err)
{
	if (!main_process) {
		bound_capabilities(users);
	}
	prctl(PR_SET_KEEPCAPS, users, 0, 0, 0);
	if (become(identity, err)) {
		return err->code;
	}
	prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0);
	if (!set_capabilities(users, false)) {
		return err_set_errno(err, BERTH_FAILED, errno, "cannot limit the capabilities");
	}
	if (!main_process && !users && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) {
		return err_set_errno(err, BERTH_FAILED, errno, "cannot renounce privileges");
	}
#ifdef __SANITIZE_ADDRESS__ /* whose leak check has to look into us */
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
#endif
	log_info("agent", "runs as user %u, group %u, %s%s", (unsigned)identity->uid,
		(unsigned)identity->gid,
		users ? "with the capabilities setuid, setgid, kill for its checks"
		      : "without capabilities",
		main_process || users ? "" : ", with no_new_privs");
	return 0;
}

int agent_privileges_drop(
	struct agent *agent, bool main_process, struct upgrade *received, struct err *err)
{
	const struct config_agent *config = &agent->config->agent;
	struct identity identity;
	/* A predecessor's agent_privileges_pass() was for us alone, not for our children. */
	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (!*config->user && config->group_id == (unsigned)-1) {
		return 0;
	}
	if (find_identity(config, &identity, err)) {
		return err->code;
	}
	if (is_ours(&identity)) {
		if (checks_have_users(agent->config) && !may_change_user()) {
			log_warn("agent",
				"checks with a `user` of their own cannot run: the agent has no "
				"capability to change the user; let root start it");
		}
		return 0;
	}
	if (geteuid() != 0) {
		return err_set(err, BERTH_FAILED,
			"only root can become another user: [agent] user and "
			"group say %u:%u, this is %u:%u",
			(unsigned)identity.uid, (unsigned)identity.gid, (unsigned)geteuid(),
			(unsigned)getegid());
	}
	if (make_directories(config, &identity, err) ||
		bind_sockets(agent->config, &identity, received, err)) {
		return err->code;
	}
	return change(&identity, main_process, checks_have_users(agent->config), err);
}
