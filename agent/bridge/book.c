#include "agent/bridge/book.h"

#include <stdlib.h>

#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "agent/base/timer.h"

static const char DOCUMENT[] = "bridge";

enum { VERSION = 1, SAVE_PATIENCE_MS = 2000, SAVE_LATER_MS = 500 };

struct bridge_book {
	struct state_dir *state;
	uint64_t changes; /* so far */
	uint64_t saved;   /* the last one that the disk has */
	uint64_t saving;  /* the last one on its way there; 0: nothing is */
	uint64_t unsaved; /* the last one of a save that failed; it is saved again; 0: none did */
	bool changed;     /* since the save that is under way began */
	bool impatient;   /* the disk failed, or takes too long: nothing waits for it */
	struct timer patience;
	struct timer later; /* for parents and processes */
	void (*on_save)(void *context, json_t *document);
	void *save_context;
	json_t *last; /* what is yet to be saved of a book that is closed */
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

struct bridge_book *bridge_book_create(struct ev_loop *loop, struct state_dir *state,
	void (*on_saved)(void *context), void *context)
{
	struct bridge_book *book = allocate_zeroed(1, sizeof(*book));
	book->state = state;
	book->changes = BRIDGE_BOOK_INHERITED;
	book->saved = BRIDGE_BOOK_INHERITED;
	book->on_saved = on_saved;
	book->context = context;
	timer_init(&book->patience, loop, "saving of the book", on_patience, book);
	timer_init(&book->later, loop, "rest of the book", on_later, book);
	return book;
}

void bridge_book_destroy(struct bridge_book *book)
{
	if (book) {
		timer_stop(&book->patience);
		timer_stop(&book->later);
		json_decref(book->last);
		free(book);
	}
}

static json_t *part(const json_t *document, const char *name, bool known)
{
	json_t *object = json_object_get(document, name);
	return known && json_is_object(object) ? json_incref(object) : allocated(json_object());
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

/* ---- saving ---- */

static json_t *describe(const struct bridge_book *book)
{
	json_t *document = allocated(json_pack(
		"{s:i, s:{}, s:{}, s:{}}", "version", VERSION, "paths", "parents", "processes"));
	book->on_save(book->save_context, document);
	return document;
}

static void on_done(void *context, const struct err *err)
{
	struct bridge_book *book = context;
	/* The success of what has failed comes later, if nothing newer is on its way. */
	uint64_t done = book->saving ? book->saving : book->unsaved;
	timer_stop(&book->patience);
	if (err->code && !book->impatient) {
		log_warn("bridge", "the book is not saved; after a kill, records blink once: %s",
			err->msg);
	}
	book->impatient = err->code != 0;
	book->saved = err->code ? book->saved : done;
	book->unsaved = err->code ? done : 0;
	book->saving = 0;
	if (book->changed) {
		save(book);
	}
	book->on_saved(book->context);
}

static void save(struct bridge_book *book)
{
	timer_stop(&book->later);
	book->changed = book->saving != 0;
	json_t *document = book->changed ? NULL : book->on_save ? describe(book) : book->last;
	if (document) {
		book->last = NULL;
		book->saving = book->changes;
		timer_start(&book->patience, SAVE_PATIENCE_MS);
		state_dir_save(book->state, DOCUMENT, document, on_done, book);
		json_decref(document);
	}
}

void bridge_book_open(
	struct bridge_book *book, void (*on_save)(void *context, json_t *document), void *context)
{
	book->on_save = on_save;
	book->save_context = context;
	json_decref(book->last); /* what is saved from now on has it */
	book->last = NULL;
}

void bridge_book_close(struct bridge_book *book)
{
	bridge_book_settle(book);
	book->last = book->changed ? describe(book) : NULL;
	book->on_save = NULL;
}

uint64_t bridge_book_change(struct bridge_book *book)
{
	book->changes++;
	save(book);
	return book->changes;
}

bool bridge_book_is_saved(struct bridge_book *book, uint64_t change)
{
	if (change <= book->saved || book->impatient) {
		return true;
	}
	if (!book->saving) {
		save(book);
	}
	return false;
}

void bridge_book_change_later(struct bridge_book *book)
{
	if (!timer_runs(&book->later)) {
		timer_start(&book->later, SAVE_LATER_MS);
	}
}

void bridge_book_settle(struct bridge_book *book)
{
	if (timer_runs(&book->later)) {
		save(book);
	}
}
