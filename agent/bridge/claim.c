#include "agent/bridge/claim.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/clock.h"
#include "lib/base/text.h"
#include "lib/record/record.h"

struct bridge_claim *bridge_claim_create(const char *path)
{
	struct bridge_claim *claim = allocate_zeroed(1, sizeof(*claim));
	list_init(&claim->link);
	claim->path = allocate_text(path);
	claim->since = clock_wall_s();
	return claim;
}

void bridge_claim_free(struct bridge_claim *claim)
{
	list_remove(&claim->link);
	free(claim->path);
	free(claim->data);
	free(claim);
}

const char *bridge_claim_state_name(enum bridge_claim_state state)
{
	static const char *const names[] = { "new", "held", "conflict", "refused", "waiting",
		"lingering" };
	return names[state];
}

bool bridge_claim_set_state(
	struct bridge_claim *claim, enum bridge_claim_state state, const char *why)
{
	bool news = claim->state != state || strcmp(claim->why, why) != 0;
	if (claim->state != state) {
		claim->since = clock_wall_s();
	}
	claim->state = state;
	text_printf(claim->why, sizeof(claim->why), "%s", why);
	return news;
}

static int pin(struct record *record, const struct config_container *policy)
{
	for (size_t i = 0; i < policy->attribute_count; i++) {
		const struct config_name_value *attribute = &policy->attributes[i];
		if (record_set_text(record, attribute->name, attribute->value)) {
			return BERTH_INVALID_RECORD;
		}
	}
	return 0;
}

static int make(struct bridge_claim *claim, const struct bridge_tree_node *node,
	const struct config_container *policy, char **ret_text, size_t *ret_len)
{
	struct record *record = NULL;
	struct err *err = &claim->mistake;
	if (node->err.code) {
		*err = node->err;
		return err->code;
	}
	if (record_decode_strictly(&record, node->data, node->len, err)) {
		return err->code;
	}
	int code = policy ? pin(record, policy) : 0;
	if (code) {
		err_set(err, code, "an attribute of the policy is not UTF-8 text");
	} else {
		code = record_encode(record, ret_text, ret_len, err);
	}
	record_free(record);
	return code;
}

void bridge_claim_read(struct bridge_claim *claim, const struct bridge_tree_node *node,
	const struct config_container *policy)
{
	char *text = NULL;
	size_t len = 0;
	claim->version = node->version;
	err_clear(&claim->mistake);
	if (make(claim, node, policy, &text, &len)) {
		text = NULL;
		len = 0;
	}
	bool same = text && claim->data && claim->len == len && memcmp(claim->data, text, len) == 0;
	claim->changed = claim->changed || !same;
	free(claim->data);
	claim->data = text;
	claim->len = len;
}
