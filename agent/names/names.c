/* From a name to the paths that it may mean, and the choice among them. */
#include "agent/names/names.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/names/internal.h"
#include "lib/base/array.h"
#include "lib/base/path.h"
#include "lib/base/text.h"
#include "lib/record/select.h"

#define MAX_PATH_BYTES 1024

/* Elements of a path, from the root down; borrowed. */
struct elements {
	const char *at[NAMES_MAX_LABELS + 3];
	size_t count;
};

/* One evaluation. */
struct evaluation {
	const struct names_source *source;
	/*
	 * "", or the path below which all of the name lie: a further one, or /net/NAME of a name of
	 * that registry.
	 */
	char base[sizeof("/net/") + PATH_DNS_NAME_BYTES];
	struct names_collector collector;
	const struct names_address *only; /* NULL, or the address that an ip- label asks for */
	/* Of the records that are meant: VALUE.NAME._attr, one behind the other. */
	const char *const *attributes;
	size_t attribute_labels;
	bool pending; /* something is being read */
	/* a path that the name may mean is unknown: fatal unless another one exists */
	bool undecided;
	/* a part of the set is unknown: the answer would be smaller than the set */
	bool incomplete;
};

static bool get_node(
	struct evaluation *evaluation, const char *path, const struct record **ret_record)
{
	*ret_record = NULL;
	enum names_known known = evaluation->source->node(
		evaluation->source->context, path, ret_record);
	evaluation->pending = evaluation->pending || known == NAMES_NODE_PENDING;
	evaluation->undecided = evaluation->undecided || known == NAMES_NODE_UNKNOWN;
	return known == NAMES_NODE_THERE;
}

static bool get_children(
	struct evaluation *evaluation, const char *path, char *const **ret_paths, size_t *ret_count)
{
	*ret_count = 0;
	enum names_known known = evaluation->source->children(
		evaluation->source->context, path, ret_paths, ret_count);
	evaluation->pending = evaluation->pending || known == NAMES_NODE_PENDING;
	evaluation->incomplete = evaluation->incomplete || known == NAMES_NODE_UNKNOWN;
	return known == NAMES_NODE_THERE;
}

/* The record of a node of a set, a child that its parent lists; NULL: there is none. */
static const struct record *get_member(struct evaluation *evaluation, const char *path)
{
	const struct record *record;
	bool undecided = evaluation->undecided;
	evaluation->undecided = false;
	get_node(evaluation, path, &record);
	evaluation->incomplete = evaluation->incomplete || evaluation->undecided;
	evaluation->undecided = undecided;
	return record;
}

static void collect(struct evaluation *evaluation, const char *path, const struct record *record)
{
	bool wanted = record && (!evaluation->only || names_record_has(record, evaluation->only));
	for (size_t i = 0; wanted && i < evaluation->attribute_labels; i += 3) {
		wanted = select_has_labels(
			record, evaluation->attributes[i + 1], evaluation->attributes[i]);
	}
	if (wanted) {
		names_collect(&evaluation->collector, path, record);
	}
}

/* The records of the components of the instance at `path`. */
static void collect_components(struct evaluation *evaluation, const char *path)
{
	char components[MAX_PATH_BYTES];
	char *const *children;
	size_t count;
	if (path_join(components, sizeof(components), path, "components", NULL) ||
		!get_children(evaluation, components, &children, &count)) {
		return;
	}
	for (size_t i = 0; i < count; i++) {
		collect(evaluation, children[i], get_member(evaluation, children[i]));
	}
}

/* ---- the paths that a name may mean ---- */

/* There is room for the 253 bytes of a name and for all that may be left out of it. */
static bool write_path(const struct evaluation *evaluation, char out[MAX_PATH_BYTES],
	const struct elements *elements)
{
	size_t used = strlen(evaluation->base);
	strcpy(out, evaluation->base);
	for (size_t i = 0; i < elements->count; i++) {
		size_t len = strlen(elements->at[i]);
		if (!path_element_valid(elements->at[i], len)) {
			return false;
		}
		out[used++] = '/';
		memcpy(out + used, elements->at[i], len);
		used += len;
	}
	strcpy(out + used, used == 0 ? "/" : "");
	return true;
}

static bool is_at(const struct elements *elements, size_t index, const char *element)
{
	return index < elements->count && strcmp(elements->at[index], element) == 0;
}

static struct elements insert(const struct elements *elements, size_t index, const char *element)
{
	struct elements longer = { .count = elements->count + 1 };
	for (size_t i = 0; i < longer.count; i++) {
		longer.at[i] = i < index ? elements->at[i]
			: i == index     ? element
					 : elements->at[i - 1];
	}
	return longer;
}

/* /users/USER/CLASS/INSTANCE, or Hadoop's /users/USER/services/CLASS/INSTANCE. */
static bool is_instance(const struct elements *elements)
{
	return is_at(elements, 0, "users") &&
		elements->count == (is_at(elements, 2, "services") ? 5 : 4);
}

/* True when the path exists; then its content has been collected. */
static bool try_path(struct evaluation *evaluation, const struct elements *elements)
{
	char path[MAX_PATH_BYTES];
	const struct record *record;
	if (!write_path(evaluation, path, elements) || !get_node(evaluation, path, &record)) {
		return false;
	}
	collect(evaluation, path, record);
	if (is_instance(elements)) {
		collect_components(evaluation, path);
	}
	return true;
}

/* A path below /users as it is, and with the levels that may be left out put back. */
static bool try_below_users(struct evaluation *evaluation, const struct elements *elements)
{
	if (try_path(evaluation, elements)) {
		return true;
	}
	bool has_services = is_at(elements, 2, "services");
	size_t component = has_services ? 5 : 4;
	if (elements->count == component + 1 && !is_at(elements, component, "components")) {
		struct elements whole = insert(elements, component, "components");
		if (try_path(evaluation, &whole)) {
			return true;
		}
	}
	if (has_services || elements->count < 3 || elements->count > 6) {
		return false;
	}
	struct elements hadoop = insert(elements, 2, "services");
	if (try_path(evaluation, &hadoop)) {
		return true;
	}
	hadoop = insert(&hadoop, 5, "components");
	return elements->count == 5 && try_path(evaluation, &hadoop);
}

/* ---- Hadoop's names, which leave out the service class ---- */

static bool is_component(const struct record *record, const char *label)
{
	return names_attribute_is(record, "description", label) ||
		names_attribute_is(record, "yarn:component", label);
}

static bool try_hadoop_components(
	struct evaluation *evaluation, const char *service, const char *label)
{
	char components[MAX_PATH_BYTES];
	char *const *children;
	size_t count;
	bool found = false;
	if (path_join(components, sizeof(components), service, "components", NULL) ||
		!get_children(evaluation, components, &children, &count)) {
		return false;
	}
	for (size_t i = 0; i < count; i++) {
		const struct record *record = get_member(evaluation, children[i]);
		if (record && is_component(record, label)) {
			collect(evaluation, children[i], record);
			found = true;
		}
	}
	return found;
}

/* SERVICE.USER and COMPONENT.SERVICE.USER: the class of the service is any below the user's. */
static bool try_hadoop(struct evaluation *evaluation, const struct elements *elements)
{
	char home[MAX_PATH_BYTES];
	struct elements classes_at = { { "users", elements->at[0], "services" }, 3 };
	char *const *classes;
	size_t count;
	bool found = false;
	if (elements->count < 2 || elements->count > 3 ||
		!write_path(evaluation, home, &classes_at) ||
		!get_children(evaluation, home, &classes, &count)) {
		return false;
	}
	for (size_t i = 0; i < count; i++) {
		char service[MAX_PATH_BYTES];
		const struct record *record;
		if (path_join(service, sizeof(service), classes[i], elements->at[1], NULL) ||
			!get_node(evaluation, service, &record)) {
			continue;
		}
		if (elements->count == 2) {
			collect(evaluation, service, record);
			found = true;
		} else {
			found = try_hadoop_components(evaluation, service, elements->at[2]) ||
				found;
		}
	}
	return found;
}

/* ---- records found by what they are, among those that are known ---- */

struct container_search {
	struct evaluation *evaluation;
	const char *label;
	bool found;
};

static void visit_container(void *context, const char *path, const struct record *record)
{
	struct container_search *search = context;
	if (strcmp(path_name(path), search->label) == 0) {
		collect(search->evaluation, path, record);
		search->found = true;
	}
}

/* Hadoop names every container at the top of its zone: ctr-e50-1451931954322-0016-01-000002. */
static bool try_container(struct evaluation *evaluation, const struct elements *elements)
{
	uint64_t key;
	/* The index has the records of the agent's own registry. */
	if (*evaluation->base || elements->count != 1 ||
		!names_container_key(&key, elements->at[0])) {
		return false;
	}
	const struct names_source *source = evaluation->source;
	struct container_search search = { evaluation, elements->at[0], false };
	if (source->each_known(source->context, key, visit_container, &search) ==
		NAMES_NODE_PENDING) {
		evaluation->pending = true;
	}
	return search.found;
}

struct reverse_search {
	struct names_answer *answer;
	const char *domain;
	const struct names_address *address;
};

static void visit_reverse(void *context, const char *path, const struct record *record)
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

/* ---- evaluation ---- */

/* Labels from the first one on but services and ip- labels, as a path's elements. */
static struct elements as_elements(const struct names_labels *labels, size_t first)
{
	struct elements elements = { .count = 0 };
	for (size_t i = labels->count; i-- > first;) {
		elements.at[elements.count++] = labels->labels[i];
	}
	return elements;
}

static bool find(struct evaluation *evaluation, const struct names_labels *labels, size_t first)
{
	struct elements elements = as_elements(labels, first);
	if (elements.count > 0 && strcmp(elements.at[0], "users") == 0) {
		return try_below_users(evaluation, &elements);
	}
	if (try_path(evaluation, &elements)) {
		return true;
	}
	struct elements below_users = insert(&elements, 0, "users");
	return try_below_users(evaluation, &below_users) || try_hadoop(evaluation, &elements) ||
		try_container(evaluation, &elements);
}

/* The same for what an ip- label in front leaves; such an element may also be a path's own. */
static bool find_with_address(
	struct evaluation *evaluation, const struct names_labels *labels, size_t first)
{
	struct names_address address;
	if (find(evaluation, labels, first)) {
		return true;
	}
	if (first >= labels->count || !names_read_address_label(&address, labels->labels[first])) {
		return false;
	}
	evaluation->only = &address;
	bool found = find(evaluation, labels, first + 1) &&
		evaluation->collector.answer->path_count > 0;
	struct names_answer *answer = evaluation->collector.answer;
	if (found) {
		answer->addresses[0] = address;
		answer->addresses[0].from = 0;
		answer->address_count = 1;
	}
	evaluation->only = NULL;
	return found;
}

/* Takes NAME.net off the end of what is behind the first labels. */
static void take_registry(struct evaluation *evaluation, struct names_labels *labels, size_t first)
{
	size_t count = labels->count;
	const char *name = count >= first + 2 ? labels->labels[count - 2] : NULL;
	if (name && strcmp(labels->labels[count - 1], "net") == 0 &&
		path_element_valid(name, strlen(name))) {
		strcpy(stpcpy(evaluation->base, "/net/"), name);
		labels->count -= 2;
	}
}

/* How many labels in front ask for a service: 2, 1 for a bare _tcp, 0. */
static size_t read_service(const struct names_labels *labels, const char **ret_service)
{
	static const char *const transports[] = { "_tcp", "_udp" };
	*ret_service = NULL;
	for (size_t i = 0; i < ARRAY_LEN(transports); i++) {
		if (labels->count > 1 && labels->labels[0][0] == '_' &&
			strcmp(labels->labels[1], transports[i]) == 0) {
			*ret_service = labels->labels[0] + 1;
			return 2;
		}
		if (labels->count > 0 && strcmp(labels->labels[0], transports[i]) == 0) {
			return 1;
		}
	}
	return 0;
}

/* How many labels from this one on ask for attributes: VALUE.NAME._attr, several times. */
static size_t read_attributes(const struct names_labels *labels, size_t first)
{
	size_t count = 0;
	while (first + count + 3 < labels->count &&
		strcmp(labels->labels[first + count + 2], "_attr") == 0) {
		count += 3;
	}
	return count;
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

void names_evaluate(struct names_answer *ret_answer, const char *name, const char *domain,
	const char *root, const struct names_source *source)
{
	struct names_labels labels;
	struct names_address address;
	*ret_answer = (struct names_answer){ .status = NAMES_OUTSIDE };
	if (!names_split(&labels, name)) {
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
	struct evaluation evaluation = { .source = source,
		.collector = { .answer = ret_answer, .domain = domain } };
	size_t service_labels = read_service(&labels, &evaluation.collector.service);
	evaluation.attributes = labels.labels + service_labels;
	evaluation.attribute_labels = read_attributes(&labels, service_labels);
	size_t first = service_labels + evaluation.attribute_labels;
	if (*root) {
		text_printf(evaluation.base, sizeof(evaluation.base), "%s", root);
	} else {
		take_registry(&evaluation, &labels, first);
	}
	bool found = find_with_address(&evaluation, &labels, first);
	names_collect_end(&evaluation.collector);
	bool unknown = evaluation.incomplete || (!found && evaluation.undecided);
	if (evaluation.pending || unknown) {
		names_answer_finish(ret_answer);
		*ret_answer = (struct names_answer){ .status = evaluation.pending ? NAMES_PENDING
										  : NAMES_UNKNOWN };
		return;
	}
	found = found && (evaluation.attribute_labels == 0 || ret_answer->path_count > 0);
	ret_answer->status = found ? NAMES_FOUND : NAMES_ABSENT;
	if (found && service_labels > 0) {
		keep_targets(ret_answer, service_labels);
	}
}
