/*
 * The frames between the agent and a looker (wire.h): one question at a time, and events between.
 *
 *      agent                                    looker
 *        |---- HELLO containers ----------------->|  then: READY
 *        |---- LIST ----------------------------->|  ENTRY …, LISTED
 *        |---- LOOK container, what is known ---->|  RECORD …, OWNER …, SOCKET …, LOOKED
 *        |---- FORGET id ------------------------>|  no answer: its directories are watched no more
 *        |<--- EVENT id, what, count -------------|  at any time
 *        |     end of file                        |  the looker ends
 *
 * The fields of each frame are in the order in which the comments name them. Text of strangers
 * (names, records) is checked before it is sent, and judged again by the agent.
 */
#ifndef LIB_LOOKER_PROTOCOL_H
#define LIB_LOOKER_PROTOCOL_H

#include <limits.h>

#include "lib/base/limits.h"

enum { LOOKER_PLACE_BYTES = LIMIT_PATH_BYTES + 1 + NAME_MAX + 1 };

enum looker_frame {
	/* path of the directory of containers */
	LOOKER_HELLO = 1,
	LOOKER_LIST,
	/*
	 * id, name, device, inode, flags, number of claims to pass over, where the walk goes on or
	 * "", entries to visit, max_records, max_bytes, owner uid, gid;
	 * device and inode of its socket;
	 * count of allowed patterns, those; count of pinned attributes, those with their values;
	 * count of known claims; of each its path, its version (4 numbers), its owner's inode,
	 * whether that version is a record
	 */
	LOOKER_LOOK,
	LOOKER_FORGET, /* id */

	LOOKER_READY = 64, /* error or "", cage in words, 1: there is inotify */
	LOOKER_ENTRY,      /* name, device, inode */
	LOOKER_LISTED,     /* error or "", flags */
	/* path, kind, flags, version (4 numbers), error code, error or record */
	LOOKER_RECORD,
	LOOKER_OWNER,  /* path, device, inode; with a descriptor */
	LOOKER_SOCKET, /* device, inode; with a descriptor */
	/*
	 * id, flags; when the time for this look was over before its end: number of claims looked
	 * at, where the walk is to go on, entries left to visit; else 0, ""; number of further
	 * records, time in ns without that in which the machine had no processor for it, error
	 */
	LOOKER_LOOKED,
	LOOKER_EVENT, /* id, flags, number of events */
};

/* Of LOOKER_LOOK. */
enum {
	LOOKER_WALK = 1,      /* for new records, too, and for directories to watch */
	LOOKER_WATCH = 2,     /* else its watches end */
	LOOKER_HAS_POLICY = 4 /* else nothing is allowed */
};

/* Of LOOKER_LISTED. */
enum {
	LOOKER_ANOTHER = 1 /* another directory has its place: a new looker is needed */
};

/* The node at a path. */
enum looker_kind {
	LOOKER_KIND_UNSEEN,     /* descriptors or memory are short: nothing is known */
	LOOKER_KIND_ABSENT,     /* no node */
	LOOKER_KIND_PERSISTENT, /* a node without an owner */
	LOOKER_KIND_ENDED,      /* its owner has ended it */
	LOOKER_KIND_DEAD,       /* its owner has died */
	LOOKER_KIND_LIVE
};

/* Of LOOKER_RECORD. */
enum {
	LOOKER_READ = 1, /* the record, or why it is none, follows; else it is the known version */
	LOOKER_UNREAD = 2, /* it was judged before it was read: it may be read one day */
	LOOKER_NEW = 4     /* the walk has found it */
};

/* Of LOOKER_LOOKED. */
enum {
	LOOKER_GONE = 1,    /* the subdirectory is another one now, or none */
	LOOKER_UNSEEN = 2,  /* something could not be looked at: descriptors or memory are short */
	LOOKER_PARTIAL = 4, /* there are more entries than may be visited */
	LOOKER_UNBOUNDED = 8,   /* registry/ shares the file system of its directory */
	LOOKER_INCOMPLETE = 16, /* not all of it can be watched */
	LOOKER_UNSAFE = 32      /* registry/ is on a file system without nosuid or nodev */
};

/* Of LOOKER_EVENT; id 0: the directory of containers, or everything. */
enum {
	LOOKER_CHANGED = 1,
	LOOKER_OWNER_CLOSED = 2,
	LOOKER_LOST = 4 /* events were lost */
};

#endif
