#include "agent/bridge/bridge.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "agent/base/directory.h"
#include "agent/base/log.h"
#include "agent/base/timer.h"
#include "agent/base/trust.h"
#include "agent/bridge/claim.h"
#include "agent/bridge/container.h"
#include "agent/bridge/policy.h"
#include "agent/bridge/tree.h"
#include "lib/base/clock.h"
#include "lib/base/path.h"

enum { MOST_CONTAINERS = 1024, AGAIN_MS = 1000 };

struct bridge {
	struct bridge_environment environment;
	const struct config *config;
	int fd; /* of the directory of containers; -1: no containers are configured */
	struct bridge_watches *watches;
	struct bridge_watch_set directory;
	struct bridge_watch_set above; /* that one, whose end makes no event while it is open */
	struct bridge_publish *publish;
	struct bridge_container **containers;
	size_t count;
	bool crowded;          /* there are more subdirectories, and the log says so */
	bool away;             /* the directory itself has gone, and the log says so */
	bool relist;           /* the directory may have changed */
	int64_t list_again_ms; /* the next reading after one that failed; 0: none did */
	bool paths_freed;      /* containers in conflict may try again */
	struct timer due;      /* of the next look at a container */
};

static void plan(struct bridge *bridge)
{
	int64_t due_ms = INT64_MAX;
	for (size_t i = 0; i < bridge->count; i++) {
		int64_t own_ms = bridge_container_due_ms(bridge->containers[i]);
		due_ms = own_ms < due_ms ? own_ms : due_ms;
	}
	if (bridge->relist) {
		due_ms = 0;
	} else if (bridge->away) {
		due_ms = clock_monotonic_ms() + AGAIN_MS;
	} else if (bridge->list_again_ms != 0 && bridge->list_again_ms < due_ms) {
		due_ms = bridge->list_again_ms;
	}
	if (due_ms != INT64_MAX) {
		timer_start(&bridge->due, due_ms - clock_monotonic_ms());
	} else {
		timer_stop(&bridge->due);
	}
}

/* ---- containers ---- */

static void on_due(void *context)
{
	plan(context);
}

static size_t find(const struct bridge *bridge, const char *name)
{
	size_t at = 0;
	while (at < bridge->count &&
		strcmp(bridge_container_name(bridge->containers[at]), name) != 0) {
		at++;
	}
	return at;
}

static void remove_at(struct bridge *bridge, size_t at)
{
	log_info("bridge", "container %s has gone", bridge_container_name(bridge->containers[at]));
	bridge_container_destroy(bridge->containers[at], true);
	memmove(bridge->containers + at, bridge->containers + at + 1,
		(--bridge->count - at) * sizeof(*bridge->containers));
}

static void expect_inherited(const struct bridge *bridge, struct bridge_container *container)
{
	const char *path;
	json_t *owner;
	json_object_foreach ((json_t *)(uintptr_t)bridge->environment.inherited, path, owner) {
		const char *name = json_string_value(owner);
		if (name && strcmp(name, bridge_container_name(container)) == 0) {
			bridge_container_expect(container, path);
		}
	}
}

static void set_policy(const struct bridge *bridge, struct bridge_container *container)
{
	bridge_container_set_policy(container,
		bridge_policy_find(bridge->config, bridge_container_name(container)),
		bridge->config->bridge.linger_ms);
}

static void add(struct bridge *bridge, const char *name, int fd_take)
{
	const struct bridge_container_environment environment = {
		.watches = bridge->watches,
		.publish = bridge->publish,
		.http = bridge->environment.http,
		.sockets = bridge->environment.sockets,
		.socket_count = bridge->environment.socket_count,
		.on_due = on_due,
		.context = bridge,
	};
	struct bridge_container *container = bridge_container_create(&environment, name, fd_take);
	set_policy(bridge, container);
	expect_inherited(bridge, container);
	bridge->containers[bridge->count++] = container;
	log_info("bridge", "container %s", name);
}

/* A subdirectory that was removed and made again is another container. */
static void take_up(struct bridge *bridge, const char *name)
{
	int fd = bridge_tree_open(bridge->fd, name, false);
	if (fd < 0) {
		return; /* it is gone, or no directory */
	}
	size_t at = find(bridge, name);
	if (at < bridge->count && bridge_container_is(bridge->containers[at], fd)) {
		close(fd);
		return;
	}
	if (at < bridge->count) {
		remove_at(bridge, at);
	}
	if (bridge->count < MOST_CONTAINERS) {
		add(bridge, name, fd);
		return;
	}
	close(fd);
	if (!bridge->crowded) {
		log_warn("bridge", "there are more than %d containers: the others are not served",
			MOST_CONTAINERS);
		bridge->crowded = true;
	}
}

static void drop_removed(struct bridge *bridge)
{
	for (size_t i = bridge->count; i-- > 0;) {
		int fd = bridge_tree_open(
			bridge->fd, bridge_container_name(bridge->containers[i]), false);
		bool same = fd >= 0 && bridge_container_is(bridge->containers[i], fd);
		if (fd >= 0) {
			close(fd);
		}
		if (!same) {
			remove_at(bridge, i);
		}
	}
}

/* ---- the directory ---- */

/* It must not be somebody else's: its subdirectories decide who may register what. */
static int open_directory(struct bridge *bridge, struct err *err)
{
	const char *path = bridge->config->bridge.containers;
	if (mkdir(path, 0755) != 0 && errno != EEXIST) {
		return err_set_errno(err, BERTH_FAILED, errno, "cannot make %s", path);
	}
	if (trust_check_directory(path, err)) {
		return err->code;
	}
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		return err_set_errno(err, BERTH_FAILED, errno, "cannot open %s", path);
	}
	if (bridge->fd >= 0) {
		close(bridge->fd);
	}
	bridge->fd = fd;
	return 0;
}

static void watch(struct bridge *bridge, struct bridge_watch_set *set, int fd)
{
	bridge_watch_set_begin(set);
	bridge_watch_set_add(bridge->watches, set, fd);
	bridge_watch_set_end(bridge->watches, set);
}

static void watch_directory(struct bridge *bridge)
{
	int above = openat(bridge->fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	watch(bridge, &bridge->directory, bridge->fd);
	if (above >= 0) {
		watch(bridge, &bridge->above, above);
		close(above);
	}
}

/* Another directory may have taken its place, or none. */
static bool is_in_place(const struct bridge *bridge)
{
	struct stat opened;
	struct stat named;
	return fstat(bridge->fd, &opened) == 0 &&
		stat(bridge->config->bridge.containers, &named) == 0 &&
		opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

/* False when it could not be read. */
static bool list(struct bridge *bridge)
{
	int fd = openat(bridge->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
	if (!stream) {
		if (fd >= 0) {
			close(fd);
		}
		return false;
	}
	drop_removed(bridge);
	for (const struct dirent *entry; (entry = readdir(stream)) != NULL;) {
		if (bridge_policy_is_name(entry->d_name)) {
			take_up(bridge, entry->d_name);
		}
	}
	closedir(stream);
	return true;
}

/* The directory may have been removed and made again, with all that is in it. */
static void reopen(struct bridge *bridge)
{
	struct err err = ERR_INIT;
	bool was_away = bridge->away;
	bridge->away = open_directory(bridge, &err) != 0;
	if (bridge->away && !was_away) {
		log_warn("bridge", "%s; tried again until it works", err.msg);
	}
	if (!bridge->away) {
		watch_directory(bridge);
	}
}

static void on_directory_event(void *context, uint32_t mask, const char *name)
{
	struct bridge *bridge = context;
	(void)mask;
	(void)name;
	bridge->relist = true;
	plan(bridge);
}

static void on_event_above(void *context, uint32_t mask, const char *name)
{
	const struct bridge *bridge = context;
	if (strcmp(name, path_name(bridge->config->bridge.containers)) == 0) {
		on_directory_event(context, mask, name);
	}
}

static void on_lost(void *context)
{
	struct bridge *bridge = context;
	bridge->relist = true;
	for (size_t i = 0; i < bridge->count; i++) {
		bridge_container_doubt(bridge->containers[i]);
	}
	plan(bridge);
}

static void look(struct bridge *bridge)
{
	int64_t now_ms = clock_monotonic_ms();
	if (bridge->away || !is_in_place(bridge)) {
		reopen(bridge);
		bridge->relist = true;
	}
	if (bridge->relist || bridge->list_again_ms != 0) {
		bridge->relist = false;
		bridge->list_again_ms = list(bridge) ? 0 : now_ms + AGAIN_MS;
	}
	for (size_t i = 0; i < bridge->count; i++) {
		bridge_container_run(bridge->containers[i], now_ms);
	}
}

static void on_timer(void *context)
{
	struct bridge *bridge = context;
	look(bridge);
	plan(bridge);
	bridge->environment.on_change(bridge->environment.context);
}

/* ---- life ---- */

static void on_publish_change(void *context)
{
	struct bridge *bridge = context;
	bridge->paths_freed = true;
	bridge->environment.on_change(bridge->environment.context);
}

static bool session_is_saved(void *context)
{
	const struct bridge_environment *environment = &((struct bridge *)context)->environment;
	return environment->session_is_saved(environment->context);
}

static bool is_taken(void *context, const char *path)
{
	const struct bridge_environment *environment = &((struct bridge *)context)->environment;
	return environment->is_taken(environment->context, path);
}

static int open_containers(struct bridge *bridge, struct err *err)
{
	if (!*bridge->config->bridge.containers) {
		return 0;
	}
	if (open_directory(bridge, err) ||
		bridge_watches_create(
			&bridge->watches, bridge->environment.loop, on_lost, bridge, err)) {
		return err->code;
	}
	watch_directory(bridge);
	bridge->relist = true;
	look(bridge);
	return 0;
}

int bridge_create(struct bridge **ret_bridge, const struct bridge_environment *environment,
	const struct config *config, struct err *err)
{
	struct bridge *bridge = allocate_zeroed(1, sizeof(*bridge));
	const struct bridge_publish_environment publish = {
		.loop = environment->loop,
		.registry = environment->registry,
		.book = environment->book,
		.update_interval_ms = config->registry.update_interval_ms,
		.inherited = environment->inherited,
		.session_is_saved = session_is_saved,
		.is_taken = is_taken,
		.on_change = on_publish_change,
		.context = bridge,
	};
	bridge->environment = *environment;
	bridge->config = config;
	bridge->fd = -1;
	bridge->containers = allocate_zeroed(MOST_CONTAINERS, sizeof(struct bridge_container *));
	bridge_watch_set_init(&bridge->directory, on_directory_event, bridge);
	bridge_watch_set_init(&bridge->above, on_event_above, bridge);
	timer_init(&bridge->due, environment->loop, "containers", on_timer, bridge);
	bridge->publish = bridge_publish_create(&publish);
	if (open_containers(bridge, err)) {
		bridge_destroy(bridge);
		return err->code;
	}
	bridge->environment.inherited = NULL;
	bridge->environment.sockets = NULL;
	bridge->environment.socket_count = 0;
	for (size_t i = 0; i < bridge->count; i++) {
		bridge_container_forget_inherited(bridge->containers[i]);
	}
	bridge_publish_forsake(bridge->publish);
	plan(bridge);
	*ret_bridge = bridge;
	return 0;
}

void bridge_destroy(struct bridge *bridge)
{
	if (!bridge) {
		return;
	}
	timer_stop(&bridge->due);
	while (bridge->count > 0) {
		bridge_container_destroy(bridge->containers[--bridge->count], false);
	}
	bridge_publish_destroy(bridge->publish);
	bridge_watch_set_finish(bridge->watches, &bridge->directory);
	bridge_watch_set_finish(bridge->watches, &bridge->above);
	bridge_watches_destroy(bridge->watches);
	if (bridge->fd >= 0) {
		close(bridge->fd);
	}
	free(bridge->containers);
	free(bridge);
}

void bridge_set_config(struct bridge *bridge, const struct config *config)
{
	bridge->config = config;
	bridge_publish_set_update_interval(bridge->publish, config->registry.update_interval_ms);
	for (size_t i = 0; i < bridge->count; i++) {
		set_policy(bridge, bridge->containers[i]);
	}
	plan(bridge);
}

void bridge_on_registry_state(struct bridge *bridge, enum registry_state state, const char *why)
{
	bridge_publish_on_registry_state(bridge->publish, state, why);
}

void bridge_proceed(struct bridge *bridge)
{
	bridge_publish_proceed(bridge->publish);
	if (bridge->paths_freed) {
		bridge->paths_freed = false;
		for (size_t i = 0; i < bridge->count; i++) {
			bridge_container_retry(bridge->containers[i], clock_monotonic_ms());
		}
		plan(bridge);
	}
}

/* ---- report ---- */

json_t *bridge_json(const struct bridge *bridge)
{
	json_t *containers = json_array();
	for (size_t i = 0; i < bridge->count; i++) {
		json_array_append_new(containers, bridge_container_json(bridge->containers[i]));
	}
	return json_pack("{s:s, s:s, s:o}", "directory", bridge->config->bridge.containers, "state",
		bridge->away ? "away" : "served", "containers", containers);
}

json_t *bridge_container_status(const struct bridge *bridge, const char *name)
{
	size_t at = find(bridge, name);
	return at < bridge->count ? bridge_container_json(bridge->containers[at]) : NULL;
}

size_t bridge_pass(struct bridge *bridge, struct bridge_socket *sockets, size_t max)
{
	size_t count = 0;
	bridge_watches_leave(bridge->watches);
	for (size_t i = 0; i < bridge->count && count < max; i++) {
		count += bridge_container_pass(bridge->containers[i], &sockets[count]);
	}
	return count;
}

size_t bridge_containers(const struct bridge *bridge)
{
	return bridge->count;
}

void bridge_each_count(const struct bridge *bridge,
	void (*visit)(void *context, const char *state, size_t count), void *context)
{
	size_t announced[ANNOUNCE_STATE_COUNT];
	size_t claims[BRIDGE_CLAIM_LINGERING + 1] = { 0 };
	bridge_publish_count(bridge->publish, announced);
	for (size_t i = 0; i < bridge->count; i++) {
		bridge_container_count(bridge->containers[i], claims);
	}
	announced[ANNOUNCE_CONFLICT] += claims[BRIDGE_CLAIM_CONFLICT];
	for (int state = 0; state < ANNOUNCE_STATE_COUNT; state++) {
		visit(context, announce_state_name((enum announce_state)state), announced[state]);
	}
	visit(context, "refused", claims[BRIDGE_CLAIM_REFUSED]);
	visit(context, "throttled", claims[BRIDGE_CLAIM_WAITING]);
}
