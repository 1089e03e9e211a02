/*
 * Clients of a simulated agent, over its Unix socket: they look up records, lists and names all the
 * time, follow an event stream, and hold every answer against the history of the registry.
 */
#ifndef TESTS_SIM_CLIENT_H
#define TESTS_SIM_CLIENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/sim/world.h"

struct answers;
struct client;
struct process;

/* `world` is the registry whose history counts, `path` the agent's socket. */
struct client *client_begin(const struct world *world, int agent, uint64_t seed, const char *path);
void client_destroy(struct client *client);

/* Sends what is due; `agent` is NULL while it is down. While all is calm it asks less. */
void client_step(struct client *client, struct process *agent, bool calm);
/* The agent hears of the path at this moment: the client may ask for it. `context`: a client. */
void client_hear(void *context, const char *path);
/* Takes what the agent has sent. */
void client_receive(struct client *client);
/*
 * The agent has written to the descriptor at this moment: when it is that of the event stream and
 * the client has a reader of the map, it takes the events, and its reader looks.
 */
void client_hear_write(struct client *client, int fd);
/* Its reader of the map, if there is one, looks at an answer. */
void client_look(struct client *client);
/* Sends a whole request that changes something; false: nobody takes it. One at a time. */
bool client_order(struct client *client, const char *request);
/* Once, the status of its answer, or -1 when the agent hung up before; 0: none so far. */
int client_order_status(struct client *client);
int64_t client_due_ms(const struct client *client);
/* True until all its look-ups are answered. */
bool client_waits(const struct client *client);
/* `retires`: the agent has ended in an orderly way. */
void client_disconnect(struct client *client, bool retires);

/* ---- for the oracle ---- */

/*
 * Asks at once: what `read` makes of the answer to GET, or NULL when there is none within this
 * moment. Without `read` nobody wants the answer, but the agent reads what it needs for it.
 */
json_t *client_ask(struct client *client, struct process *agent, const char *target,
	json_t *(*read)(const char *body));

struct answers *client_answers(struct client *client);

/* The replayed picture of an event stream below /users: the record, null, or NULL: no path. */
bool client_stream_stale(const struct client *client);
bool client_stream_ready(const struct client *client);
size_t client_stream_count(const struct client *client);
const json_t *client_stream_record(const struct client *client, const char *path);

#endif
