/*
 * The text of a picture for event streams: {"path": record or null, …}.
 *
 * The text of a large picture is written in slices, which leave half of each turn's work to
 * changes. A change of what is already written begins it anew; after some of these it is written in
 * one turn. A text that is complete serves everybody who asks for the same picture, until the
 * picture changes, or nobody has asked for a whole turn.
 */
#ifndef AGENT_CACHE_WRITTEN_H
#define AGENT_CACHE_WRITTEN_H

#include "agent/cache/cache.h"
#include "agent/cache/entry.h"
#include "lib/base/limits.h"

struct cache_written {
	const struct cache_store *store;
	const struct cache_node *root; /* NULL: none */
	enum cache_scope scope;
	unsigned asked; /* the turn in which somebody asked for it last */
	size_t worked;  /* nodes in that turn */
	unsigned overtaken;
	bool begun;
	bool complete;
	struct buffer text;
	char at[LIMIT_PATH_BYTES + 1]; /* written last */
};

void cache_written_init(struct cache_written *written, const struct cache_store *store);
/*
 * Goes on with the text of a picture. False: it takes another turn, or another text that somebody
 * waits for does.
 */
bool cache_written_go_on(
	struct cache_written *written, const struct cache_node *root, enum cache_scope scope);
/* The complete text, whatever the turn has done already. Borrowed until the turn ends. */
const struct buffer *cache_written_finish(
	struct cache_written *written, const struct cache_node *root, enum cache_scope scope);
/* The node has changed. */
void cache_written_overtaken(struct cache_written *written, const struct cache_node *node);
void cache_written_forget(struct cache_written *written);
/* At the end of a turn: forgets a text that nobody asked for. True when one is left. */
bool cache_written_rest(struct cache_written *written);

/*
 * Appends the record as clients get it, on one line: line breaks of valid JSON can only be between
 * the tokens, where they mean nothing. NULL: "null".
 */
void cache_write_line(const char *data, size_t len, struct buffer *out);

#endif
