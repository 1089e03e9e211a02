/* The answer for a name: what the records say that it means. */
#include "agent/names/names.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/names/internal.h"
#include "agent/set/question.h"

struct reverse_search {
	struct names_answer *answer;
	const char *domain;
	const struct names_address *address;
};

static void visit_reverse(void *context, const char *path, const void *record)
{
	const struct reverse_search *search = context;
	struct names_answer *answer = search->answer;
	char name[NAMES_NAME_BYTES];
	if (names_record_claims(path, record, search->address) &&
		path_dns_name(name, path, search->domain)) {
		answer->pointers = allocate_grow(
			answer->pointers, answer->pointer_count, sizeof(*answer->pointers));
		answer->pointers[answer->pointer_count++] = allocate_text(name);
		answer->paths = allocate_grow(
			answer->paths, answer->path_count, sizeof(*answer->paths));
		answer->paths[answer->path_count++] = allocate_text(path);
	}
}

static void evaluate_reverse(struct names_answer *answer, const struct names_address *address,
	const char *domain, const struct names_source *source)
{
	struct reverse_search search = { answer, domain, address };
	if (source->each_known(source->context, names_address_key(address), visit_reverse,
		    &search) == NAMES_NODE_PENDING) {
		answer->status = NAMES_PENDING;
		return;
	}
	answer->status = answer->pointer_count > 0 ? NAMES_FOUND : NAMES_OUTSIDE;
}

/* A service's name has targets only, and the name above it, _tcp.NAME, nothing of its own. */
static void keep_targets(struct names_answer *answer, size_t service_labels)
{
	struct names_answer kept = { .status = answer->status };
	if (service_labels == 2) {
		kept.targets = answer->targets;
		kept.target_count = answer->target_count;
		kept.paths = answer->paths;
		kept.path_count = answer->path_count;
		kept.origins = answer->origins;
		answer->origins = NULL;
		answer->targets = NULL;
		answer->target_count = 0;
		answer->paths = NULL;
		answer->path_count = 0;
		if (kept.target_count == 0) {
			kept.status = NAMES_ABSENT;
		}
	}
	names_answer_finish(answer);
	*answer = kept;
}

static void collect(void *context, const char *path, const void *record)
{
	names_collect(context, path, record);
}

/* Ends the collecting of the records of a name. */
static void complete(struct names_answer *answer, struct names_collector *collector,
	const struct names_name *name, bool by_address)
{
	if (by_address && answer->address_count > 0) {
		answer->addresses[0] = name->address;
		answer->address_count = 1;
	}
	names_collect_end(collector);
}

void names_write_set(struct names_answer *ret_answer, const struct set *set, const char *domain)
{
	const struct names_name *name = &set->question->name;
	*ret_answer = (struct names_answer){ .status = NAMES_ABSENT };
	for (size_t i = 0; i < set->count;) {
		const unsigned rank = set->members[i].rank;
		struct names_answer part = { .status = NAMES_FOUND };
		struct names_collector collector = {
			.answer = &part, .domain = domain, .service = name->service
		};
		for (; i < set->count && set->members[i].rank == rank; i++) {
			const struct set_record *record = set->members[i].record;
			struct record *decoded = set_record_decode(record);
			names_collect(&collector, record->path, decoded);
			record_free(decoded);
		}
		complete(&part, &collector, name, set->by_address);
		names_answer_add(ret_answer, &part, rank);
		names_answer_finish(&part);
	}
	/* As with attributes in the name itself. */
	bool found = set->exists && (!set->question->key.filter.attributes || set->count > 0);
	ret_answer->status = found ? NAMES_FOUND : NAMES_ABSENT;
	if (found && name->service_labels > 0) {
		keep_targets(ret_answer, name->service_labels);
	}
	names_scale_weights(ret_answer);
}

void names_evaluate(struct names_answer *ret_answer, const char *text, const char *domain,
	const struct names_source *source)
{
	struct names_labels labels;
	struct names_address address;
	struct names_name name;
	*ret_answer = (struct names_answer){ .status = NAMES_OUTSIDE };
	if (!names_split(&labels, text)) {
		return;
	}
	if (names_read_reverse(&address, &labels)) {
		evaluate_reverse(ret_answer, &address, domain, source);
		return;
	}
	if (!names_take_domain(&labels, domain)) {
		return;
	}
	if (labels.count == 0) {
		ret_answer->status = NAMES_FOUND;
		ret_answer->apex = true;
		return;
	}
	names_read(&name, &labels, "");
	struct names_collector collector = {
		.answer = ret_answer, .domain = domain, .service = name.service
	};
	struct names_found found = names_find(&name, source, collect, &collector);
	complete(ret_answer, &collector, &name, found.by_address);
	if (found.pending || found.unknown) {
		names_answer_finish(ret_answer);
		ret_answer->status = found.pending ? NAMES_PENDING : NAMES_UNKNOWN;
		return;
	}
	ret_answer->status = found.found ? NAMES_FOUND : NAMES_ABSENT;
	if (found.found && name.service_labels > 0) {
		keep_targets(ret_answer, name.service_labels);
	}
}
