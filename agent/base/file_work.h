/*
 * The steps that put a file in its place so that it lasts: a new file next to it, fsync, rename,
 * fsync of the folder. After any failure the place has its old content or the new one, whole.
 *
 * The disk may take seconds for that, so the loop hands the work to a child (file_queue.h).
 */
#ifndef AGENT_BASE_FILE_WORK_H
#define AGENT_BASE_FILE_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "lib/base/err.h"

enum file_step {
	FILE_PREPARE, /* writes the new file, and leaves it next to the place */
	FILE_COMMIT,  /* moves a prepared file into the place */
	FILE_REPLACE, /* does both */
	FILE_REMOVE   /* removes what is in the place; an absent file is not an error */
};

struct file_owner {
	mode_t mode;
	uid_t user;  /* (uid_t)-1: the agent's */
	gid_t group; /* (gid_t)-1: the agent's */
};

struct file_work {
	enum file_step step;
	/* Its name when it is new, in the same folder; what a killed writer left there goes. */
	char *temporary; /* REMOVE: NULL */
	char *path;      /* the place */
	struct file_owner owner;
	char *head; /* PREPARE, REPLACE: a text in front of the data, or NULL */
	char *data; /* PREPARE, REPLACE; else NULL */
	size_t len;
	bool passing; /* no loss in a power cut: in place is enough, the disk may come later */
};

/*
 * Does it; blocks for the disk. 0 or BERTH_FAILED. A PREPARE or REPLACE that failed leaves no new
 * file; COMMIT leaves it.
 */
int file_work_do(const struct file_work *work, struct err *err) ERR_REQUIRED(2);

/* Frees what the work holds. */
void file_work_finish(struct file_work *work);

#endif
