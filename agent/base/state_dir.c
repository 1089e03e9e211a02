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
#include "lib/base/trust.h"
#include "lib/base/json_text.h"

/* The book of a host with a thousand containers is the largest one. */
enum { DOCUMENT_MAX_BYTES = 64 * 1024 * 1024 };
enum { LOCK_TRIES = 24, LOCK_PAUSE_MS = 50 };

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

int state_dir_init(struct state_dir *directory, const char *path, int lock_fd,
	struct file_queue *files, struct err *err)
{
	*directory = (struct state_dir){
		.path = allocate_text(path), .files = files, .lock_fd = lock_fd
	};
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
	file_queue_set_lock(files, directory->lock_fd);
	return code;
}

void state_dir_finish(struct state_dir *directory)
{
	if (directory->lock_fd >= 0) {
		file_queue_set_lock(directory->files, -1);
		close(directory->lock_fd);
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

static void add(struct state_dir *directory, struct file_work *work, state_dir_on_done *on_done,
	void *context)
{
	if (state_dir_usable(directory)) {
		(void)file_queue_add(directory->files, work, on_done, context);
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
	add(directory, &work, on_done, context);
}

void state_dir_save_passing(struct state_dir *directory, const char *name, const json_t *document,
	state_dir_on_done *on_done, void *context)
{
	struct file_work work;
	char *text = allocated(json_text(document, JSON_COMPACT));
	state_file_replace(&work, directory->path, name, name, text, strlen(text));
	work.passing = true;
	add(directory, &work, on_done, context);
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
	add(directory, &work, on_done, context);
}
