/*
 * Registries driven to an answer, for tests that read like a dialogue.
 *
 * Every registry that a test opens is added here; waiting for anything drives all of them, so that
 * several clients can race in one process. Waiting ends the test as failed when nothing comes for a
 * minute.
 */
#ifndef TESTS_SUPPORT_REGISTRY_CLIENT_H
#define TESTS_SUPPORT_REGISTRY_CLIENT_H

#include "lib/registry/registry.h"

/* A copy of the last answer to a request, or of the last state from a watch. */
struct answer {
	size_t calls;
	struct err err;
	struct registry_stat stat;
	char *data;
	size_t data_len;
	char **children; /* or the purged paths */
	size_t children_count;
	char **foreign;
	size_t foreign_count;
	json_t *records;
	size_t count;
	bool emptied;
	bool changed;
};

void answer_clear(struct answer *answer);
/* The registry_done that fills the answer `context`. */
void answer_take(void *context, const struct registry_result *result);
/* "PathNotFound" and so on; "OK". */
const char *answer_name(const struct answer *answer);
/* The children, or the purged paths, separated by blanks. Borrowed until the next call. */
const char *answer_children(const struct answer *answer);
/* The foreign children in the same way. */
const char *answer_foreign(const struct answer *answer);

/*
 * Opens `url` with no options, or `options` (url in it), adds it. Aborts on failure. A timeout that
 * the options do not name is longer than any stall; the session's is longer than any wait in the
 * tests, so that a node that disappears during a wait did so because its session was closed, not
 * because it expired.
 */
struct registry *client_open(const char *url);
struct registry *client_open_with(const struct registry_options *options);
void client_add(struct registry *registry);
void client_close(struct registry *registry);
/* Before a registry is closed by the test itself. */
void client_forget(struct registry *registry);

/* Drives all until the condition holds. */
void client_wait(bool (*condition)(void *context), void *context);
/* Drives all until `done` or `on_change` was called at least `times` times. */
void client_wait_calls(struct answer *answer, size_t times);
void client_wait_state(struct registry *registry, enum registry_state state);

/* One request each, waited for; the answer is cleared first. Returns the code. */
int client_get(struct registry *registry, const char *path, struct answer *answer);
int client_resolve(struct registry *registry, const char *path, struct answer *answer);
int client_stat(struct registry *registry, const char *path, struct answer *answer);
int client_list(struct registry *registry, const char *path, struct answer *answer);
int client_confirm(struct registry *registry, struct answer *answer);
int client_records(struct registry *registry, const char *path, struct answer *answer);
int client_mknode(struct registry *registry, const char *path, bool parents, struct answer *answer);
int client_bind(struct registry *registry, const char *path, const struct registry_bind *bind,
	struct answer *answer);
int client_put(struct registry *registry, const char *path, const char *data,
	enum registry_bind_mode mode, bool ephemeral, struct answer *answer);
int client_delete(struct registry *registry, const char *path, enum registry_delete_mode mode,
	const struct registry_stat *expected, struct answer *answer);
int client_withdraw(struct registry *registry, const char *path,
	const struct registry_stat *expected, struct answer *answer);
int client_find(
	struct registry *registry, const struct registry_criteria *criteria, struct answer *answer);
int client_purge(struct registry *registry, const struct registry_criteria *criteria,
	enum registry_purge_policy policy, struct answer *answer);

#endif
