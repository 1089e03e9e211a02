/*
 * A dir: backend with a poll loop around it, for tests: each call submits one task and waits for
 * it.
 *
 * Waits have a deadline that only a fault can reach; then the program aborts with a message.
 */
#ifndef TESTS_SUPPORT_DIR_CLIENT_H
#define TESTS_SUPPORT_DIR_CLIENT_H

#include "lib/registry/backend.h"
#include "lib/base/clock.h"

struct dir_client {
	struct registry_backend *backend;
	struct registry_task *completed; /* the last one */
	enum registry_state state;
	int notified[2]; /* by kind, since dir_client_clear() */
	char notified_path[1100];
	int logged;
};

/*
 * A new empty directory for a registry, below $TMPDIR; dir_root_remove() removes it with its
 * content.
 */
const char *dir_root_make(void);
/* The same in memory where that is possible, for thousands of writes. */
const char *dir_root_make_in_memory(void);
void dir_root_remove(const char *root);
/* The place of a registry's path, or of a file below it, in the directory made last. Static. */
const char *on_disk(const char *path);
/* True when something is there, if only a link. It makes no call of stat(), which may fail. */
bool is_on_disk(const char *path);

/*
 * Opens and waits until the first state is known. `session` as registry_options.session, or NULL.
 */
void dir_client_open(struct dir_client *client, const char *root, const json_t *session);
void dir_client_close(struct dir_client *client);

/* Dispatches once, after waiting for something to do, `wait_ms` at most. */
void dir_client_turn(struct dir_client *client, int wait_ms);
/* Dispatches until the condition holds. */
#define DIR_CLIENT_UNTIL(client, condition)                                                        \
	for (int64_t until_ms = clock_monotonic_ms() + 30000; !(condition);) {                     \
		dir_client_turn(client, 50);                                                       \
		if (clock_monotonic_ms() > until_ms) {                                             \
			dir_die("never happened: " #condition);                                    \
		}                                                                                  \
	}
void dir_die(const char *message) __attribute__((noreturn));
void dir_client_clear(struct dir_client *client);

/*
 * Runs the task; its result is the return value, its output stays in the task. deadline_ms 0: a
 * generous one.
 */
int dir_client_run(struct dir_client *client, struct registry_task *task);
void dir_task_finish(struct registry_task *task);

/* One-liners: the result code; `ret_stat` may be NULL. */
int dir_create(struct dir_client *client, const char *path, const char *data, bool ephemeral);
int dir_get(struct dir_client *client, const char *path, char data[], size_t size,
	struct registry_stat *ret_stat);
int dir_stat(struct dir_client *client, const char *path, struct registry_stat *ret_stat);
int dir_set(struct dir_client *client, const char *path, const char *data,
	const struct registry_stat *expected);
int dir_replace(struct dir_client *client, const char *path, const char *data, bool ephemeral,
	const struct registry_stat *expected);
int dir_delete(struct dir_client *client, const char *path, const struct registry_stat *expected);
/* The children's names, sorted, with spaces between them; or the error's name. Static. */
const char *dir_list(struct dir_client *client, const char *path);
/* Arms a watch by a read; the read's result. */
int dir_watch(struct dir_client *client, const char *path, enum registry_watch_kind kind);

#endif
