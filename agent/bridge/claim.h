/*
 * One record that a container has in its registry, as the host judges it.
 *
 *   NEW --> HELD       it is announced; the announcement has a state of its own
 *       \-> CONFLICT   another container of this host, or the host itself, has the path
 *       \-> REFUSED    the policy, a limit, or no service record
 *       \-> WAITING    the container has written too fast
 *       \-> FROZEN     its owner's control group is frozen
 *       \-> WITHHELD   its source keeps it out: a check, a stop, a pause
 *   HELD --its owner died, with linger--> LINGERING --a new owner--> HELD
 *   any --the record is gone--> freed
 */
#ifndef AGENT_BRIDGE_CLAIM_H
#define AGENT_BRIDGE_CLAIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/bridge/holders.h"
#include "agent/config/config.h"
#include "lib/base/err.h"
#include "lib/base/list.h"

enum bridge_claim_state {
	BRIDGE_CLAIM_NEW,
	BRIDGE_CLAIM_HELD,
	BRIDGE_CLAIM_CONFLICT,
	BRIDGE_CLAIM_REFUSED,
	BRIDGE_CLAIM_WAITING,
	BRIDGE_CLAIM_FROZEN,
	BRIDGE_CLAIM_LINGERING,
	BRIDGE_CLAIM_WITHHELD,
	BRIDGE_CLAIM_STATES
};

/* The wish of its source for a record that the host allows. */
enum bridge_hold {
	BRIDGE_HOLD_IN,       /* in the registry */
	BRIDGE_HOLD_AS_IT_IS, /* no verdict yet: a predecessor's stays, a new one waits */
	BRIDGE_HOLD_OUT
};

/* Which file a record is, and in which version, as the looker says. */
struct bridge_version {
	uint64_t inode; /* 0: it has to be read */
	uint64_t size;
	uint64_t modified_ns;
	uint64_t changed_ns;
};

struct bridge_claim {
	char *path;
	struct list link;
	enum bridge_claim_state state;
	enum bridge_hold hold;
	char *why;      /* of the state; NULL: "" */
	char *hold_why; /* NULL: "" */
	double since;   /* of the state; wall clock */
	struct bridge_version version;
	bool good;    /* it can be announced; else there is a mistake, or it has not been read */
	bool unread;  /* it was over a limit, and not read */
	bool changed; /* since it was announced */
	bool frozen;
	uint8_t owner_readings; /* that lacked its process, see holders.h */
	size_t len;             /* of the record as the container has it */
	/* As it is to be announced, with our mark; NULL while the announcement has it. */
	char *data;
	struct err *mistake;   /* NULL: none */
	int64_t dead_since_ms; /* 0: its owner lives */
	int owner_fd;    /* of the file whose lock is its life; -1: the looker has not given it */
	pid_t owner_pid; /* 0: the agent does not see it */
	uint64_t owner_inode;
	char *group; /* that is frozen */
};

struct bridge_claim *bridge_claim_create(const char *path);
void bridge_claim_free(struct bridge_claim *claim);
const char *bridge_claim_state_name(enum bridge_claim_state state);
/* True when the state or its reason is another one than before. */
bool bridge_claim_set_state(
	struct bridge_claim *claim, enum bridge_claim_state state, const char *why);
/* Takes the file of the owner, if it is what it should be. */
void bridge_claim_take_owner(
	struct bridge_claim *claim, int fd_take, uint64_t device, uint64_t inode);
void bridge_claim_drop_owner(struct bridge_claim *claim);

enum bridge_owner {
	BRIDGE_OWNER_UNKNOWN,
	BRIDGE_OWNER_LIVES,
	BRIDGE_OWNER_DIED,
	BRIDGE_OWNER_LEFT
};
/*
 * Asks the kernel for the owner's lock: for a container whose looker does not answer. Nobody else
 * has a part in the answer, and its time is bounded by the number of locks; an owner with so many
 * that it takes long is UNKNOWN from then on.
 */
enum bridge_owner bridge_claim_ask_owner(struct bridge_claim *claim);

/* Whether it has an owner whose process may be found one day. */
bool bridge_claim_seeks_owner(const struct bridge_claim *claim);
/*
 * Seeks it in what was read: the whole list, or its beginning; then asks whether it is frozen. True
 * when that is news.
 */
bool bridge_claim_seek_owner(
	struct bridge_claim *claim, const struct bridge_holders *holders, bool whole);
/* Asks whether its owner is frozen. True when that is news. */
bool bridge_claim_ask_freezer(struct bridge_claim *claim);

#endif
