#include "agent/bridge/book.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "agent/base/timer.h"

static const char DOCUMENT[] = "bridge";

enum { VERSION = 1, SAVE_PATIENCE_MS = 2000, SAVE_LATER_MS = 500 };

struct bridge_book {
	struct state_dir *state;
	json_t *paths;     /* path -> container */
	json_t *parents;   /* path -> [container, node_id] */
	json_t *processes; /* container -> text */
	json_t *saved;     /* the paths, as the disk has them */
	json_t *saving;    /* on its way there; NULL: nothing is */
	json_t *unsaved;   /* which failed; it is saved again */
	bool changed;      /* since the save that is under way began */
	bool impatient;    /* the disk failed, or takes too long: nothing waits for it */
	struct timer patience;
	struct timer later; /* for parents and processes */
	void (*on_saved)(void *context);
	void *context;
};

static void on_patience(void *context)
{
	struct bridge_book *book = context;
	log_warn("bridge", "the book is not on the disk yet; records do not wait any longer");
	book->impatient = true;
	book->on_saved(book->context);
}

static void save(struct bridge_book *book);

static void on_later(void *context)
{
	save(context);
}

static json_t *copy_of(const json_t *object)
{
	return allocated(object ? json_copy((json_t *)(uintptr_t)object) : json_object());
}

struct bridge_book *bridge_book_create(struct ev_loop *loop, struct state_dir *state,
	const json_t *paths, const json_t *left, void (*on_saved)(void *context), void *context)
{
	struct bridge_book *book = allocate_zeroed(1, sizeof(*book));
	book->state = state;
	book->paths = copy_of(paths);
	book->parents = copy_of(json_object_get(left, "parents"));
	book->processes = copy_of(json_object_get(left, "processes"));
	book->saved = copy_of(paths);
	book->on_saved = on_saved;
	book->context = context;
	timer_init(&book->patience, loop, "saving of the book", on_patience, book);
	timer_init(&book->later, loop, "rest of the book", on_later, book);
	return book;
}

void bridge_book_destroy(struct bridge_book *book)
{
	if (!book) {
		return;
	}
	timer_stop(&book->patience);
	timer_stop(&book->later);
	json_decref(book->paths);
	json_decref(book->parents);
	json_decref(book->processes);
	json_decref(book->saved);
	json_decref(book->saving);
	json_decref(book->unsaved);
	free(book);
}

static json_t *part(const json_t *document, const char *name, bool known)
{
	json_t *object = json_object_get(document, name);
	return copy_of(known && json_is_object(object) ? object : NULL);
}

json_t *bridge_book_load(const struct state_dir *state)
{
	struct err err = ERR_INIT;
	json_t *document = state_dir_load(state, DOCUMENT, &err);
	if (err.code) {
		log_warn("bridge", "the book cannot be read, an empty one is begun: %s", err.msg);
	}
	bool known = json_integer_value(json_object_get(document, "version")) == VERSION;
	json_t *result = allocated(json_pack("{s:o, s:o, s:o}", "paths",
		part(document, "paths", known), "parents", part(document, "parents", known),
		"processes", part(document, "processes", known)));
	json_decref(document);
	return result;
}

static bool has(const json_t *paths, const char *path, const char *container)
{
	const char *found = json_string_value(json_object_get(paths, path));
	return found && container && strcmp(found, container) == 0;
}

const char *bridge_book_find(const struct bridge_book *book, const char *path)
{
	return json_string_value(json_object_get(book->paths, path));
}

static void on_done(void *context, const struct err *err)
{
	struct bridge_book *book = context;
	timer_stop(&book->patience);
	if (err->code && !book->impatient) {
		log_warn("bridge", "the book is not saved; after a kill, records blink once: %s",
			err->msg);
	}
	book->impatient = err->code != 0;
	/* The success of what has failed comes later, if nothing newer is on its way. */
	json_t *content = book->saving ? book->saving : book->unsaved;
	if (!err->code) {
		json_decref(book->saved);
		book->saved = json_incref(content);
	}
	json_incref(content);
	json_decref(book->saving);
	json_decref(book->unsaved);
	book->saving = NULL;
	book->unsaved = err->code ? content : NULL;
	if (!err->code) {
		json_decref(content);
	}
	if (book->changed) {
		save(book);
	}
	book->on_saved(book->context);
}

static void save(struct bridge_book *book)
{
	if (book->saving) {
		book->changed = true;
		return;
	}
	book->changed = false;
	book->saving = allocated(json_copy(book->paths));
	json_t *document = allocated(json_pack("{s:i, s:O, s:O, s:O}", "version", VERSION, "paths",
		book->saving, "parents", book->parents, "processes", book->processes));
	timer_stop(&book->later);
	timer_start(&book->patience, SAVE_PATIENCE_MS);
	state_dir_save(book->state, DOCUMENT, document, on_done, book);
	json_decref(document);
}

void bridge_book_enter(struct bridge_book *book, const char *path, const char *container)
{
	if (!has(book->paths, path, container)) {
		json_object_set_new(book->paths, path, allocated(json_string(container)));
		save(book);
	}
}

void bridge_book_remove(struct bridge_book *book, const char *path)
{
	if (json_object_del(book->paths, path) == 0) {
		save(book);
	}
}

bool bridge_book_is_saved(struct bridge_book *book, const char *path)
{
	if (has(book->saved, path, bridge_book_find(book, path)) || book->impatient) {
		return true;
	}
	if (!book->saving) {
		save(book);
	}
	return false;
}

json_t *bridge_book_parents(const struct bridge_book *book)
{
	return book->parents;
}

static void save_later(struct bridge_book *book)
{
	if (!timer_runs(&book->later)) {
		timer_start(&book->later, SAVE_LATER_MS);
	}
}

void bridge_book_enter_parent(
	struct bridge_book *book, const char *path, const char *container, uint64_t node_id)
{
	json_object_set_new(book->parents, path,
		allocated(json_pack("[s, I]", container, (json_int_t)node_id)));
	save_later(book);
}

void bridge_book_remove_parent(struct bridge_book *book, const char *path)
{
	if (json_object_del(book->parents, path) == 0) {
		save_later(book);
	}
}

const json_t *bridge_book_processes(const struct bridge_book *book)
{
	return book->processes;
}

void bridge_book_enter_process(struct bridge_book *book, const char *container, const char *process)
{
	const char *before = json_string_value(json_object_get(book->processes, container));
	if (strcmp(before ? before : "", process) == 0) {
		return;
	}
	if (*process) {
		json_object_set_new(book->processes, container, allocated(json_string(process)));
	} else {
		json_object_del(book->processes, container);
	}
	save_later(book);
}

void bridge_book_settle(struct bridge_book *book)
{
	if (timer_runs(&book->later)) {
		save(book);
	}
}
