/*
 * The account of one container, which is there or has gone: its posts (publish.h) and the nodes
 * above these that were made for it (parents.h). Both count, so that a container stays within its
 * limits while nodes that it has given up are in the registry yet.
 */
#ifndef AGENT_BRIDGE_ACCOUNT_H
#define AGENT_BRIDGE_ACCOUNT_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/list.h"
#include "lib/program/log_rate.h"

struct bridge_account {
	char *container; /* its key, also in the book: a directory's name, or SOURCE/ID */
	struct list link;
	char *name; /* for people: SOURCE/NAME */
	size_t references;
	struct list posts; /* in the order in which they were made */
	size_t post_count;
	size_t post_bytes; /* of their records */
	size_t leaving;    /* posts that the container has given up */
	struct list parents;
	struct log_rate lines; /* of log and history */
};

/* A change of a container's state, or of that of one of its records. */
struct bridge_event {
	const char *container; /* its name for people */
	const char *path;      /* NULL: the container's own */
	const char *from;
	const char *to;
	const char *why;
	bool counts_only; /* the container causes too many: it is for the metrics alone */
};

struct bridge_accounts {
	struct list all;
	void *by_container; /* by_text.h */
	struct log_rate lines;
	void (*on_event)(void *context, const struct bridge_event *event);
	void *context;
};

void bridge_accounts_init(struct bridge_accounts *accounts,
	void (*on_event)(void *context, const struct bridge_event *event), void *context);

/* NULL: it has none. Borrowed. */
struct bridge_account *bridge_accounts_find(
	const struct bridge_accounts *accounts, const char *container);
/* The container's account, with one reference more. */
struct bridge_account *bridge_accounts_refer(
	struct bridge_accounts *accounts, const char *container);
/* For people, from now on; without it the key is the name, or dir/KEY. */
void bridge_account_rename(struct bridge_account *account, const char *name);
/* Reports a change; those beyond the container's rate for the metrics alone. */
void bridge_accounts_report(const struct bridge_accounts *accounts, struct bridge_account *account,
	const struct bridge_event *event);
/* The last reference takes the account with it. */
void bridge_accounts_release(struct bridge_accounts *accounts, struct bridge_account *account);

#endif
