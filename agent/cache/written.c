#include "agent/cache/written.h"

#include <string.h>

#include "agent/cache/tree.h"
#include "lib/base/json_visible.h"
#include "lib/base/path.h"

enum { NODE_STEPS = 4, NODES_AT_ONCE = CACHE_TURN_STEPS / 2 / NODE_STEPS, OVERTAKEN_MAX = 3 };
/* A caller that asks once a turn may do so behind the end of the cache's turn. */
enum { TURNS_UNASKED = 1 };

/* ---- a record ---- */

void cache_write_line(const char *data, size_t len, struct buffer *out)
{
	size_t start = out->len;
	if (!data) {
		buffer_append_text(out, "null");
		return;
	}
	for (const char *at = data, *end = data + len; at < end;) {
		size_t part = strcspn(at, "\r\n");
		buffer_append(out, at, part);
		at += part + 1;
	}
	json_make_visible(out, start);
}

static void write_node(struct cache_written *written)
{
	const struct cache_store *store = written->store;
	const struct cache_node *node = cache_node_find(
		store->table, written->at, strlen(written->at));
	struct cache_entry *data = node ? node->entries[CACHE_DATA] : NULL;
	cache_work(store->turn, NODE_STEPS);
	written->worked++;
	if (!data || !data->value || !cache_entry_exists(data)) {
		return;
	}
	const struct registry_value *value = cache_record_of(data);
	buffer_append_text(&written->text, written->text.len > 1 ? ",\"" : "\"");
	buffer_append_text(&written->text, written->at);
	buffer_append_text(&written->text, "\":");
	cache_write_line(value ? value->data : NULL, value ? value->data_len : 0, &written->text);
}

/* ---- the text ---- */

void cache_written_init(struct cache_written *written, const struct cache_store *store)
{
	*written = (struct cache_written){ .store = store };
}

void cache_written_forget(struct cache_written *written)
{
	if (written->root) {
		buffer_finish(&written->text);
		written->root = NULL;
	}
}

static void begin(struct cache_written *written)
{
	written->begun = true;
	written->complete = false;
	strcpy(written->at, written->root->path);
	buffer_clear(&written->text);
	buffer_append_text(&written->text, "{");
	write_node(written);
}

static bool may_write(const struct cache_written *written)
{
	return written->worked < NODES_AT_ONCE && cache_may_work(written->store->turn);
}

/* Writes until the end; in slices, as far as the turn's goes. */
static void write_on(struct cache_written *written, bool sliced)
{
	if (!written->begun && (!sliced || may_write(written))) {
		begin(written);
	}
	while (written->begun && !written->complete && (!sliced || may_write(written))) {
		if (cache_tree_next(written->store, written->root, written->scope, written->at)) {
			write_node(written);
		} else {
			buffer_append_text(&written->text, "}");
			written->complete = true;
		}
	}
}

static bool is_of(
	const struct cache_written *written, const struct cache_node *root, enum cache_scope scope)
{
	return written->root == root && written->scope == scope;
}

/* The text becomes that of the picture. */
static void turn_to(
	struct cache_written *written, const struct cache_node *root, enum cache_scope scope)
{
	if (!is_of(written, root, scope)) {
		cache_written_forget(written);
		written->root = root;
		written->scope = scope;
		written->overtaken = 0;
		written->begun = false;
		written->complete = false;
		buffer_init(&written->text, SIZE_MAX);
	}
	if (written->asked != ev_iteration(written->store->turn->loop)) {
		written->asked = ev_iteration(written->store->turn->loop);
		written->worked = 0;
	}
	cache_turn_wake(written->store->turn); /* which forgets it */
}

/* Somebody asked for it in this turn or in the one before. */
static bool is_wanted(const struct cache_written *written)
{
	return ev_iteration(written->store->turn->loop) - written->asked <= TURNS_UNASKED;
}

bool cache_written_go_on(
	struct cache_written *written, const struct cache_node *root, enum cache_scope scope)
{
	if (written->root && !is_of(written, root, scope) && !written->complete &&
		is_wanted(written)) {
		return false;
	}
	turn_to(written, root, scope);
	write_on(written, written->overtaken < OVERTAKEN_MAX);
	return written->complete;
}

const struct buffer *cache_written_finish(
	struct cache_written *written, const struct cache_node *root, enum cache_scope scope)
{
	turn_to(written, root, scope);
	write_on(written, false);
	return &written->text;
}

/* ---- changes ---- */

/* In the order of a walk, where what is below a path comes before its next sibling. */
static bool is_at_or_before(const char *path, const char *other)
{
	while (*path && *path == *other) {
		path++;
		other++;
	}
	unsigned left = *path == '/' ? 1 : (unsigned char)*path;
	unsigned right = *other == '/' ? 1 : (unsigned char)*other;
	return left <= right;
}

void cache_written_overtaken(struct cache_written *written, const struct cache_node *node)
{
	if (written->begun && written->root && path_is_under(node->path, written->root->path) &&
		(written->complete || is_at_or_before(node->path, written->at))) {
		written->overtaken += !written->complete;
		written->begun = false;
		written->complete = false;
	}
}

bool cache_written_rest(struct cache_written *written)
{
	if (written->root && !is_wanted(written)) {
		cache_written_forget(written);
	}
	return written->root;
}
