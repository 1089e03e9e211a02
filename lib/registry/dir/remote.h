/*
 * The dir: backend in another process, for directories that other users can open.
 *
 * Such a user can hold a directory's lock in the kernel for as long as he likes, and a process that
 * looks there waits in state D, SIGKILL or not (lib/looker/child.h). So all file calls below the
 * registry's root are a child's, which runs the backend of dir.c, and what goes to the backend and
 * comes from it goes over a socket:
 *
 *      here                                      berth-looker
 *        |---- HELLO root, locks ---------------->|  opens the backend
 *        |---- TASK, ABANDON, UNWATCH ----------->|  submit(), abandon(), unwatch()
 *        |<--- NAMES …, DONE ---------------------|  completed()
 *        |<--- STATE, NOTIFIED, LOG --------------|
 *        |<--- OWNER, with a descriptor ----------|  the lock of a node that it has made
 *        |<--- DROP ---- DROPPED ---------------->|  the lock ends, before it goes on
 *        |<--- WORKS ---- RESTS, number of frames |  around each dispatch()
 *        |---- CLOSE ---------------------------->|  close(), then the end of file
 *
 *   (none) --start--> STARTED --no word in time--> ABANDONED, and the registry is away
 *      ^                 |                            '--its end, or a pause--> start
 *      '---- a pause ----' it ended
 *
 * The locks of our nodes are here, and the child closes its copies: a node lives as long as this
 * process, whatever the child does, and not longer. A lock's end is a call on an open file of our
 * own.
 */
#ifndef LIB_REGISTRY_DIR_REMOTE_H
#define LIB_REGISTRY_DIR_REMOTE_H

enum dir_frame {
	/* root, whether it was there, count of locks; of each path, device, inode */
	DIR_FRAME_HELLO = 32,
	/* tag, operation, flags, ms left, expected node_id and version, path, data, home_of */
	DIR_FRAME_TASK,
	DIR_FRAME_ABANDON, /* tag */
	DIR_FRAME_UNWATCH, /* path, kind */
	DIR_FRAME_DROPPED,
	DIR_FRAME_CLOSE,

	DIR_FRAME_STATE = 96, /* state, why */
	DIR_FRAME_NAMES,      /* tag, whether they are foreign, count, those */
	DIR_FRAME_DONE,       /* tag, flags, code, message, stat, data */
	DIR_FRAME_NOTIFIED,   /* path, kind, whether it was deleted */
	DIR_FRAME_LOG,        /* level, message */
	DIR_FRAME_OWNER,      /* path; with a descriptor */
	DIR_FRAME_DROP,       /* device, inode */
	DIR_FRAME_WORKS,
	DIR_FRAME_RESTS, /* number of frames read */
};

/* Of DIR_FRAME_TASK. */
enum {
	DIR_TASK_WATCH = 1,
	DIR_TASK_EPHEMERAL = 2,
	DIR_TASK_SEQUENTIAL = 4,
	DIR_TASK_CONTAINER = 8,
	DIR_TASK_ALL = 16,
	DIR_TASK_EXPECTS = 32,
	DIR_TASK_HAS_HOME = 64
};

/* Of DIR_FRAME_DONE. */
enum { DIR_DONE_CHILDLESS = 1, DIR_DONE_HAS_DATA = 2, DIR_DONE_HAS_CHILDREN = 4 };

#endif
