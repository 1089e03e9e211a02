/*
 * The agent's state directory: one agent at a time, small JSON documents that survive it.
 *
 * A directory that cannot be used (read-only, full) is not fatal: loads find nothing and saves say
 * why. A load blocks for the disk; a save is done by a child, in the order of calls for a name, and
 * what has begun outlives an agent that is killed. A document that could not be saved, because the
 * disk is full for instance, is saved later by itself.
 */
#ifndef AGENT_BASE_STATE_DIR_H
#define AGENT_BASE_STATE_DIR_H

#include <jansson.h>
#include <stdbool.h>

#include "agent/base/file_queue.h"
#include "lib/base/err.h"

struct state_document;

struct state_dir {
	char *path;
	struct file_queue *files;
	int lock_fd;         /* -1 when there is no lock */
	struct err unusable; /* why there is none */
	struct state_document *documents;
	double since;                     /* by the wall clock: all is saved, or not all */
	void (*on_change)(void *context); /* one is not saved any more, or again; NULL: nobody */
	void *context;
};

/*
 * Makes the directory if it is missing and locks it for this process. `lock_fd` is a descriptor
 * that already holds the lock, from before an exec(), or -1. BERTH_FILE_ALREADY_EXISTS when another
 * agent, or a child of one that was killed, holds it for longer than about a second; BERTH_FAILED
 * when the directory cannot be used, or a stranger could change what its path leads to (trust.h):
 * then it is still to be finished, and works as an empty one.
 */
int state_dir_init(struct state_dir *directory, const char *path, int lock_fd,
	struct file_queue *files, struct err *err) __attribute__((warn_unused_result))
ERR_REQUIRED(5);
void state_dir_finish(struct state_dir *directory);

/* Whether it is ours: trusted, and locked by this process. */
bool state_dir_usable(const struct state_dir *directory);

/*
 * "path", "saved": all documents would survive, "unsaved": the names of those that would not, "why"
 * and "since"; new reference. A document that the disk has not taken for some seconds counts as
 * unsaved.
 */
json_t *state_dir_json(const struct state_dir *directory);

/* The same as one word. */
bool state_dir_saved(const struct state_dir *directory);

/*
 * The document `name`, new reference; NULL when there is none (err clear) or when it is damaged
 * (err says how).
 */
json_t *state_dir_load(const struct state_dir *directory, const char *name, struct err *err)
	ERR_REQUIRED(3);
/*
 * How a save ended: err->code is 0 or BERTH_FAILED. After a failure it comes once more when the
 * document has been saved after all.
 */
typedef void state_dir_on_done(void *context, const struct err *err);

/*
 * Replaces it atomically, readable by the owner only. on_done comes from the loop when it will
 * last, or has failed; of several saves of this name with the same on_done and context that are
 * under way, only for the last. A directory that is not usable fails at once.
 */
void state_dir_save(struct state_dir *directory, const char *name, const json_t *document,
	state_dir_on_done *on_done, void *context);
/*
 * The same for a document that is of no use after a power cut: on_done comes when it is in place,
 * and waits for no fsync.
 */
void state_dir_save_passing(struct state_dir *directory, const char *name, const json_t *document,
	state_dir_on_done *on_done, void *context);
/* As state_dir_save(), for content that is text already, from malloc(). */
void state_dir_save_text_take(struct state_dir *directory, const char *name, char *text_take,
	size_t len, state_dir_on_done *on_done, void *context);
/* Likewise; an absent file is not an error. */
void state_dir_remove(
	struct state_dir *directory, const char *name, state_dir_on_done *on_done, void *context);

#endif
