#include "agent/config/hint.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "lib/base/array.h"

enum { KEY_BYTES = 128, SECTIONS_SHOWN = 3 };

/* The words of other tools for what a section has under another name. */
struct other_word {
	enum config_section_kind kind;
	const char *words; /* each with a blank before and behind it */
	const char *hint;
};

static const struct other_word other_words[] = {
	{ CONFIG_AGENT, " http bind bind_addr client_addr http_port ",
		"write `listen`, host:port" },
	{ CONFIG_AGENT, " data_dir statedir ", "write `state_dir`" },
	{ CONFIG_AGENT, " log log_file logfile ",
		"the agent writes its log to its standard error" },
	{ CONFIG_REGISTRY,
		" servers hosts host zk zk_hosts zookeeper connect connection connect_string port ",
		"write `url`, as zookeeper://host:port,host:port/root" },
	{ CONFIG_REGISTRY, " chroot root path zk_path ", "the root is the path of `url`" },
	{ CONFIG_REGISTRY, " timeout ttl ", "write `session_timeout`" },
	{ CONFIG_COMPONENT, " tags labels meta metadata weight version zone ",
		"write `attribute.NAME`" },
	{ CONFIG_COMPONENT, " service service_name type ", "write `service_class`" },
	{ CONFIG_COMPONENT, " port host ip url uri ", "write `address` of an [endpoint NAME]" },
	{ CONFIG_ENDPOINT, " port host ip ", "write the port in `address`, as host:port" },
	{ CONFIG_ENDPOINT, " url uri path ", "write `address`" },
	{ CONFIG_ENDPOINT, " type ", "write `address_type`" },
	{ CONFIG_ENDPOINT, " tags labels meta metadata weight ",
		"write `attribute.NAME` of the [component]" },
	{ CONFIG_ENDPOINT, " name ", "the name is that of the section: [endpoint NAME]" },
	{ CONFIG_CHECK, " name ", "the name is that of the section: [check NAME]" },
	{ CONFIG_CHECK,
		" retries failures failures_before_critical unhealthy_threshold "
		"failure_threshold threshold ",
		"write `fall`" },
	{ CONFIG_CHECK, " success_before_passing successes healthy_threshold success_threshold ",
		"write `rise`" },
	{ CONFIG_CHECK, " period ", "write `interval`; Registrar's period is `window`" },
	{ CONFIG_CHECK, " url uri http tcp port path address ",
		"write `target`: host:port, or a URL" },
	{ CONFIG_CHECK, " script exec cmd args ", "write `command`" },
	{ CONFIG_CHECK, " start_period initial_delay grace grace_period ", "write `start_grace`" },
	{ CONFIG_CHECK, " ttl ", "write `type = ttl`, and the time as `interval`" },
	{ CONFIG_CHECK, " expect_body regex ", "write `match`" },
	{ CONFIG_CACHE, " size ", "write `max_size`" },
	{ CONFIG_OUTPUT, " source src ", "write `from`" },
	{ CONFIG_OUTPUT, " dest destination target file ", "write `path`" },
	{ CONFIG_OUTPUT, " template ", "write `render`, a command" },
	{ CONFIG_OUTPUT, " command reload restart reload_command ", "write `on_change`" },
	{ CONFIG_OUTPUT, " perms ", "write `mode`" },
	{ CONFIG_OUTPUT, " wait splay ", "write `quiet` and `max_wait`" },
};

/* The word of a section, or of any: CONFIG_SECTION_COUNT. NULL: it is not among them. */
static const struct other_word *find_other_word(enum config_section_kind kind, const char *key)
{
	char word[KEY_BYTES];
	snprintf(word, sizeof(word), " %.*s ", (int)strcspn(key, "."), key);
	for (size_t i = 0; i < ARRAY_LEN(other_words); i++) {
		const struct other_word *known = &other_words[i];
		if ((kind == CONFIG_SECTION_COUNT || known->kind == kind) &&
			strcasestr(known->words, word)) {
			return known;
		}
	}
	return NULL;
}

static const char *name_of(const struct config_section_type *section)
{
	return section->naming == CONFIG_NAMED   ? " NAME"
		: section->naming == CONFIG_GLOB ? " GLOB"
						 : "";
}

/* False when no section has the key. */
static bool name_sections(const char *key, char *out, size_t size)
{
	size_t found = 0;
	size_t len = 0;
	for (size_t i = 0; i < CONFIG_SECTION_COUNT && found < SECTIONS_SHOWN; i++) {
		const struct config_section_type *section = &config_sections[i];
		/* A further registry has the keys of the first. */
		if (i == CONFIG_FURTHER || !config_option_find(section, key)) {
			continue;
		}
		int written = snprintf(out + len, size - len, "%s[%s%s]",
			found++ ? " or " : "it belongs to ", section->kind, name_of(section));
		len += written > 0 && (size_t)written < size - len ? (size_t)written : 0;
	}
	return found > 0;
}

void config_hint_key(
	const struct config_section_type *section, const char *key, char *out, size_t size)
{
	const struct other_word *here = find_other_word(
		(enum config_section_kind)(section - config_sections), key);
	const struct other_word *elsewhere = find_other_word(CONFIG_SECTION_COUNT, key);
	if (here) {
		snprintf(out, size, "%s", here->hint);
	} else if (name_sections(key, out, size)) {
		return;
	} else if (elsewhere && !strchr(key, '.')) {
		section = &config_sections[elsewhere->kind];
		snprintf(out, size, "for [%s%s] %s", section->kind, name_of(section),
			elsewhere->hint);
	} else {
		char nearest[KEY_BYTES];
		config_option_nearest(section, key, nearest, sizeof(nearest));
		snprintf(out, size, "the nearest is `%s`", nearest);
	}
}
