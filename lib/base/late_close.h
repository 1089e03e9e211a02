/*
 * Closing a descriptor for which the kernel makes the closer wait: the last close of an inotify
 * instance takes some 10 ms, until no processor looks at its watches any more.
 */
#ifndef LIB_BASE_LATE_CLOSE_H
#define LIB_BASE_LATE_CLOSE_H

/*
 * Closes `fd` at once; a child, which has no other descriptor, holds a copy of it, and waits in
 * the caller's place. The caller has one thread and reaps the child, or lets its loop do that.
 * Without a process for it the caller itself waits.
 */
void late_close(int fd);

#endif
