/*
 * A pattern over all that a command prints, in bounded memory: what has come is judged by whole lines and forgotten.
 */
#ifndef AGENT_CHECK_MATCH_H
#define AGENT_CHECK_MATCH_H

#include <stdbool.h>
#include <stddef.h>

/* Of a longer line this much, its beginning, is judged. */
#define CHECK_MATCH_LINE_BYTES 65536

struct check_match;

/* `pattern` has been verified. Never NULL. */
struct check_match *check_match_create(const char *pattern);
/* Accepts NULL. */
void check_match_destroy(struct check_match *match);

void check_match_add(struct check_match *match, const char *data, size_t len);

/* At the end of the output: whether some line matched, the one after the last newline among them, even if it is empty. */
bool check_match_finish(struct check_match *match);

#endif
