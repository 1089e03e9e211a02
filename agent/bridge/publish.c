#include "agent/bridge/publish.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "lib/base/list.h"

enum post_state { POST_INHERITED, POST_HELD, POST_LEAVING };

struct post {
	struct list link;
	struct bridge_publish *publish;
	enum post_state state;
	char *path;
	char *container;
	struct announce *announce;
};

struct bridge_publish {
	struct bridge_publish_environment environment;
	struct list posts;
	json_t *by_path; /* path -> the post's address */
};

/* ---- posts ---- */

static struct post *find(const struct bridge_publish *publish, const char *path)
{
	json_int_t address = json_integer_value(json_object_get(publish->by_path, path));
	return (struct post *)(uintptr_t)address;
}

static void on_state(
	void *context, enum announce_state from, enum announce_state to, const char *why)
{
	struct post *post = context;
	if (to == ANNOUNCE_CONFLICT || to == ANNOUNCE_FAILED) {
		if (from != to) {
			log_warn("bridge", "container %s: %s is %s: %s", post->container,
				post->path, announce_state_name(to), why);
		}
	} else if (announce_state_is_in(to) != announce_state_is_in(from)) {
		log_debug("bridge", "container %s: %s is %s", post->container, post->path,
			announce_state_name(to));
	}
	post->publish->environment.on_change(post->publish->environment.context);
}

/* A successor has to know whose node this is, even if this process ends without an answer. */
static bool on_write(void *context)
{
	struct post *post = context;
	const struct bridge_publish_environment *environment = &post->publish->environment;
	return bridge_book_is_saved(environment->book, post->path) &&
		environment->session_is_saved(environment->context);
}

static struct post *add(struct bridge_publish *publish, enum post_state state, const char *path,
	const char *container)
{
	struct post *post = allocate_zeroed(1, sizeof(*post));
	post->publish = publish;
	post->state = state;
	post->path = allocate_text(path);
	post->container = allocate_text(container);
	list_append(&publish->posts, &post->link);
	json_object_set_new(
		publish->by_path, path, allocated(json_integer((json_int_t)(uintptr_t)post)));
	bridge_book_enter(publish->environment.book, path, container);
	const struct announce_options options = {
		.type = DIALECT_YARN,
		.kind = DIALECT_NODE_EPHEMERAL,
		.path = path,
		.ephemeral = true,
		.may_be_registered = state == POST_INHERITED,
		.update_interval_ms = publish->environment.update_interval_ms,
		.on_change = on_state,
		.on_write = on_write,
		.context = post,
	};
	post->announce = announce_create(
		publish->environment.loop, publish->environment.registry, &options);
	return post;
}

static void free_post(struct post *post)
{
	list_remove(&post->link);
	json_object_del(post->publish->by_path, post->path);
	announce_destroy(post->announce);
	free(post->path);
	free(post->container);
	free(post);
}

/* ---- life ---- */

struct bridge_publish *bridge_publish_create(const struct bridge_publish_environment *environment)
{
	struct bridge_publish *publish = allocate_zeroed(1, sizeof(*publish));
	publish->environment = *environment;
	publish->by_path = allocated(json_object());
	list_init(&publish->posts);
	const char *path;
	json_t *container;
	json_object_foreach ((json_t *)(uintptr_t)environment->inherited, path, container) {
		if (json_is_string(container)) {
			(void)add(publish, POST_INHERITED, path, json_string_value(container));
		}
	}
	publish->environment.inherited = NULL;
	return publish;
}

void bridge_publish_destroy(struct bridge_publish *publish)
{
	if (!publish) {
		return;
	}
	while (!list_empty(&publish->posts)) {
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the one before is off the list */
		free_post(LIST_ITEM(publish->posts.next, struct post, link));
	}
	json_decref(publish->by_path);
	free(publish);
}

/* ---- claims ---- */

static bool has(const struct post *post, const char *container)
{
	return strcmp(post->container, container) == 0;
}

int bridge_publish_claim(struct bridge_publish *publish, const char *path, const char *container,
	const char *data, size_t len, struct err *err)
{
	const struct bridge_publish_environment *environment = &publish->environment;
	struct post *post = find(publish, path);
	if (environment->is_taken(environment->context, path)) {
		return err_set(err, BERTH_FILE_ALREADY_EXISTS,
			"a component of the host's agent has %s", path);
	}
	if (post && !has(post, container)) {
		return err_set(err, BERTH_FILE_ALREADY_EXISTS, "container %s of this host %s %s",
			post->container, post->state == POST_LEAVING ? "is leaving" : "has", path);
	}
	if (!post) {
		post = add(publish, POST_HELD, path, container);
	}
	post->state = POST_HELD;
	const struct dialect_node node = {
		.path = post->path,
		.data = (char *)(uintptr_t)data,
		.len = len,
		.kind = DIALECT_NODE_EPHEMERAL,
		.change = DIALECT_CHANGE_IN_PLACE,
	};
	announce_wish(post->announce, ANNOUNCE_UP, &node, "the container has it");
	return 0;
}

bool bridge_publish_inherits(
	const struct bridge_publish *publish, const char *path, const char *container)
{
	const struct post *post = find(publish, path);
	return post && has(post, container) && post->state == POST_INHERITED;
}

static void leave(struct post *post, const char *why)
{
	post->state = POST_LEAVING;
	announce_wish(post->announce, ANNOUNCE_DOWN, NULL, why);
}

void bridge_publish_release(
	struct bridge_publish *publish, const char *path, const char *container, const char *why)
{
	struct post *post = find(publish, path);
	if (post && has(post, container) && post->state != POST_LEAVING) {
		leave(post, why);
	}
}

void bridge_publish_forsake(struct bridge_publish *publish)
{
	for (struct list *at = publish->posts.next; at != &publish->posts; at = at->next) {
		struct post *post = LIST_ITEM(at, struct post, link);
		if (post->state == POST_INHERITED) {
			log_info("bridge", "container %s no longer has %s: taking it out",
				post->container, post->path);
			leave(post, "its container ended while the agent was away");
		}
	}
}

void bridge_publish_proceed(struct bridge_publish *publish)
{
	struct list *next;
	bool freed = false;
	for (struct list *at = publish->posts.next; at != &publish->posts; at = next) {
		struct post *post = LIST_ITEM(at, struct post, link);
		next = at->next;
		announce_noted(post->announce);
		/* Seen to be gone: a session that is presumed to be lost may turn out to live. */
		if (post->state == POST_LEAVING &&
			announce_get_state(post->announce) == ANNOUNCE_WITHDRAWN &&
			announce_finished(post->announce)) {
			bridge_book_remove(publish->environment.book, post->path);
			free_post(post);
			freed = true;
		}
	}
	if (freed) {
		publish->environment.on_change(publish->environment.context);
	}
}

/* ---- questions ---- */

const struct announce *bridge_publish_find(
	const struct bridge_publish *publish, const char *path, const char *container)
{
	const struct post *post = find(publish, path);
	return post && has(post, container) ? post->announce : NULL;
}

void bridge_publish_each_leaving(const struct bridge_publish *publish, const char *container,
	void (*visit)(void *context, const char *path, const struct announce *announce),
	void *context)
{
	for (const struct list *at = publish->posts.next; at != &publish->posts; at = at->next) {
		const struct post *post = LIST_ITEM(at, struct post, link);
		if (post->state == POST_LEAVING && has(post, container)) {
			visit(context, post->path, post->announce);
		}
	}
}

void bridge_publish_count(
	const struct bridge_publish *publish, size_t ret_counts[ANNOUNCE_STATE_COUNT])
{
	memset(ret_counts, 0, ANNOUNCE_STATE_COUNT * sizeof(*ret_counts));
	for (const struct list *at = publish->posts.next; at != &publish->posts; at = at->next) {
		ret_counts[announce_get_state(LIST_ITEM(at, struct post, link)->announce)]++;
	}
}

void bridge_publish_set_update_interval(struct bridge_publish *publish, int64_t update_interval_ms)
{
	publish->environment.update_interval_ms = update_interval_ms;
	for (struct list *at = publish->posts.next; at != &publish->posts; at = at->next) {
		announce_set_update_interval(
			LIST_ITEM(at, struct post, link)->announce, update_interval_ms);
	}
}

void bridge_publish_on_registry_state(
	struct bridge_publish *publish, enum registry_state state, const char *why)
{
	for (struct list *at = publish->posts.next; at != &publish->posts; at = at->next) {
		announce_on_registry_state(LIST_ITEM(at, struct post, link)->announce, state, why);
	}
}
