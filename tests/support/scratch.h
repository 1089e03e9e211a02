/*
 * Files and directories for one test, below $TMPDIR: tests/run clears that away, but a test removes what it has made.
 */
#ifndef TESTS_SCRATCH_H
#define TESTS_SCRATCH_H

enum { SCRATCH_PATH = 256 };

/* Each makes one, empty and for the owner alone, and fills in its path; they abort on failure. */
void scratch_folder(char path[SCRATCH_PATH]);
/* Returns a descriptor that reads and writes it. */
int scratch_file(char path[SCRATCH_PATH]);

#endif
