/*
 * A pattern over all that a command prints, in bounded memory: whole lines are judged as they come,
 * and forgotten.
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
 * At the end of the output: whether some line matched. What follows the last newline is a line too,
 * even an empty one.
 */
bool check_match_finish(struct check_match *match);

#endif
