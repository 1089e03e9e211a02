/*
 * Files and directories for one test, below $TMPDIR: tests/run clears that away, but a test removes
 * what it has made.
 */
#ifndef TESTS_SUPPORT_SCRATCH_H
#define TESTS_SUPPORT_SCRATCH_H

enum { SCRATCH_PATH = 256 };

/* Each makes one, empty and for the owner alone, and fills in its path; they abort on failure. */
void scratch_folder(char path[SCRATCH_PATH]);
/*
 * The same in memory where that is possible, not below $TMPDIR: thousands of fsync() on a disk tell
 * nothing new, and how long they take is up to whatever else writes to it.
 */
void scratch_memory_folder(char path[SCRATCH_PATH]);
/* Returns a descriptor that reads and writes it. */
int scratch_file(char path[SCRATCH_PATH]);

#endif
