/*
 * A question: a key of sets (set.h) with all that follows from it. Counted by reference: its
 * followed set and the sets that were made for it have it together.
 */
#ifndef AGENT_SET_QUESTION_H
#define AGENT_SET_QUESTION_H

#include "agent/set/record.h"
#include "agent/set/set.h"

struct set_question {
	size_t references;
	struct set_key key;
	char *id; /* all of the key, as text */
	uint64_t hash;
	struct names_name name; /* without the further paths */
	struct set_reader reader;
	bool can_be;       /* something may have this name */
	const char *where; /* the nearest path, or one above it in the same registry */
};

/* The text that is the same for the same keys alone. free(). */
char *set_question_id(const struct set_key *key);
struct set_question *set_question_create(
	const struct set_key *key, const char *domain, char *id_taken);
struct set_question *set_question_hold(struct set_question *question);
void set_question_release(struct set_question *question);

#endif
