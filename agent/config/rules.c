/* Rules for [registry] and [component] as a whole, and their defaults that depend on others. */
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/base/holder.h"
#include "agent/config/build.h"
#include "agent/config/builtin.h"
#include "agent/config/doubt.h"
#include "agent/config/doubt_address.h"
#include "agent/config/record.h"
#include "agent/config/verify.h"
#include "agent/config/label.h"
#include "lib/base/array.h"
#include "lib/base/limits.h"
#include "lib/base/path.h"
#include "lib/record/record.h"
#include "lib/registry/registry.h"
#include "lib/registry/url.h"
#include "agent/config/shellwords.h"

static void set(char **text, const char *value)
{
	char *copy = allocate_text(value);
	free(*text);
	*text = copy;
}

/*
 * A bare name is that of a credential which systemd hands over; otherwise the file's name is
 * absolute.
 */
static void resolve_auth_file(struct config_builder *builder, struct config_registry *registry)
{
	if (!*registry->auth_file || *registry->auth_file == '/') {
		return;
	}
	const char *directory = getenv("CREDENTIALS_DIRECTORY");
	if (strchr(registry->auth_file, '/')) {
		config_fault(builder, "auth_file",
			"`auth_file`: write an absolute file name, or the name of a file in "
			"$CREDENTIALS_DIRECTORY");
	} else if (!directory || *directory != '/') {
		config_fault(builder, "auth_file",
			"`auth_file`: %s is not an absolute file name, and "
			"$CREDENTIALS_DIRECTORY is not set",
			registry->auth_file);
	} else {
		char *path = allocate_format("%s/%s", directory, registry->auth_file);
		set(&registry->auth_file, path);
		free(path);
	}
}

static void check_auth_file(struct config_builder *builder, struct config_registry *registry)
{
	if (strcmp(registry->auth, "digest") == 0 && config_lacks(builder, "auth_file")) {
		config_fault(builder, "auth",
			"`auth = digest` needs `auth_file`, a file that holds user:password");
	}
	if (strcmp(registry->auth, "none") == 0 && !config_lacks(builder, "auth_file")) {
		config_doubt(builder, "auth_file",
			"has no effect without `auth`: write `auth = digest` for a file that holds "
			"user:password");
	}
	resolve_auth_file(builder, registry);
	struct err err = ERR_INIT;
	if (*registry->auth_file == '/' && registry_auth_file_check(registry->auth_file, &err)) {
		config_fault(builder, "auth_file", "%s", err.msg);
	}
}

static bool has_bad_entry(const struct config_section *section)
{
	for (size_t i = 0; i < section->entry_count; i++) {
		if (section->entries[i].bad) {
			return true;
		}
	}
	return false;
}

/*
 * Finds mistakes that the registry would otherwise find only when it opens, such as options that
 * this build does not support.
 */
static void check_options(struct config_builder *builder, const struct config_registry *registry)
{
	const struct registry_options options = {
		.url = registry->url,
		.auth = registry->auth,
		.auth_file = registry->auth_file,
		.tls_ca = registry->tls_ca,
		.tls_cert = registry->tls_cert,
		.tls_key = registry->tls_key,
		.tls_passphrase_file = registry->tls_passphrase_file,
		.secure = registry->secure,
		.system_accounts = registry->system_accounts,
		.write_accessors = registry->write_accessors,
		.realm = registry->realm,
	};
	const char *option;
	struct err err = ERR_INIT;
	if (registry_options_check(&options, &option, &err)) {
		config_fault(builder, option, "`%s`: %s", option, err.msg);
	}
}

void config_rule_registry(struct config_builder *builder, struct config_registry *registry)
{
	size_t before = builder->source->problems->error_count;
	check_auth_file(builder, registry);
	if (builder->source->problems->error_count == before && !has_bad_entry(builder->section)) {
		check_options(builder, registry);
	}
}

/* Hadoop's code shortens the word in its paths. */
static void set_name_from_id(struct config_component *component, const char *label)
{
	static const char container[] = "container-";
	size_t len = strlen(container);
	bool shortened = component->hadoop_layout && strncmp(label, container, len) == 0;
	char *name = allocate_format(
		"%s%s", shortened ? "ctr-" : "", label + (shortened ? len : 0));
	set(&component->component_name, name);
	free(name);
}

/* False when the host name makes no name, which is reported. */
static bool set_name_from_host(struct config_builder *builder, struct config_component *component)
{
	free(component->component_name);
	component->component_name = config_short_host_name();
	struct err err = ERR_INIT;
	if (config_verify_label(component->component_name, &err)) {
		config_fault(builder, NULL,
			"[component] needs `name` or `id`: the host name \"%s\" is not a DNS label",
			component->component_name);
		return false;
	}
	return true;
}

/*
 * The last element of the path: `name`, else from id, else the host name. An id that Berth found
 * out by itself may not be a label: Docker's has 64 digits, one more than a label. False when a
 * mistake has been reported.
 */
static bool resolve_name(struct config_builder *builder, struct config_component *component)
{
	if (!config_lacks(builder, "name")) {
		return *component->component_name != '\0';
	}
	bool given = !config_lacks(builder, "id");
	char label[LABEL_SIZE];
	struct err err = ERR_INIT;
	if (given && !*component->id) {
		return false;
	}
	if (*component->id && label_from_container_id(label, component->id, &err) == 0) {
		set_name_from_id(component, label);
		return true;
	}
	if (given) {
		config_fault(builder, "id",
			"no name for the component can be made from its id (%s); set `name`",
			err.msg);
		return false;
	}
	return set_name_from_host(builder, component);
}

static void join_path(struct config_component *component, const char *user_label)
{
	/* Four labels and the fixed words: a valid path, always less than LIMIT_PATH_BYTES. */
	free(component->path);
	component->path = allocate_format("/users/%s%s/%s/%s/components/%s", user_label,
		component->hadoop_layout ? "/services" : "", component->service_class,
		component->instance, component->component_name);
}

static bool is_same_user(const char *user, const char *other)
{
	size_t len = strcspn(user, "/@");
	return len == strcspn(other, "/@") && strncmp(user, other, len) == 0;
}

/* Two users whose names give one label. */
static void refuse_shared_home(
	struct config_builder *builder, const struct config_component *component, const char *label)
{
	for (size_t i = 0; i + 1 < builder->config->component_count; i++) {
		const char *user = builder->config->components[i].user;
		char other[LABEL_SIZE] = "";
		struct err ignored = ERR_INIT;
		if (*user && !is_same_user(component->user, user) &&
			label_from_user(other, user, &ignored) == 0 && strcmp(other, label) == 0) {
			config_fault(builder, "user",
				"`user`: %s and %s, of [component %s], would "
				"share the home /users/%s",
				component->user, user, builder->config->components[i].name, label);
		}
	}
}

static void resolve_path(struct config_builder *builder, struct config_component *component)
{
	if (!config_lacks(builder, "path")) {
		set(&component->component_name, path_name(component->path));
		return;
	}
	config_require(builder, "user");
	config_require(builder, "service_class");
	config_require(builder, "instance");
	bool named = resolve_name(builder, component);
	if (!*component->user) {
		return;
	}
	char label[LABEL_SIZE];
	struct err err = ERR_INIT;
	if (label_from_user(label, component->user, &err)) {
		config_fault(builder, "user", "`user`: %s", err.msg);
		return;
	}
	if (config_doubt_user(component->user, label, &err)) {
		config_doubt(builder, "user", "%s", err.msg);
	}
	refuse_shared_home(builder, component, label);
	if (named && *component->service_class && *component->instance) {
		join_path(component, label);
	}
}

/* The container's own id, where one is known. */
static void default_id(struct config_builder *builder, struct config_component *component)
{
	const struct config_entry *entry = config_section_find(builder->section, "id");
	if (!config_lacks(builder, "id")) {
		return;
	}
	if (entry) {
		config_doubt(builder, "id", "is empty, so it is the container's, if that is known");
	}
	char *id = NULL;
	struct err unknown = ERR_INIT;
	if (config_builtin("berth.container_id", &id, &unknown) == 0) {
		set(&component->id, id);
	}
	free(id);
}

static const struct config_name_value *find_attribute(
	const struct config_component *component, const char *name)
{
	for (size_t i = 0; i < component->attribute_count; i++) {
		if (strcmp(component->attributes[i].name, name) == 0) {
			return &component->attributes[i];
		}
	}
	return NULL;
}

static void default_attribute(
	struct config_component *component, const char *name, const char *value)
{
	if (find_attribute(component, name)) {
		return;
	}
	component->attributes = allocate_grow(
		component->attributes, component->attribute_count, sizeof(*component->attributes));
	component->attributes[component->attribute_count++] = (struct config_name_value){
		.name = allocate_text(name),
		.value = allocate_text(value),
	};
}

/*
 * Hadoop's DNS server ignores a record of a container without them. A record at a path of its own
 * may speak of another host.
 */
static void default_attributes(struct config_component *component)
{
	static const struct {
		const char *attribute;
		const char *builtin;
	} known[] = { { "yarn:ip", "berth.ip" }, { "yarn:hostname", "berth.hostname" } };
	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		struct err unknown = ERR_INIT;
		char *value = NULL;
		if (config_builtin(known[i].builtin, &value, &unknown) == 0) {
			default_attribute(component, known[i].attribute, value);
		}
		free(value);
	}
	default_attribute(component, "yarn:component", component->component_name);
}

/* Load balancers read it: see render_weight_read(). */
static void doubt_weight(struct config_builder *builder)
{
	const char *weight = config_given(builder, "attribute.weight");
	size_t digits = strspn(weight, "0123456789");
	if (*weight && (weight[digits] || digits > 5 || atol(weight) > UINT16_MAX)) {
		config_doubt(builder, "attribute.weight",
			"is no number from 0 to 65535, and so counts as 1 where load is balanced");
	}
}

void config_rule_component(struct config_builder *builder, struct config_component *component)
{
	default_id(builder, component);
	doubt_weight(builder);
	resolve_path(builder, component);
	if (config_lacks(builder, "path")) {
		default_attributes(component);
	}
	if (*builder->config->agent.zone) {
		default_attribute(component, "berth:zone", builder->config->agent.zone);
	}
	bool of_container = component->persistence == PERSISTENCE_CONTAINER;
	if (config_lacks(builder, "znode")) {
		component->ephemeral = of_container;
	}
	if (config_lacks(builder, "on_stop")) {
		component->keep_on_stop = !of_container && !component->ephemeral;
	} else if (component->keep_on_stop && component->ephemeral) {
		config_fault(builder, "on_stop",
			"`on_stop = keep` needs `znode = persistent`: an ephemeral record "
			"ends with the agent's session");
	}
	if (component->damping_reuse >= component->damping_suppress) {
		config_fault(builder, config_key_or(builder, "damping_reuse", "damping_suppress"),
			"damping_reuse (%g) must be less than damping_suppress (%g)",
			component->damping_reuse, component->damping_suppress);
	}
	if (component->slow_start_ms > 0 && config_component_weight(component) < 2) {
		config_fault(builder, "slow_start",
			"`slow_start` needs `attribute.weight`, of 2 at least, which it grows to");
	}
	config_doubt_command(builder, "on_change", component->on_change_argv);
}

static const struct config_option *address_option(void)
{
	return config_option_find(&config_sections[CONFIG_ENDPOINT], "address");
}

/* A directory is one machine's; without a valid URL nothing is known. */
static bool others_read(const struct config *config)
{
	enum registry_url_kind kind;
	return registry_url_rest(config->registry.url, &kind) && kind != REGISTRY_URL_DIR;
}

static json_t *parse_address(const char *address_type, const char *text, struct err *err)
{
	bool is_uri = strcmp(address_type, "uri") == 0;
	return is_uri && config_verify_uri(text, err)
		? NULL
		: record_address_parse(address_type, text, err);
}

/* True when the address type takes all of them, one by one. */
static bool check_addresses(
	struct config_builder *builder, const struct config_endpoint *endpoint, json_t *addresses)
{
	bool good = true;
	int above = -1;
	struct config_entry *entry;
	while ((entry = config_next_numbered(builder, address_option(), &above))) {
		struct err err = ERR_INIT;
		if (!entry->expanded || !*entry->expanded) {
			continue;
		}
		json_t *address = parse_address(endpoint->address_type, entry->expanded, &err);
		if (!address) {
			config_fault(builder, entry->key, "`%s`: %s", entry->key, err.msg);
			good = false;
			continue;
		}
		json_array_append_new(addresses, address);
		/* One doubt about an address is enough. */
		bool doubted = config_doubt_value(address_option(), entry->expanded, &err) != 0;
		if (!doubted &&
			(config_doubt_address_text(entry->value, &err) ||
				config_doubt_address(
					address, others_read(builder->config), &err))) {
			config_doubt(builder, entry->key, "%s", err.msg);
		}
	}
	return good;
}

/*
 * The addresses must make an endpoint that may be written: reports now what the registry would
 * refuse later.
 */
static void check_endpoint_record(
	struct config_builder *builder, const struct config_endpoint *endpoint)
{
	json_t *addresses = json_array();
	if (!check_addresses(builder, endpoint, addresses)) {
		json_decref(addresses);
		return;
	}
	struct err err = ERR_INIT;
	struct record *record = allocated(record_create());
	const char *scope = endpoint->external ? "external" : "internal";
	if (record_add_endpoint_take(record, scope, endpoint->api, endpoint->protocol,
		    endpoint->address_type, addresses)) {
		err_set(&err, BERTH_FAILED, "cannot be written as JSON");
	} else if (record_check(record, &err)) {
		/* err says why */
	}
	if (err.code) {
		config_fault(builder, NULL, "[endpoint %s]: %s", builder->section->name, err.msg);
	}
	record_free(record);
}

static bool has_bad_address(const struct config_section *section)
{
	bool bad = false;
	for (size_t i = 0; i < section->entry_count; i++) {
		const struct config_entry *entry = &section->entries[i];
		bad |= entry->bad && config_option_number(address_option(), entry->key) >= 0;
	}
	return bad;
}

void config_rule_endpoint(struct config_builder *builder, const struct config_endpoint *endpoint)
{
	config_require(builder, "api");
	config_require(builder, "protocol");
	config_require(builder, "address_type");
	struct err doubt = ERR_INIT;
	if (!builder->former &&
		config_doubt_writer(&endpoint->writer, &builder->config->agent, &doubt)) {
		config_doubt(builder, "writer", "%s", doubt.msg);
	}
	if (endpoint->linger_ms > 0 && !endpoint->hold_connection) {
		config_fault(builder, "linger",
			"`linger` means something only with `hold = connection`");
	}
	if (endpoint->dynamic) {
		int above = -1;
		const struct config_entry *entry = config_next_numbered(
			builder, address_option(), &above);
		if (endpoint->address_count > 0) {
			config_fault(builder, entry->key,
				"`%s`: a local process supplies the "
				"addresses of a dynamic endpoint",
				entry->key);
		}
		return;
	}
	if (endpoint->hold_connection || endpoint->writer.kind != CONFIG_WRITER_NONE) {
		const char *key = endpoint->hold_connection ? "hold" : "writer";
		config_fault(builder, key, "`%s` means something only with `dynamic = yes`", key);
	}
	if (endpoint->address_count == 0 && !has_bad_address(builder->section)) {
		config_fault(builder, NULL, "[endpoint %s] needs `address`, or `dynamic = yes`",
			builder->section->name);
	}
	if (*endpoint->api && *endpoint->protocol && *endpoint->address_type) {
		check_endpoint_record(builder, endpoint);
	}
}

/*
 * Parts that are legal alone can be too large together: makes the record as if all checks were up.
 */
void config_rule_record(struct config_builder *builder, const struct config_component *component)
{
	struct config_record_endpoint *all_in = allocate_zeroed(
		component->endpoint_count, sizeof(*all_in));
	const char *health = component->publish_health || component->keep_last ? "failing" : NULL;
	struct record *record = NULL;
	struct err err = ERR_INIT;
	struct holder_attribute mark = { .name = HOLDER_KEY }; /* the longest one */
	memset(mark.value, 'f', sizeof(mark.value) - 1);
	if (config_record(&record, component, all_in, health, &mark, &err)) {
		config_fault(builder, NULL, "[component%s%s]: %s: %s",
			*builder->section->name ? " " : "", builder->section->name,
			berth_error_name(err.code), err.msg);
	}
	record_free(record);
	free(all_in);
}
