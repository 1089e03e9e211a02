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
#include "agent/base/trust.h"
#include "lib/base/json_text.h"

enum { DOCUMENT_MAX_BYTES = 4 * 1024 * 1024 };
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

int state_dir_init(struct state_dir *directory, const char *path, int lock_fd, struct err *err)
{
	*directory = (struct state_dir){ .path = allocate_text(path), .lock_fd = lock_fd };
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
	return lock_fd >= 0 ? 0 : lock(directory, err);
}

void state_dir_finish(struct state_dir *directory)
{
	if (directory->lock_fd >= 0) {
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

int state_dir_save_text(
	const struct state_dir *directory, const char *name, const char *text, struct err *err)
{
	if (!state_dir_usable(directory)) {
		return err_set(err, BERTH_FAILED, "%s is not locked by us", directory->path);
	}
	return state_file_write(directory->path, name, name, text, strlen(text), err);
}

int state_dir_save(const struct state_dir *directory, const char *name, const json_t *document,
	struct err *err)
{
	char *text = allocated(json_text(document, JSON_COMPACT));
	int code = state_dir_save_text(directory, name, text, err);
	free(text);
	return code;
}

void state_dir_remove(const struct state_dir *directory, const char *name)
{
	struct err err = ERR_INIT;
	if (!state_dir_usable(directory)) {
		return;
	}
	if (state_file_remove(directory->path, name, &err)) {
		log_warn("agent", "%s", err.msg);
	}
}
