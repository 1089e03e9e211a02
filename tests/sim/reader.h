/*
 * A reader of the map that a simulated agent hands out (lib/shared/read.h): a process of its own,
 * which the agent neither sees nor stops. It reads at any time, also after the agent was killed,
 * and holds what it finds against the history: a hit means what a HIT with age 0 means on the
 * socket, and is never older than what the socket has answered or the event stream has told.
 *
 *   no map --a request is answered--> a map --it is retired, or its agent dead--> no map
 *
 * One of its threads is stopped in the middle of a reading, between any two of the words that it
 * loads, and goes on some seconds later: reader_steps.c.
 */
#ifndef TESTS_SIM_READER_H
#define TESTS_SIM_READER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/un.h>

#include "tests/sim/answers.h"

struct process;
struct reader;

/* `answers` of the agent's socket are borrowed; so is its address. */
struct reader *reader_create(
	struct answers *answers, uint64_t seed, const struct sockaddr_un *address);
/* Accepts NULL, as all that follows. */
void reader_destroy(struct reader *reader);

/* Reads, and asks for a map; `agent` is NULL while it is down. While all is calm it reads less. */
void reader_step(struct reader *reader, struct process *agent, bool calm);
/* Takes what the agent has sent. */
void reader_receive(struct reader *reader);
/* Looks at an answer at once. */
void reader_look(struct reader *reader);
int64_t reader_due_ms(const struct reader *reader);
/* Should the answer to this look-up be in the map? */
bool reader_wants(struct reader *reader);
/* A stream has told that the path has this record, null, or NULL: no node. */
void reader_hear(struct reader *reader, const char *path, const json_t *record);
/* The agent's process is gone; `retires`: it has ended in an orderly way. */
void reader_lose(struct reader *reader, bool retires);

#endif
