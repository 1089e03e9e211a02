/*
 * Commands that `berth watch` runs: one after the other, with what they are for on standard input.
 */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

/*
 * Runs a command with BERTH_EVENT and BERTH_PATH in its environment and `input` to read, and waits
 * for it. Returns its exit status, 128 and the number of the signal that ended it, or -1 when it
 * could not be run; says on stderr when that is not 0.
 */
int command_run(char **command, const char *event, const char *path, const char *input);

#endif
