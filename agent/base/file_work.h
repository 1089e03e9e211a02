/*
 * The steps that put a file in its place so that it lasts: a new file next to it, fsync, rename,
 * fsync of the folder. After any failure the place has its old content or the new one, whole.
 *
 * A file that is a mount cannot be replaced. In place, the new file is made in another folder, and
 * then the one that is there is written over; a reader may see some of both, and so does the next
 * work after a crash.
 *
 * The data may be a block of a hosts file that others write, too (hosts_block.h). Its rest is read
 * when the new file is made. After a crash in place, that is the new file which was left behind, if
 * every byte of the file in place is of this new file or of the old one, which is kept, too.
 *
 * The disk may take seconds for that, so the loop hands the work to a child (file_queue.h).
 */
#ifndef AGENT_BASE_FILE_WORK_H
#define AGENT_BASE_FILE_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <time.h>

#include "lib/base/buffer.h"
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

/* Which content a file had: it is another one when any of these is. */
struct file_version {
	bool exists;
	ino_t inode;
	off_t size;
	struct timespec changed;
};

struct file_work {
	enum file_step step;
	bool in_place;
	/*
	 * Its name when it is new, in the same folder unless it is in_place; what a killed writer
	 * left there goes.
	 */
	char *temporary; /* REMOVE: NULL */
	char *path;      /* the place */
	struct file_owner owner;
	/*
	 * PREPARE, REPLACE: allocates head and data, where the work is done; NULL: they are there.
	 * 0 or BERTH_FAILED.
	 */
	int (*make)(const void *context, struct file_work *made, struct err *err);
	const void *context;
	char *head; /* PREPARE, REPLACE: a text in front of the data, or NULL */
	char *data; /* PREPARE, REPLACE; else NULL */
	size_t len;
	char *block;        /* the name of the hosts file's block that the data is; NULL: of none */
	char *block_domain; /* see struct hosts_block */
	/* COMMIT of a block: the file that its new one was made from, or the work fails. */
	struct file_version version;
	bool passing; /* no loss in a power cut: in place is enough, the disk may come later */
	bool again;   /* after a failure the queue does it again until it succeeds */
};

/*
 * The whole file that the work would put in place, and the one that is there; blocks for the disk.
 * 0 or BERTH_FAILED.
 */
int file_work_content(const struct file_work *work, struct buffer *out,
	struct file_version *ret_version, struct err *err) ERR_REQUIRED(4);

/*
 * Does it; blocks for the disk. 0 or BERTH_FAILED. A PREPARE or REPLACE that failed leaves no new
 * file; COMMIT leaves it.
 */
int file_work_do(const struct file_work *work, struct err *err) ERR_REQUIRED(2);

/* Frees what the work holds. */
void file_work_finish(struct file_work *work);

#endif
