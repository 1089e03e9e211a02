#include "agent/base/state_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "agent/base/directory.h"
#include "agent/base/log.h"
#include "agent/base/state_file.h"
#include "lib/base/clock.h"
#include "lib/base/json_text.h"
#include "lib/base/trust.h"

/* The book of a host with a thousand containers is the largest one. */
enum { DOCUMENT_MAX_BYTES = 64 * 1024 * 1024 };
enum { LOCK_TRIES = 24, LOCK_PAUSE_MS = 50 };
/* Below the time for which an order waits for its document. */
enum { LATE_MS = 1500 };

struct state_document {
	struct state_document *next;
	struct state_dir *directory;
	char *name;
	state_dir_on_done *on_done;
	void *context;
	int64_t begun_ms;   /* the disk has it since then; 0: it has not */
	struct err trouble; /* why it is not saved */
};

/*
 * 0, or the errno. A predecessor that was killed holds its lock until the kernel has taken it
 * apart.
 */
static int lock_patiently(const struct state_dir *directory, int fd)
{
	int code = flock(fd, LOCK_EX | LOCK_NB) ? errno : 0;
	if (code == EWOULDBLOCK) {
		log_info(
			"agent", "another agent uses %s; waiting whether it ends", directory->path);
	}
	for (int i = 1; code == EWOULDBLOCK && i < LOCK_TRIES; i++) {
		poll(NULL, 0, LOCK_PAUSE_MS);
		code = flock(fd, LOCK_EX | LOCK_NB) ? errno : 0;
	}
	return code;
}

static int lock(struct state_dir *directory, struct err *err)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s/lock", directory->path);
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 && errno == EROFS) {
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	}
	if (fd < 0) {
		return err_set_errno(
			err, BERTH_FAILED, errno, "cannot lock the state directory: %s", path);
	}
	int code = lock_patiently(directory, fd);
	if (code == 0) {
		directory->lock_fd = fd;
		return 0;
	}
	close(fd);
	if (code == EWOULDBLOCK) {
		return err_set(
			err, BERTH_FILE_ALREADY_EXISTS, "another agent uses %s", directory->path);
	}
	return err_set_errno(err, BERTH_FAILED, code, "cannot lock %s", directory->path);
}

static int use(struct state_dir *directory, const char *path, int lock_fd, struct err *err)
{
	if (directory_make(path, NULL, err) != 0) {
		return err_wrap(err, "state_dir");
	}
	/*
	 * Strangers may have made up the files of a directory that they can change: a session, a
	 * cache.
	 */
	if (trust_check_directory(path, err)) {
		if (lock_fd >= 0) {
			close(lock_fd);
		}
		directory->lock_fd = -1;
		err->code = BERTH_FAILED;
		return err_wrap(err, "the state directory is not trusted");
	}
	int code = lock_fd >= 0 ? 0 : lock(directory, err);
	file_queue_set_lock(directory->files, directory->lock_fd);
	return code;
}

int state_dir_init(struct state_dir *directory, const char *path, int lock_fd,
	struct file_queue *files, struct err *err)
{
	*directory = (struct state_dir){ .path = allocate_text(path),
		.files = files,
		.lock_fd = lock_fd,
		.since = clock_wall_s() };
	int code = use(directory, path, lock_fd, err);
	directory->unusable = *err;
	return code;
}

void state_dir_finish(struct state_dir *directory)
{
	if (directory->lock_fd >= 0) {
		file_queue_set_lock(directory->files, -1);
		close(directory->lock_fd);
	}
	while (directory->documents) {
		struct state_document *document = directory->documents;
		directory->documents = document->next;
		free(document->name);
		free(document);
	}
	free(directory->path);
	*directory = (struct state_dir){ .lock_fd = -1 };
}

bool state_dir_usable(const struct state_dir *directory)
{
	return directory->lock_fd >= 0;
}

json_t *state_dir_load(const struct state_dir *directory, const char *name, struct err *err)
{
	/* Without the lock another agent may hold the session that is written there. */
	if (!state_dir_usable(directory)) {
		return NULL;
	}
	char *data = NULL;
	size_t len = 0;
	int code = state_file_read(
		directory->path, name, name, DOCUMENT_MAX_BYTES, &data, &len, err);
	if (code) {
		if (code == BERTH_PATH_NOT_FOUND) {
			err_clear(err);
		}
		return NULL;
	}
	json_error_t error;
	json_t *document = json_loadb(data, len, JSON_REJECT_DUPLICATES, &error);
	free(data);
	if (!document) {
		err_set(err, BERTH_INVALID_RECORD, "%s/%s: %s", directory->path, name, error.text);
	}
	return document;
}

/* ---- saving ---- */

static bool is_late(const struct state_document *document)
{
	return document->begun_ms && clock_monotonic_ms() - document->begun_ms >= LATE_MS;
}

/* Whether none has failed. */
static bool all_good(const struct state_dir *directory)
{
	bool good = state_dir_usable(directory);
	for (const struct state_document *at = directory->documents; at; at = at->next) {
		good = good && !at->trouble.code;
	}
	return good;
}

json_t *state_dir_json(const struct state_dir *directory)
{
	json_t *unsaved = json_array();
	const char *why = directory->unusable.msg;
	for (const struct state_document *at = directory->documents; at; at = at->next) {
		if (at->trouble.code || is_late(at)) {
			json_array_append_new(unsaved, json_string(at->name));
			why = at->trouble.code ? at->trouble.msg : "the disk has not taken it yet";
		}
	}
	return json_pack("{s:s, s:b, s:o, s:s, s:f}", "path", directory->path, "saved", !*why,
		"unsaved", unsaved, "why", why, "since", directory->since);
}

bool state_dir_saved(const struct state_dir *directory)
{
	bool saved = all_good(directory);
	for (const struct state_document *at = directory->documents; at; at = at->next) {
		saved = saved && !is_late(at);
	}
	return saved;
}

static void on_written(void *context, const struct err *err)
{
	struct state_document *document = context;
	struct state_dir *directory = document->directory;
	bool was = all_good(directory);
	/* Another caller's content of that name is outdated. */
	for (struct state_document *at = directory->documents; at; at = at->next) {
		if (strcmp(at->name, document->name) == 0) {
			at->begun_ms = 0;
			err_clear(&at->trouble);
		}
	}
	document->trouble = *err;
	if (all_good(directory) != was) {
		directory->since = clock_wall_s();
		if (directory->on_change) {
			directory->on_change(directory->context);
		}
	}
	if (document->on_done) {
		document->on_done(document->context, err);
	}
}

/* Of each use of a name, the one that the caller's function and context tell from others. */
static struct state_document *document_of(
	struct state_dir *directory, const char *name, state_dir_on_done *on_done, void *context)
{
	struct state_document *document = directory->documents;
	while (document &&
		(strcmp(document->name, name) != 0 || document->on_done != on_done ||
			document->context != context)) {
		document = document->next;
	}
	if (!document) {
		document = allocate_zeroed(1, sizeof(*document));
		document->name = allocate_text(name);
		document->directory = directory;
		document->on_done = on_done;
		document->context = context;
		document->next = directory->documents;
		directory->documents = document;
	}
	return document;
}

static void add(struct state_dir *directory, const char *name, struct file_work *work,
	state_dir_on_done *on_done, void *context)
{
	if (state_dir_usable(directory)) {
		struct state_document *document = document_of(directory, name, on_done, context);
		if (!document->begun_ms) {
			document->begun_ms = clock_monotonic_ms();
		}
		work->again = true;
		(void)file_queue_add(directory->files, work, on_written, document);
		return;
	}
	struct err err = ERR_INIT;
	err_set(&err, BERTH_FAILED, "%s is not locked by us", directory->path);
	file_work_finish(work);
	on_done(context, &err);
}

void state_dir_save_text_take(struct state_dir *directory, const char *name, char *text_take,
	size_t len, state_dir_on_done *on_done, void *context)
{
	struct file_work work;
	state_file_replace(&work, directory->path, name, name, text_take, len);
	add(directory, name, &work, on_done, context);
}

void state_dir_save_passing(struct state_dir *directory, const char *name, const json_t *document,
	state_dir_on_done *on_done, void *context)
{
	struct file_work work;
	char *text = allocated(json_text(document, JSON_COMPACT));
	state_file_replace(&work, directory->path, name, name, text, strlen(text));
	work.passing = true;
	add(directory, name, &work, on_done, context);
}

void state_dir_save(struct state_dir *directory, const char *name, const json_t *document,
	state_dir_on_done *on_done, void *context)
{
	char *text = allocated(json_text(document, JSON_COMPACT));
	state_dir_save_text_take(directory, name, text, strlen(text), on_done, context);
}

void state_dir_remove(
	struct state_dir *directory, const char *name, state_dir_on_done *on_done, void *context)
{
	struct file_work work;
	state_file_remove(&work, directory->path, name);
	add(directory, name, &work, on_done, context);
}
