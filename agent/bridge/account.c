#include "agent/bridge/account.h"

#include <stdint.h>
#include <stdlib.h>

#include "agent/base/allocate.h"

void bridge_accounts_init(struct bridge_accounts *accounts)
{
	list_init(&accounts->all);
	accounts->by_container = allocated(json_object());
}

void bridge_accounts_finish(struct bridge_accounts *accounts)
{
	json_decref(accounts->by_container);
}

struct bridge_account *bridge_accounts_find(
	const struct bridge_accounts *accounts, const char *container)
{
	json_int_t address = json_integer_value(json_object_get(accounts->by_container, container));
	return (struct bridge_account *)(uintptr_t)address;
}

struct bridge_account *bridge_accounts_refer(
	struct bridge_accounts *accounts, const char *container)
{
	struct bridge_account *account = bridge_accounts_find(accounts, container);
	if (!account) {
		account = allocate_zeroed(1, sizeof(*account));
		account->container = allocate_text(container);
		list_init(&account->posts);
		list_init(&account->parents);
		list_append(&accounts->all, &account->link);
		json_object_set_new(accounts->by_container, container,
			allocated(json_integer((json_int_t)(uintptr_t)account)));
	}
	account->references++;
	return account;
}

void bridge_accounts_release(struct bridge_accounts *accounts, struct bridge_account *account)
{
	if (--account->references > 0) {
		return;
	}
	list_remove(&account->link);
	json_object_del(accounts->by_container, account->container);
	free(account->container);
	free(account);
}
