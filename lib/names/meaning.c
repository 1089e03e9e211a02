#include "lib/names/meaning.h"

#include <string.h>

#include "lib/base/array.h"
#include "lib/base/path.h"
#include "lib/base/text.h"
#include "lib/record/select.h"
#include "lib/record/service.h"
#include "lib/record/target.h"

#define MAX_PATH_BYTES 1024

/* Elements of a path, from the root down; borrowed. */
struct elements {
	const char *at[NAMES_MAX_LABELS + 3];
	size_t count;
};

/* One search. */
struct evaluation {
	const struct names_source *source;
	const struct names_name *name;
	names_visit *collect;
	void *context;
	bool only; /* those that have the name's address */
	size_t collected;
	bool pending; /* something is being read */
	/* a path that the name may mean is unknown: fatal unless another one exists */
	bool undecided;
	/* a part of the set is unknown: the answer would be smaller than the set */
	bool incomplete;
};

static bool get_node(struct evaluation *evaluation, const char *path, const void **ret_record)
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
static const void *get_member(struct evaluation *evaluation, const char *path)
{
	const void *record;
	bool undecided = evaluation->undecided;
	evaluation->undecided = false;
	get_node(evaluation, path, &record);
	evaluation->incomplete = evaluation->incomplete || evaluation->undecided;
	evaluation->undecided = undecided;
	return record;
}

static bool is(const struct evaluation *evaluation, const void *record, enum names_trait trait)
{
	const struct names_source *source = evaluation->source;
	return source->is ? source->is(source->context, evaluation->name, record, trait)
			  : names_record_is(evaluation->name, record, trait);
}

static void collect(struct evaluation *evaluation, const char *path, const void *record)
{
	if (record && (!evaluation->only || is(evaluation, record, NAMES_HAS_ADDRESS)) &&
		(evaluation->name->attribute_labels == 0 ||
			is(evaluation, record, NAMES_HAS_ATTRIBUTES))) {
		evaluation->collect(evaluation->context, path, record);
		evaluation->collected++;
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
	size_t used = strlen(evaluation->name->base);
	strcpy(out, evaluation->name->base);
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

/*
 * The elements of the path of an instance, which has components: /services/NAME,
 * /users/USER/CLASS/INSTANCE, or Hadoop's /users/USER/services/CLASS/INSTANCE. 0: of no other path.
 */
static size_t instance_depth(const struct elements *elements)
{
	return is_at(elements, 0, "services")  ? 2
		: !is_at(elements, 0, "users") ? 0
					       : 4 + is_at(elements, 2, "services");
}

/* True when the path exists; then its content has been collected. */
static bool try_path(struct evaluation *evaluation, const struct elements *elements)
{
	char path[MAX_PATH_BYTES];
	const void *record;
	if (!write_path(evaluation, path, elements) || !get_node(evaluation, path, &record)) {
		return false;
	}
	collect(evaluation, path, record);
	if (elements->count == instance_depth(elements)) {
		collect_components(evaluation, path);
	}
	return true;
}

/* A path as it is; that of a component without the level above it, too. */
static bool try_with_components(struct evaluation *evaluation, const struct elements *elements)
{
	size_t depth = instance_depth(elements);
	if (try_path(evaluation, elements)) {
		return true;
	}
	if (depth == 0 || elements->count != depth + 1 || is_at(elements, depth, "components")) {
		return false;
	}
	struct elements whole = insert(elements, depth, "components");
	return try_path(evaluation, &whole);
}

/* A path below /users as it is, and with the levels that may be left out put back. */
static bool try_below_users(struct evaluation *evaluation, const struct elements *elements)
{
	if (try_with_components(evaluation, elements)) {
		return true;
	}
	if (is_at(elements, 2, "services") || elements->count < 3 || elements->count > 6) {
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

static bool try_hadoop_components(struct evaluation *evaluation, const char *service)
{
	char components[MAX_PATH_BYTES];
	char *const *children;
	size_t count;
	bool found = false;
	enum names_trait trait = evaluation->only ? NAMES_IS_COMPONENT_BEHIND : NAMES_IS_COMPONENT;
	if (path_join(components, sizeof(components), service, "components", NULL) ||
		!get_children(evaluation, components, &children, &count)) {
		return false;
	}
	for (size_t i = 0; i < count; i++) {
		const void *record = get_member(evaluation, children[i]);
		if (record && is(evaluation, record, trait)) {
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
		const void *record;
		if (path_join(service, sizeof(service), classes[i], elements->at[1], NULL) ||
			!get_node(evaluation, service, &record)) {
			continue;
		}
		if (elements->count == 2) {
			collect(evaluation, service, record);
			found = true;
		} else {
			found = try_hadoop_components(evaluation, service) || found;
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

static void visit_container(void *context, const char *path, const void *record)
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
	const struct names_source *source = evaluation->source;
	uint64_t key;
	/* The index has the records of the agent's own registry. */
	if (!source->each_known || *evaluation->name->base || elements->count != 1 ||
		!names_container_key(&key, elements->at[0])) {
		return false;
	}
	struct container_search search = { evaluation, elements->at[0], false };
	if (source->each_known(source->context, key, visit_container, &search) ==
		NAMES_NODE_PENDING) {
		evaluation->pending = true;
	}
	return search.found;
}

/* ---- evaluation ---- */

/* ---- the search ---- */

/* Labels from the first one on, as a path's elements. */
static struct elements as_elements(const struct names_labels *labels, size_t first)
{
	struct elements elements = { .count = 0 };
	for (size_t i = labels->count; i-- > first;) {
		elements.at[elements.count++] = labels->labels[i];
	}
	return elements;
}

static bool find(struct evaluation *evaluation, size_t first)
{
	struct elements elements = as_elements(&evaluation->name->labels, first);
	if (elements.count > 0 && strcmp(elements.at[0], "users") == 0) {
		return try_below_users(evaluation, &elements);
	}
	if (try_with_components(evaluation, &elements)) {
		return true;
	}
	struct elements below_users = insert(&elements, 0, "users");
	return try_below_users(evaluation, &below_users) || try_hadoop(evaluation, &elements) ||
		try_container(evaluation, &elements);
}

/* A label that is an address's may also be a path's own. */
struct names_found names_find(const struct names_name *name, const struct names_source *source,
	names_visit *visit, void *context)
{
	struct evaluation evaluation = {
		.source = source, .name = name, .collect = visit, .context = context
	};
	struct names_found result = { .found = find(&evaluation, name->first) };
	if (!result.found && name->has_address) {
		evaluation.only = true;
		result.found = find(&evaluation, name->first + 1) && evaluation.collected > 0;
		result.by_address = result.found;
	}
	result.pending = evaluation.pending;
	result.unknown = evaluation.incomplete || (!result.found && evaluation.undecided);
	result.found = result.found && (name->attribute_labels == 0 || evaluation.collected > 0);
	return result;
}

/* ---- names ---- */

/* Takes NAME.net off the end of what is behind the first labels. */
static void take_registry(struct names_name *name)
{
	struct names_labels *labels = &name->labels;
	size_t count = labels->count;
	const char *registry = count >= name->first + 2 ? labels->labels[count - 2] : NULL;
	if (registry && strcmp(labels->labels[count - 1], "net") == 0 &&
		path_element_valid(registry, strlen(registry))) {
		strcpy(stpcpy(name->base, "/net/"), registry);
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

/* Labels point into their text: a copy's into its own. */
static void copy_labels(struct names_labels *to, const struct names_labels *from)
{
	memcpy(to->text, from->text, sizeof(to->text));
	to->count = from->count;
	for (size_t i = 0; i < from->count; i++) {
		to->labels[i] = to->text + (from->labels[i] - from->text);
	}
}

void names_read(struct names_name *ret_name, const struct names_labels *labels, const char *root)
{
	struct names_name *name = ret_name;
	*name = (struct names_name){ .service = NULL };
	copy_labels(&name->labels, labels);
	name->service_labels = read_service(&name->labels, &name->service);
	name->attribute_labels = read_attributes(&name->labels, name->service_labels);
	name->first = name->service_labels + name->attribute_labels;
	name->has_address = name->first < labels->count &&
		names_read_address_label(&name->address, name->labels.labels[name->first]);
	if (*root) {
		text_printf(name->base, sizeof(name->base), "%s", root);
	} else {
		take_registry(name);
	}
}

bool names_can_be(const struct names_name *name)
{
	const struct names_labels *labels = &name->labels;
	bool can = name->first < labels->count;
	for (size_t i = name->first; i < labels->count && can; i++) {
		can = path_element_valid(labels->labels[i], strlen(labels->labels[i]));
	}
	return can;
}

bool names_below(struct names_name *ret_name, const struct names_name *name, const char *root)
{
	*ret_name = *name;
	copy_labels(&ret_name->labels, &name->labels);
	ret_name->service = name->service ? ret_name->labels.labels[0] + 1 : NULL;
	text_printf(ret_name->base, sizeof(ret_name->base), "%s%s", root, name->base);
	return strlen(root) + strlen(name->base) < sizeof(ret_name->base);
}

/* ---- records ---- */

static bool attribute_is(const struct record *record, const char *attribute, const char *label)
{
	const char *text = json_string_value(record_attribute(record, attribute));
	return text && record_text_is_label(text, label);
}

static bool has_attributes(const struct names_name *name, const struct record *record)
{
	const char *const *labels = name->labels.labels + name->service_labels;
	bool has = true;
	for (size_t i = 0; i < name->attribute_labels && has; i += 3) {
		has = select_has_labels(record, labels[i + 1], labels[i]);
	}
	return has;
}

/*
 * The addresses that a record's name has are the literal ones of its endpoints, which may lie on
 * other hosts than the writer of the record; where there are none, yarn:ip.
 */
static bool has_address(const struct record *record, const struct names_address *address)
{
	struct names_address own;
	bool any = false;
	for (size_t i = 0; i < record_endpoint_count(record); i++) {
		struct record_endpoint endpoint = record_endpoint(record, i);
		size_t index;
		json_t *item;
		json_array_foreach (endpoint.addresses, index, item) {
			struct record_target target;
			if (!record_target_read(&target, endpoint.address_type, item) ||
				!names_read_address(&own, target.host)) {
				continue;
			}
			any = true;
			if (names_address_equal(&own, address)) {
				return true;
			}
		}
	}
	const char *ip = json_string_value(record_attribute(record, "yarn:ip"));
	return !any && ip && names_read_address(&own, ip) && names_address_equal(&own, address);
}

bool names_record_is(
	const struct names_name *name, const struct record *record, enum names_trait trait)
{
	size_t at = name->first + (trait == NAMES_IS_COMPONENT_BEHIND);
	const char *label = at < name->labels.count ? name->labels.labels[at] : "";
	switch (trait) {
	case NAMES_HAS_ATTRIBUTES:
		return has_attributes(name, record);
	case NAMES_HAS_ADDRESS:
		return name->has_address && has_address(record, &name->address);
	case NAMES_IS_COMPONENT:
	case NAMES_IS_COMPONENT_BEHIND:
		return attribute_is(record, "description", label) ||
			attribute_is(record, "yarn:component", label);
	case NAMES_TRAITS:
		break;
	}
	return false;
}
