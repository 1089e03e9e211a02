/*
 * How an agent knows the records that it has written itself, when their session is not the present
 * one any more.
 *
 * An id proves nothing: two agents may be configured with one. So each state directory has a
 * secret, and each record an attribute that is made of the secret and the record's path by a
 * one-way function: only the holder of the secret can tell that it is its own, and a reader of the
 * record learns nothing by which to claim it, or another one.
 *
 *   secret --> key of a path --> mark of the key, in the record
 *
 * An agent in a container, whose records the host's agent announces, shows it the key in a
 * directory that the two share; the host's agent makes the mark of it.
 */
#ifndef AGENT_BASE_HOLDER_H
#define AGENT_BASE_HOLDER_H

#include <stdbool.h>

#define HOLDER_MARK "berth:holder" /* the attribute of a record */
#define HOLDER_KEY "berth:claim"   /* of a record that only the host's agent reads */

enum { HOLDER_KEY_SIZE = 64 + 1, HOLDER_MARK_SIZE = 32 + 1, HOLDER_SECRET_SIZE = 64 + 1 };

/* All of these are hexadecimal digits; a holder without a secret has no keys. */
struct holder {
	char secret[HOLDER_SECRET_SIZE]; /* "": it cannot be made, and nothing is marked */
};

/* Makes a new secret. */
void holder_init(struct holder *holder);
/* Takes a secret that was made before; false for any other text. */
bool holder_take(struct holder *holder, const char *secret);

enum holder_use {
	HOLDER_UNUSED,
	HOLDER_FOR_ALL, /* the mark, in a record that all can read */
	HOLDER_FOR_HOST /* the key, in a record that the host's agent announces */
};

struct holder_attribute {
	const char *name; /* NULL: none */
	char value[HOLDER_KEY_SIZE];
};

void holder_attribute_make(struct holder_attribute *attribute, const struct holder *holder,
	const char *path, enum holder_use use);

/* "" without a secret, or a holder. */
void holder_key(const struct holder *holder, const char *path, char key[HOLDER_KEY_SIZE]);
/* "" for any text but a key. */
void holder_mark(const char *key, char mark[HOLDER_MARK_SIZE]);

#endif
