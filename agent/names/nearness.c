/* The order of an answer by nearness. */
#include <stdlib.h>

#include "agent/base/allocate.h"
#include "agent/names/names.h"
#include "lib/render/locality.h"

/* The keys by which an address or a target is ordered. */
struct ranked {
	size_t index;
	unsigned tier;
	unsigned priority;
};

static int compare(const struct ranked *left, const struct ranked *right)
{
	int order = (left->tier > right->tier) - (left->tier < right->tier);
	return order != 0 ? order
			  : (left->priority > right->priority) - (left->priority < right->priority);
}

static int by_rank(const void *a, const void *b)
{
	const struct ranked *left = a;
	const struct ranked *right = b;
	int order = compare(left, right);
	return order != 0 ? order : (left->index > right->index) - (left->index < right->index);
}

unsigned names_tier(const struct names_answer *answer, size_t from, const char *zone)
{
	const struct names_origin *origin = &answer->origins[from];
	return render_tier(origin->rank, origin->zone, zone);
}

static struct ranked *rank_targets(const struct names_answer *answer, const char *zone)
{
	struct ranked *ranked = allocate_zeroed(answer->target_count, sizeof(*ranked));
	for (size_t i = 0; i < answer->target_count; i++) {
		const struct names_target *target = &answer->targets[i];
		ranked[i] = (struct ranked){ .index = i,
			.tier = zone ? names_tier(answer, target->from, zone) : 0,
			.priority = zone ? target->priority : 0 };
	}
	if (answer->target_count > 0) {
		qsort(ranked, answer->target_count, sizeof(*ranked), by_rank);
	}
	return ranked;
}

static size_t *indices_of(struct ranked *ranked_taken, size_t count)
{
	size_t *indices = allocate_zeroed(count, sizeof(*indices));
	for (size_t i = 0; i < count; i++) {
		indices[i] = ranked_taken[i].index;
	}
	free(ranked_taken);
	return indices;
}

size_t *names_order_targets(const struct names_answer *answer, const char *zone)
{
	return indices_of(rank_targets(answer, zone), answer->target_count);
}

size_t *names_order_addresses(const struct names_answer *answer, const char *zone)
{
	size_t count = answer->address_count;
	struct ranked *ranked = allocate_zeroed(count, sizeof(*ranked));
	for (size_t i = 0; i < count; i++) {
		ranked[i] = (struct ranked){ .index = i,
			.tier = zone ? names_tier(answer, answer->addresses[i].from, zone) : 0 };
	}
	if (count > 0) {
		qsort(ranked, count, sizeof(*ranked), by_rank);
	}
	return indices_of(ranked, count);
}

uint16_t *names_priorities(const struct names_answer *answer, const char *zone)
{
	size_t count = answer->target_count;
	struct ranked *ranked = rank_targets(answer, zone);
	uint16_t *priorities = allocate_zeroed(count, sizeof(*priorities));
	uint16_t priority = 0;
	for (size_t i = 0; i < count; i++) {
		bool farther = i > 0 && compare(&ranked[i - 1], &ranked[i]) != 0;
		priority = (uint16_t)(priority + (farther && priority < UINT16_MAX));
		priorities[ranked[i].index] = priority;
	}
	free(ranked);
	return priorities;
}
