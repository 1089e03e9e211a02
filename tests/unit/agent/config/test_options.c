/*
 * The tables of options: the bounds of values, and the options that a reload cannot change. A
 * configuration that loads today loads tomorrow.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "agent/config/options.h"

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
	{ CONFIG_ENDPOINT, "api", 0, 512 },
	{ CONFIG_ENDPOINT, "protocol", 0, 64 },
	{ CONFIG_ENDPOINT, "address_type", 0, 64 },
	{ CONFIG_ENDPOINT, "linger", 0, HOURS(1) },
	{ CONFIG_CHECK, "warning_status", 1, 255 },
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
	cr_expect_eq(count, sizeof(bounds) / sizeof(bounds[0]), "%zu", count);
	for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
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

static bool may_be_empty(const struct config_option *option)
{
	return option->may_be_empty;
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
	};
	expect_keys(keys, is_fixed);
}

Test(config_options, an_empty_value_may_be_meant)
{
	static const char *const keys[CONFIG_SECTION_COUNT] = {
		[CONFIG_REGISTRY] = "system_accounts",
	};
	expect_keys(keys, may_be_empty);
}

Test(config_options, secrets_are_masked_in_families)
{
	static const char *const keys[CONFIG_SECTION_COUNT] = {
		[CONFIG_COMPONENT] = "attribute",
		[CONFIG_CHECK] = "limit env header",
		[CONFIG_DIALECT] = "metadata labels",
		[CONFIG_CONTAINER] = "attribute",
	};
	expect_keys(keys, masks_secrets);
}
