#include "xds/share.h"

#include <stdlib.h>

#include "lib/base/list.h"
#include "lib/base/share.h"
#include "lib/program/memory.h"

struct share {
	struct list link;
	struct shares *shares;
	struct share_client client;
	size_t connections;
	size_t bytes;
	struct follow_quota quota;
	int64_t debt_us; /* work that is not paid for yet, at debt_at_us */
	int64_t debt_at_us;
};

struct shares {
	struct list all;
	struct log_rate lines; /* of the log, that all clients cause */
	size_t connections_of_one;
	size_t bytes;
};

#define SHARE(item) LIST_ITEM(item, struct share, link)

struct shares *shares_create(size_t connections)
{
	struct shares *shares = memory_zeroed(1, sizeof(*shares));
	list_init(&shares->all);
	shares->lines = (struct log_rate)LOG_RATE_OF_ALL;
	shares->connections_of_one = connections - connections / 4;
	return shares;
}

static void forget(struct share *share)
{
	list_remove(&share->link);
	free(share);
}

void shares_destroy(struct shares *shares)
{
	while (!list_empty(&shares->all)) {
		forget(SHARE(shares->all.next));
	}
	free(shares);
}

/* ---- clients ---- */

/* It stays without connections while names that it began are followed, or lines of it count. */
static struct share *find(struct shares *shares, const struct share_client *client)
{
	struct share *found = NULL;
	struct list *link = shares->all.next;
	while (link != &shares->all) {
		struct share *share = SHARE(link);
		link = link->next;
		if (share_client_same(&share->client, client)) {
			found = share;
		} else if (share->connections == 0 && share->quota.names == 0 &&
			log_rate_is_new(&share->quota.lines)) {
			forget(share);
		}
	}
	return found;
}

struct share *share_join(struct shares *shares, int fd)
{
	struct share_client client = share_client_of(fd);
	struct share *share = find(shares, &client);
	if (!share) {
		share = memory_zeroed(1, sizeof(*share));
		share->shares = shares;
		share->quota.lines.all = &shares->lines;
		share->client = client;
		list_append(&shares->all, &share->link);
	}
	if (share->connections >= shares->connections_of_one) {
		return NULL;
	}
	share->connections++;
	return share;
}

void share_leave(struct share *share)
{
	share->connections--;
}

struct follow_quota *share_quota(struct share *share)
{
	return &share->quota;
}

/* ---- memory and work ---- */

bool share_hold(struct share *share, size_t before, size_t now)
{
	share->bytes = share->bytes - before + now;
	share->shares->bytes = share->shares->bytes - before + now;
	return now <= before ||
		(share->bytes <= SHARE_BYTES && share->shares->bytes <= SHARE_ALL_BYTES);
}

/* Half of the time that has passed pays for work. */
static void pay(struct share *share, int64_t now_us)
{
	int64_t paid_us = (now_us - share->debt_at_us) / 2;
	share->debt_us = share->debt_us > paid_us ? share->debt_us - paid_us : 0;
	share->debt_at_us = now_us;
}

void share_work(struct share *share, int64_t work_us, int64_t now_us)
{
	pay(share, now_us);
	share->debt_us += work_us;
	if (share->debt_us > SHARE_DEBT_US) {
		share->debt_us = SHARE_DEBT_US;
	}
}

int64_t share_pause_us(struct share *share, int64_t now_us)
{
	pay(share, now_us);
	return share->debt_us > SHARE_BURST_US ? 2 * (share->debt_us - SHARE_BURST_US) : 0;
}
