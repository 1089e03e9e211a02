#include "tests/sim/known.h"

/* All records of a directory say more, or something else, after its list has changed. */
static bool is_comparable(
	const struct world *world, enum answer_kind kind, const char *name, int64_t since_ms)
{
	return kind != ANSWER_RECORDS || world_changed_ms(world, name, WORLD_CHILDREN) < since_ms;
}

bool known_take(struct known *known, const struct world *world, enum answer_kind kind, size_t path,
	const char *name, const struct known_claim *claim)
{
	int64_t *latest_ms = &known->true_ms[kind][path];
	bool good = claim->last_ms >= *latest_ms || !is_comparable(world, kind, name, *latest_ms);
	*latest_ms = claim->first_ms > *latest_ms ? claim->first_ms : *latest_ms;
	known->there_ms[kind][path] = claim->is_there ? claim->first_ms : 0;
	return good;
}

bool known_has(const struct known *known, const struct world *world, enum answer_kind kind,
	size_t path, const char *name)
{
	int64_t since_ms = known->there_ms[kind][path];
	return since_ms > 0 && world_last_true_ms(world, name, WORLD_DATA, NULL) < since_ms &&
		is_comparable(world, kind, name, since_ms);
}
