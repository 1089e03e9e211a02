/*
 * The account of one container, which is there or has gone: its posts (publish.h) and the nodes
 * above these that were made for it (parents.h). Both count, so that a container stays within its
 * limits while nodes that it has given up are in the registry yet.
 */
#ifndef AGENT_BRIDGE_ACCOUNT_H
#define AGENT_BRIDGE_ACCOUNT_H

#include <jansson.h>
#include <stddef.h>

#include "lib/base/list.h"

struct bridge_account {
	struct list link;
	char *container;
	size_t references;
	struct list posts; /* in the order in which they were made */
	size_t post_count;
	size_t post_bytes; /* of their records */
	size_t leaving;    /* posts that the container has given up */
	struct list parents;
};

struct bridge_accounts {
	struct list all;
	json_t *by_container; /* name -> the account's address */
};

void bridge_accounts_init(struct bridge_accounts *accounts);
/* Once nobody refers to an account. */
void bridge_accounts_finish(struct bridge_accounts *accounts);

/* NULL: it has none. Borrowed. */
struct bridge_account *bridge_accounts_find(
	const struct bridge_accounts *accounts, const char *container);
/* The container's account, with one reference more. */
struct bridge_account *bridge_accounts_refer(
	struct bridge_accounts *accounts, const char *container);
/* The last reference takes the account with it. */
void bridge_accounts_release(struct bridge_accounts *accounts, struct bridge_account *account);

#endif
