/*
 * Matches a pattern against all output of a command, in bounded memory: each line is judged when it
 * is complete, and dropped.
 */
#ifndef AGENT_CHECK_MATCH_H
#define AGENT_CHECK_MATCH_H

#include <stdbool.h>
#include <stddef.h>

/* Only so many bytes of a longer line, its first ones, are judged. */
#define CHECK_MATCH_LINE_BYTES 65536

struct check_match;

/* `pattern`, a POSIX extended regular expression, has been verified. Never NULL. */
struct check_match *check_match_create(const char *pattern, bool ignore_case);
/* Accepts NULL. */
void check_match_destroy(struct check_match *match);

void check_match_add(struct check_match *match, const char *data, size_t len);

/*
 * At the end of the output: true when some line matched. The text behind the last newline is a line
 * too, even if it is empty.
 */
bool check_match_finish(struct check_match *match);

#endif
