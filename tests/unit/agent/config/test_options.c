/*
 * The tables of options: the bounds of values, and the options that a reload cannot change. A
 * configuration that loads today loads tomorrow.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "agent/config/options.h"
#include "lib/base/array.h"

#define HOURS(count) (INT64_C(3600000) * (count))
#define MEGABYTES(count) (INT64_C(1048576) * (count))

TestSuite(config_options);

static const struct {
	enum config_section_kind section;
	const char *key;
	int64_t min, max;
} bounds[] = {
	{ CONFIG_AGENT, "socket", 0, 107 },
	{ CONFIG_AGENT, "failover_hold", 0, HOURS(24) },
	{ CONFIG_AGENT, "drain_delay", 0, HOURS(24) },
	{ CONFIG_AGENT, "stop_timeout", 0, HOURS(24) },
	{ CONFIG_AGENT, "restart_limit", 0, 1000000 },
	{ CONFIG_AGENT, "hook_timeout", 1, HOURS(24) },
	{ CONFIG_AGENT, "max_parallel_checks", 1, 1024 },
	{ CONFIG_AGENT, "max_watchers", 1, 1000000 },
	{ CONFIG_AGENT, "heartbeat_interval", 10, HOURS(1) },
	{ CONFIG_REGISTRY, "session_timeout", 100, HOURS(1) },
	{ CONFIG_REGISTRY, "update_interval", 0, HOURS(1) },
	{ CONFIG_FURTHER, "session_timeout", 100, HOURS(1) },
	{ CONFIG_COMPONENT, "id", 0, 1024 },
	{ CONFIG_COMPONENT, "description", 0, 1024 },
	{ CONFIG_COMPONENT, "damping_half_life", 10, HOURS(168) },
	{ CONFIG_COMPONENT, "slow_start", 0, HOURS(24) },
	{ CONFIG_ENDPOINT, "api", 0, 512 },
	{ CONFIG_ENDPOINT, "protocol", 0, 64 },
	{ CONFIG_ENDPOINT, "address_type", 0, 64 },
	{ CONFIG_ENDPOINT, "linger", 0, HOURS(1) },
	{ CONFIG_CHECK, "warning_status", 1, 599 },
	{ CONFIG_CHECK, "service", 0, 1024 },
	{ CONFIG_CHECK, "body", 0, 8192 },
	{ CONFIG_CHECK, "expect_status", 100, 599 },
	{ CONFIG_CHECK, "interval", 10, HOURS(168) },
	{ CONFIG_CHECK, "timeout", 1, HOURS(24) },
	{ CONFIG_CHECK, "rise", 1, 1000 },
	{ CONFIG_CHECK, "fall", 1, 1000 },
	{ CONFIG_CHECK, "window", 1, HOURS(168) },
	{ CONFIG_CHECK, "start_grace", 0, HOURS(24) },
	{ CONFIG_CHECK, "fast_interval", 10, HOURS(168) },
	{ CONFIG_CHECK, "down_interval", 10, HOURS(168) },
	{ CONFIG_CHECK, "warn_time", 1, HOURS(24) },
	{ CONFIG_DIALECT, "domain", 0, 253 },
	{ CONFIG_DIALECT, "host_name", 0, 63 },
	{ CONFIG_DIALECT, "host_type", 0, 63 },
	{ CONFIG_DIALECT, "service", 0, 255 },
	{ CONFIG_DIALECT, "protocol", 0, 15 },
	{ CONFIG_DIALECT, "instance_id", 0, 255 },
	{ CONFIG_CACHE, "max_size", 1024, MEGABYTES(65536) },
	{ CONFIG_CACHE, "confirm", 1, HOURS(24) },
	{ CONFIG_CACHE, "max_stale", 1, HOURS(8760) },
	{ CONFIG_CACHE, "resync", 10, HOURS(168) },
	{ CONFIG_DNS, "domain", 0, 200 },
	{ CONFIG_DNS, "ttl", 0, HOURS(24) },
	{ CONFIG_DNS, "stale_ttl", 1000, 30000 },
	{ CONFIG_XDS, "failover_hold", 0, HOURS(24) },
	{ CONFIG_XDS, "min_instances", 0, 1000000 },
	{ CONFIG_OUTPUT, "failover_hold", 0, HOURS(24) },
	{ CONFIG_OUTPUT, "api", 0, 512 },
	{ CONFIG_OUTPUT, "protocol", 0, 64 },
	{ CONFIG_OUTPUT, "socket", 0, 107 },
	{ CONFIG_OUTPUT, "mode", 1, 0 },
	{ CONFIG_OUTPUT, "quiet", 1, HOURS(1) },
	{ CONFIG_OUTPUT, "max_wait", 1, HOURS(1) },
	{ CONFIG_OUTPUT, "min_instances", 1, 100000 },
	{ CONFIG_OUTPUT, "timeout", 1, HOURS(1) },
	{ CONFIG_BRIDGE, "linger", 0, 60000 },
	{ CONFIG_BRIDGE, "stall_limit", 1000, HOURS(1) },
	{ CONFIG_RUNTIME, "socket", 0, 107 },
	{ CONFIG_CONTAINER, "max_records", 0, 4096 },
	{ CONFIG_CONTAINER, "max_bytes", 0, MEGABYTES(64) },
	{ CONFIG_CONTAINER, "rate", 1, 10000 },
};

Test(config_options, each_value_has_its_bounds)
{
	size_t count = 0;
	for (int i = 0; i < CONFIG_SECTION_COUNT; i++) {
		const struct config_option *option = config_sections[i].options;
		for (; option->key; option++) {
			count += option->min || option->max;
		}
	}
	cr_expect_eq(count, ARRAY_LEN(bounds), "%zu", count);
	for (size_t i = 0; i < ARRAY_LEN(bounds); i++) {
		const struct config_option *option = config_option_find(
			&config_sections[bounds[i].section], bounds[i].key);
		cr_assert_not_null(option, "%s", bounds[i].key);
		cr_expect_eq(option->min, bounds[i].min, "%s", bounds[i].key);
		cr_expect_eq(option->max, bounds[i].max, "%s", bounds[i].key);
	}
}

static bool is_fixed(const struct config_option *option)
{
	return option->fixed;
}

static bool masks_secrets(const struct config_option *option)
{
	return option->masks_secrets;
}

static void expect_keys(const char *const expected[CONFIG_SECTION_COUNT],
	bool (*is_one)(const struct config_option *option))
{
	for (int i = 0; i < CONFIG_SECTION_COUNT; i++) {
		char keys[400] = "";
		const struct config_option *option = config_sections[i].options;
		for (; option->key; option++) {
			if (is_one(option)) {
				strcat(strcat(keys, *keys ? " " : ""), option->key);
			}
		}
		cr_expect_str_eq(keys, expected[i] ? expected[i] : "", "[%s]: %s",
			config_sections[i].kind, keys);
	}
}

Test(config_options, a_reload_cannot_change_some_options)
{
	static const char *const keys[CONFIG_SECTION_COUNT] = {
		[CONFIG_AGENT] = "socket socket_mode socket_group user group state_dir listen "
				 "zone failover failover_hold max_watchers",
		[CONFIG_LISTEN] = "address",
		[CONFIG_REGISTRY] = "url session_timeout auth auth_file tls_ca tls_cert tls_key "
				    "tls_passphrase_file secure system_accounts write_accessors "
				    "realm",
		[CONFIG_DNS] = "listen domain",
		[CONFIG_XDS] = "listen serve prefer failover failover_hold min_instances",
		[CONFIG_BRIDGE] = "containers",
		[CONFIG_RUNTIME] = "socket labels",
	};
	expect_keys(keys, is_fixed);
}

Test(config_options, secrets_are_masked_in_families)
{
	static const char *const keys[CONFIG_SECTION_COUNT] = {
		[CONFIG_COMPONENT] = "attribute",
		[CONFIG_CHECK] = "limit env header expect_header",
		[CONFIG_DIALECT] = "metadata labels",
		[CONFIG_CONTAINER] = "attribute label",
		[CONFIG_OUTPUT] = "attribute",
	};
	expect_keys(keys, masks_secrets);
}

/* ---- what a key or a section means by its name ---- */

Test(config_options, a_section_is_found_by_its_kind_and_whether_it_has_a_name)
{
	static const struct {
		const char *kind;
		const char *name;
		int section; /* -1: none */
	} cases[] = { { "registry", "", CONFIG_REGISTRY }, { "registry", "east", CONFIG_FURTHER },
		{ "agent", "", CONFIG_AGENT }, { "agent", "x", CONFIG_AGENT },
		{ "component", "", CONFIG_COMPONENT }, { "component", "x", CONFIG_COMPONENT },
		{ "container", "", CONFIG_CONTAINER }, { "check", "", CONFIG_CHECK },
		{ "checks", "", -1 }, { "", "", -1 }, { "Agent", "", -1 } };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct config_section_type *type = config_section_type_find(
			cases[i].kind, cases[i].name);
		cr_expect_eq(type ? (int)(type - config_sections) : -1, cases[i].section, "%s %s",
			cases[i].kind, cases[i].name);
	}
}

Test(config_options, a_key_has_a_number_or_a_name_behind_it_where_the_table_says)
{
	static const struct {
		const char *key;
		int number; /* -1: it is not an address */
	} cases[] = { { "address", 0 }, { "address.0", 0 }, { "address.2", 2 },
		{ "address.10", 10 }, { "address.9999", 9999 }, { "address.10000", -1 },
		{ "address.", -1 }, { "address.00", -1 }, { "address.01", -1 }, { "address.x", -1 },
		{ "address.2x", -1 }, { "address.-1", -1 }, { "address2", -1 }, { "addres", -1 },
		{ "address_type", -1 }, { "", -1 } };
	const struct config_section_type *endpoint = &config_sections[CONFIG_ENDPOINT];
	const struct config_option *address = config_option_find(endpoint, "address");
	cr_assert_not_null(address);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct config_option *found = config_option_find(endpoint, cases[i].key);
		cr_expect_eq(config_option_number(address, cases[i].key), cases[i].number, "%s",
			cases[i].key);
		cr_expect_eq(found == address, cases[i].number >= 0, "%s", cases[i].key);
	}
	const struct config_section_type *check = &config_sections[CONFIG_CHECK];
	cr_expect_str_eq(config_option_find(check, "env.A")->key, "env");
	cr_expect_null(config_option_find(check, "env"));
	cr_expect_null(config_option_find(check, "envA"));
	cr_expect_null(config_option_find(check, "interval.1"));
	cr_expect_null(config_option_find(check, "intervals"));
}

Test(config_options, the_nearest_section_is_the_first_that_is_written_most_alike)
{
	for (int i = 0; i < CONFIG_SECTION_COUNT; i++) {
		char kind[32];
		snprintf(kind, sizeof(kind), "%sx", config_sections[i].kind);
		cr_expect_str_eq(config_section_type_nearest(kind), config_sections[i].kind);
	}
	cr_expect_str_eq(config_section_type_nearest("xns"), "dns", "[xds] is as near");
}

Test(config_options, the_nearest_key_is_the_first_that_is_written_most_alike)
{
	static const struct {
		enum config_section_kind section;
		const char *key;
		const char *nearest;
	} cases[] = { { CONFIG_AGENT, "soket", "socket" }, { CONFIG_AGENT, "zoer", "user" },
		{ CONFIG_CHECK, "en.no_privileges", "env.NAME" },
		{ CONFIG_COMPONENT, "atribute.damping_suppress", "attribute.NAME" },
		{ CONFIG_ENDPOINT, "adress.protocol", "address" },
		{ CONFIG_CHECK, "interval.1", "interval" } };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char nearest[64];
		config_option_nearest(
			&config_sections[cases[i].section], cases[i].key, nearest, sizeof(nearest));
		cr_expect_str_eq(nearest, cases[i].nearest, "%s", cases[i].key);
	}
}
