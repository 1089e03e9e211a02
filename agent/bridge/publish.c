#include "agent/bridge/publish.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/base/by_text.h"
#include "agent/base/holder.h"
#include "agent/bridge/account.h"
#include "agent/bridge/parents.h"
#include "lib/base/limits.h"
#include "lib/base/list.h"
#include "lib/base/path.h"
#include "lib/record/record.h"

/* Distinct nodes above the records of a container, those that it gave up and those that are to go
 * included: some, and so many for each record. */
enum { PARENTS = 32, PARENTS_PER_RECORD = 4 };

enum post_state { POST_INHERITED, POST_HELD, POST_LEAVING };

struct post {
	const char *path; /* its announcement's */
	struct list link;
	struct list own; /* account->posts */
	struct bridge_publish *publish;
	struct bridge_account *account;
	enum post_state state;
	uint64_t entered;     /* the book's change; 0: it is not in the book */
	size_t bytes;         /* of the record */
	const char *reported; /* the state that people know of */
	struct announce *announce;
};

struct bridge_publish {
	struct bridge_publish_environment environment;
	struct bridge_accounts accounts;
	struct bridge_parents *parents;
	struct list posts;
	void *by_path; /* by_text.h */
};

/* ---- posts ---- */

static struct post *find(const struct bridge_publish *publish, const char *path)
{
	return by_text_find(&publish->by_path, path);
}

/* The state for people; NULL: one on the way, or while the registry is away. */
static const char *word_of(enum announce_state state)
{
	switch (state) {
	case ANNOUNCE_REGISTERED:
	case ANNOUNCE_OUTDATED:
		return "registered";
	case ANNOUNCE_WITHDRAWN:
	case ANNOUNCE_CONFLICT:
	case ANNOUNCE_FAILED:
		return announce_state_name(state);
	default:
		return NULL;
	}
}

static void report(struct post *post, const char *word, const char *why)
{
	const struct bridge_event event = {
		.path = post->path, .from = post->reported, .to = word, .why = why
	};
	post->reported = word;
	bridge_accounts_report(&post->publish->accounts, post->account, &event);
}

/* A change, once the post says that it is in the book. */
static void enter(struct post *post)
{
	if (post->entered == 0) {
		post->entered = UINT64_MAX;
		post->entered = bridge_book_change(post->publish->environment.book);
	}
}

static void on_state(
	void *context, enum announce_state from, enum announce_state to, const char *why)
{
	struct post *post = context;
	const char *word = word_of(to);
	(void)from;
	if (announce_state_is_in(to)) {
		/* A predecessor whose book was lost may have written it. */
		enter(post);
	}
	/* A record that never came does not go. */
	bool never = word && to == ANNOUNCE_WITHDRAWN && strcmp(post->reported, "absent") == 0;
	if (word && !never && strcmp(word, post->reported) != 0) {
		report(post, word, why);
	}
	post->publish->environment.on_change(post->publish->environment.context);
}

/* A successor has to know whose node this is, even if this process ends without an answer. */
static bool on_write(void *context)
{
	struct post *post = context;
	const struct bridge_publish_environment *environment = &post->publish->environment;
	enter(post);
	return bridge_book_is_saved(environment->book, post->entered) &&
		environment->session_is_saved(environment->context);
}

static void on_parent(void *context, const char *path, uint64_t node_id)
{
	const struct post *post = context;
	bridge_parents_made(post->publish->parents, post->account->container, path, node_id);
}

static struct post *add(struct bridge_publish *publish, enum post_state state, const char *path,
	const char *container)
{
	struct post *post = allocate_zeroed(1, sizeof(*post));
	post->publish = publish;
	post->account = bridge_accounts_refer(&publish->accounts, container);
	post->account->post_count++;
	post->state = state;
	post->entered = state == POST_INHERITED ? BRIDGE_BOOK_INHERITED : 0;
	post->reported = state == POST_INHERITED ? "registered" : "absent";
	list_append(&publish->posts, &post->link);
	list_append(&post->account->posts, &post->own);
	const struct announce_options options = {
		.type = DIALECT_YARN,
		.kind = DIALECT_NODE_EPHEMERAL,
		.path = path,
		.ephemeral = true,
		.may_be_registered = state == POST_INHERITED,
		.update_interval_ms = publish->environment.update_interval_ms,
		.on_change = on_state,
		.on_write = on_write,
		.on_parent = on_parent,
		.context = post,
	};
	post->announce = announce_create(
		publish->environment.loop, publish->environment.registry, &options);
	post->path = announce_path(post->announce);
	by_text_add(&publish->by_path, post);
	return post;
}

static void set_bytes(struct post *post, size_t bytes)
{
	post->account->post_bytes += bytes - post->bytes;
	post->bytes = bytes;
}

static void set_state(struct post *post, enum post_state state)
{
	post->account->leaving += state == POST_LEAVING;
	post->account->leaving -= post->state == POST_LEAVING;
	post->state = state;
}

static void free_post(struct post *post)
{
	set_bytes(post, 0);
	set_state(post, POST_HELD);
	list_remove(&post->link);
	list_remove(&post->own);
	by_text_remove(&post->publish->by_path, post);
	announce_destroy(post->announce);
	post->account->post_count--;
	bridge_accounts_release(&post->publish->accounts, post->account);
	free(post);
}

/* It has no node, or had none. */
static void end_post(struct post *post)
{
	const struct bridge_publish *publish = post->publish;
	bool entered = post->entered != 0;
	bridge_parents_left(publish->parents, post->path);
	free_post(post);
	if (entered) {
		(void)bridge_book_change(publish->environment.book);
	}
	publish->environment.on_change(publish->environment.context);
}

/* ---- life ---- */

struct bridge_publish *bridge_publish_create(const struct bridge_publish_environment *environment)
{
	struct bridge_publish *publish = allocate_zeroed(1, sizeof(*publish));
	publish->environment = *environment;
	list_init(&publish->posts);
	bridge_accounts_init(&publish->accounts, environment->on_event, environment->context);
	publish->parents = bridge_parents_create(environment->loop, environment->registry,
		environment->book, environment->parents, &publish->accounts, environment->on_change,
		environment->context);
	const char *path;
	json_t *container;
	json_object_foreach ((json_t *)(uintptr_t)environment->inherited, path, container) {
		if (json_is_string(container)) {
			(void)add(publish, POST_INHERITED, path, json_string_value(container));
		}
	}
	publish->environment.inherited = NULL;
	publish->environment.parents = NULL;
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
	bridge_parents_destroy(publish->parents);
	free(publish);
}

void bridge_publish_describe(const struct bridge_publish *publish, json_t *paths, json_t *parents)
{
	const struct list *all = &publish->accounts.all;
	for (const struct list *at = publish->posts.next; at != &publish->posts; at = at->next) {
		const struct post *post = LIST_ITEM(at, struct post, link);
		if (post->entered != 0) {
			json_object_set_new(paths, post->path,
				allocated(json_string(post->account->container)));
		}
	}
	for (const struct list *at = all->next; at != all; at = at->next) {
		bridge_parents_describe(LIST_ITEM(at, struct bridge_account, link), parents);
	}
}

/* ---- claims ---- */

static bool has(const struct post *post, const char *container)
{
	return strcmp(post->account->container, container) == 0;
}

/* The nearest first: with one that is among them, all above it are. */
static void add_parents(json_t *paths, const char *path)
{
	char above[LIMIT_PATH_BYTES + 1];
	strcpy(above, path);
	for (size_t len; (len = path_parent_len(above)) > 1;) {
		above[len] = '\0';
		if (json_object_get(paths, above)) {
			return;
		}
		json_object_set_new(paths, above, allocated(json_true()));
	}
}

static size_t count_parents(const struct bridge_account *account, const char *path)
{
	json_t *paths = allocated(json_object());
	for (const struct list *at = account->posts.next; at != &account->posts; at = at->next) {
		add_parents(paths, LIST_ITEM(at, struct post, own)->path);
	}
	add_parents(paths, path);
	bridge_parents_add(account, paths);
	size_t count = json_object_size(paths);
	json_decref(paths);
	return count;
}

/*
 * A node takes room until it is out of the registry: records that come and go while the registry is
 * away are bounded, too.
 */
static int find_room(const struct bridge_account *account, const struct config_container *policy,
	const char *path, size_t bytes, struct err *err)
{
	size_t most = PARENTS + PARENTS_PER_RECORD * (size_t)policy->max_records;
	bool waits = account->post_count >= (size_t)policy->max_records ||
		account->post_bytes + bytes > policy->max_bytes;
	if (!waits && count_parents(account, path) > most) {
		waits = account->leaving > 0 || bridge_parents_are_due(account);
		if (!waits) {
			return err_set(err, BERTH_LIMIT_EXCEEDED,
				"its records need more than %zu nodes above them", most);
		}
	}
	return waits ? err_set(err, BERTH_REGISTRY_UNAVAILABLE,
			       "what the container has given up is in the registry yet")
		     : 0;
}

char *bridge_publish_mark(
	const struct bridge_publish *publish, const char *path, const char *data, size_t len)
{
	struct record *record = NULL;
	struct err unused = ERR_INIT;
	char key[HOLDER_KEY_SIZE];
	char mark[HOLDER_MARK_SIZE];
	char *text = NULL;
	if (allocated_code(record_decode(&record, data, len, &unused))) {
		return allocate_bytes(data, len);
	}
	const char *shown = json_string_value(record_attribute(record, HOLDER_KEY));
	holder_mark(shown ? shown : "", mark);
	if (!*mark) {
		holder_key(publish->environment.holder, path, key);
		holder_mark(key, mark);
	}
	if (allocated_code(record_set_attribute_take(record, HOLDER_KEY, json_null())) ||
		allocated_code(record_set_attribute_take(
			record, HOLDER_MARK, *mark ? json_string(mark) : json_null())) ||
		allocated_code(record_encode(record, &text, &len, &unused))) {
		text = allocate_bytes(data, len);
	}
	record_free(record);
	return text;
}

int bridge_publish_claim(struct bridge_publish *publish, const struct config_container *policy,
	const char *path, const char *container, const char *text, size_t bytes, struct err *err)
{
	const struct bridge_publish_environment *environment = &publish->environment;
	const struct bridge_account *account = bridge_accounts_find(&publish->accounts, container);
	struct post *post = find(publish, path);
	if (environment->is_taken(environment->context, path)) {
		return err_set(err, BERTH_FILE_ALREADY_EXISTS,
			"a component of the host's agent has %s", path);
	}
	if (post && !has(post, container)) {
		/* The text goes to the container, which must not learn who its neighbours are. */
		return err_set(err, BERTH_FILE_ALREADY_EXISTS,
			"another container of this host %s %s",
			post->state == POST_LEAVING ? "is leaving" : "has", path);
	}
	if (!post && account && find_room(account, policy, path, bytes, err)) {
		return err->code;
	}
	if (!post) {
		post = add(publish, POST_HELD, path, container);
	}
	set_state(post, POST_HELD);
	set_bytes(post, bytes);
	const struct dialect_node node = {
		.path = (char *)(uintptr_t)post->path,
		.data = (char *)(uintptr_t)text,
		.len = strlen(text),
		.kind = DIALECT_NODE_EPHEMERAL,
		.change = DIALECT_CHANGE_IN_PLACE,
	};
	announce_wish(post->announce, ANNOUNCE_UP, &node, "the container has it");
	return 0;
}

const struct drain *bridge_publish_drain(const struct bridge_publish *publish, const char *name)
{
	const struct named_drain *drain = drains_find(publish->environment.drains, name);
	return drain ? &drain->drain : NULL;
}

struct bridge_accounts *bridge_publish_accounts(struct bridge_publish *publish)
{
	return &publish->accounts;
}

bool bridge_publish_inherits(
	const struct bridge_publish *publish, const char *path, const char *container)
{
	const struct post *post = find(publish, path);
	return post && has(post, container) && post->state == POST_INHERITED;
}

/* A node that was never written need not leave. */
static void leave(struct post *post, const char *why)
{
	if (!announce_has_written(post->announce)) {
		end_post(post);
		return;
	}
	set_state(post, POST_LEAVING);
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

void bridge_publish_forsake(struct bridge_publish *publish,
	bool (*is_spared)(void *context, const char *path, const char *container), void *context)
{
	struct list *next;
	for (struct list *at = publish->posts.next; at != &publish->posts; at = next) {
		struct post *post = LIST_ITEM(at, struct post, link);
		next = at->next;
		if (post->state == POST_INHERITED &&
			!is_spared(context, post->path, post->account->container)) {
			leave(post, "its container ended while the agent was away");
		}
	}
}

bool bridge_publish_has_inherited(const struct bridge_publish *publish)
{
	for (const struct list *at = publish->posts.next; at != &publish->posts; at = at->next) {
		if (LIST_ITEM(at, struct post, link)->state == POST_INHERITED) {
			return true;
		}
	}
	return false;
}

void bridge_publish_proceed(struct bridge_publish *publish)
{
	struct list *next;
	bridge_parents_proceed(publish->parents);
	for (struct list *at = publish->posts.next; at != &publish->posts; at = next) {
		struct post *post = LIST_ITEM(at, struct post, link);
		next = at->next;
		announce_noted(post->announce);
		/* Seen to be gone: a session that is presumed to be lost may turn out to live. */
		if (post->state == POST_LEAVING &&
			announce_get_state(post->announce) == ANNOUNCE_WITHDRAWN &&
			announce_finished(post->announce)) {
			end_post(post);
		}
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
	const struct bridge_account *account = bridge_accounts_find(&publish->accounts, container);
	for (const struct list *at = account ? account->posts.next : NULL;
		account && at != &account->posts; at = at->next) {
		const struct post *post = LIST_ITEM(at, struct post, own);
		if (post->state == POST_LEAVING) {
			visit(context, post->path, post->announce);
		}
	}
}

size_t bridge_publish_registered(const struct bridge_account *account)
{
	size_t count = 0;
	for (const struct list *at = account->posts.next; at != &account->posts; at = at->next) {
		count += announce_registered(LIST_ITEM(at, struct post, own)->announce);
	}
	return count;
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
