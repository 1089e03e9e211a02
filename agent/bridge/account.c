#include "agent/bridge/account.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/base/by_text.h"
#include "lib/base/text.h"

enum { WHY_BYTES = 512 };

void bridge_accounts_init(struct bridge_accounts *accounts,
	void (*on_event)(void *context, const struct bridge_event *event), void *context)
{
	*accounts = (struct bridge_accounts){
		.lines = LOG_RATE_OF_ALL, .on_event = on_event, .context = context
	};
	list_init(&accounts->all);
}

struct bridge_account *bridge_accounts_find(
	const struct bridge_accounts *accounts, const char *container)
{
	return by_text_find(&accounts->by_container, container);
}

struct bridge_account *bridge_accounts_refer(
	struct bridge_accounts *accounts, const char *container)
{
	struct bridge_account *account = bridge_accounts_find(accounts, container);
	if (!account) {
		account = allocate_zeroed(1, sizeof(*account));
		account->container = allocate_text(container);
		account->name = strchr(container, '/') ? allocate_text(container)
						       : allocate_format("dir/%s", container);
		account->lines.all = &accounts->lines;
		list_init(&account->posts);
		list_init(&account->parents);
		list_append(&accounts->all, &account->link);
		by_text_add(&accounts->by_container, account);
	}
	account->references++;
	return account;
}

void bridge_account_rename(struct bridge_account *account, const char *name)
{
	free(account->name);
	account->name = allocate_text(name);
}

void bridge_accounts_report(const struct bridge_accounts *accounts, struct bridge_account *account,
	const struct bridge_event *event)
{
	char why[WHY_BYTES];
	unsigned left_out = 0;
	struct bridge_event told = *event;
	told.container = account->name;
	told.counts_only = !log_rate_allows(&account->lines, &left_out);
	if (left_out) {
		text_printf(why, sizeof(why), "%s (%u lines before it are left out)", event->why,
			left_out);
		told.why = why;
	}
	accounts->on_event(accounts->context, &told);
}

void bridge_accounts_release(struct bridge_accounts *accounts, struct bridge_account *account)
{
	if (--account->references > 0) {
		return;
	}
	list_remove(&account->link);
	by_text_remove(&accounts->by_container, account);
	free(account->container);
	free(account->name);
	free(account);
}
