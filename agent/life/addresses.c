#include "agent/life/addresses.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "agent/core/event.h"
#include "agent/core/state.h"
#include "agent/life/apply.h"
#include "agent/registration/components.h"
#include "agent/serving/api.h"
#include "agent/serving/names.h"
#include "agent/serving/xds.h"
#include "lib/base/clock.h"
#include "lib/base/text.h"

enum {
	LOST_AFTER_MS = 5000, /* DHCP takes an address away and gives it back */
	AGAIN_MS = 1000,      /* an address may be there before it can be listened at */
};

/* ---- other addresses ---- */

/* An address that is gone counts when no other one has come for a while. */
static bool is_lost(void *context, const char *name)
{
	(void)name;
	struct agent *agent = context;
	int64_t now_ms = clock_monotonic_ms();
	if (!agent->address_lost_ms) {
		agent->address_lost_ms = now_ms;
		timer_start(&agent->address_timer, LOST_AFTER_MS);
	}
	return now_ms - agent->address_lost_ms >= LOST_AFTER_MS;
}

static void on_other(void *context, const char *name, const char *from, const char *to)
{
	struct agent *agent = context;
	char *subject = allocate_format("address ${%s}", name);
	agent_event(agent,
		&(struct transition){ .subject = subject,
			.from = from ? from : "none",
			.to = to ? to : "none",
			.why = to ? "records, listeners and whatever else holds it follow"
				  : "records, listeners and whatever else holds it wait",
			.trouble = !to });
	free(subject);
}

/* The same is refused again each time the kernel has news. */
static void log_problems(struct agent *agent, const struct config_problems *problems)
{
	const char *first = "";
	for (size_t i = 0; i < problems->count && !*first; i++) {
		first = problems->items[i].warning ? "" : problems->items[i].message;
	}
	if (strcmp(first, agent->address_error) != 0) {
		log_error("config",
			"the machine's addresses have changed, and are not followed: %s", first);
		text_printf(agent->address_error, sizeof(agent->address_error), "%s", first);
	}
}

static void listen_again(struct agent *agent)
{
	struct err api = ERR_INIT;
	struct err names = ERR_INIT;
	struct err xds = ERR_INIT;
	(void)agent_api_listen(agent, &api);
	(void)agent_names_listen(agent, &names);
	(void)agent_xds_listen(agent, &xds);
	const char *why = api.code ? api.msg : names.code ? names.msg : xds.msg;
	if (*why) {
		if (strcmp(why, agent->address_error) != 0) {
			log_warn("agent", "%s; tried again each second", why);
		}
		timer_start(&agent->address_timer, AGAIN_MS);
	}
	text_printf(agent->address_error, sizeof(agent->address_error), "%s", why);
}

static bool look(struct agent *agent)
{
	struct config *before = agent->config;
	struct config *next = NULL;
	struct config_problems problems;
	if (agent->phase != AGENT_RUNNING) {
		return false;
	}
	if (!config_addresses_differ(before, is_lost, agent)) {
		return false;
	}
	if (config_follow(&next, before, is_lost, agent, &problems)) {
		log_problems(agent, &problems);
		config_problems_finish(&problems);
		return false;
	}
	config_problems_finish(&problems);
	agent->address_error[0] = '\0';
	config_each_other_address(before, next, on_other, agent);
	agent_components_follow(agent, next);
	agent_apply_rest(agent);
	listen_again(agent);
	return true;
}

/* ---- when to look ---- */

static bool on_news(void *context)
{
	struct agent *agent = context;
	bool matters = look(agent);
	if (!matters && agent->dns) {
		dns_look_for_ourselves(agent->dns);
	}
	return matters;
}

static void on_timer(void *context)
{
	struct agent *agent = context;
	if (!look(agent) && *agent->address_error && agent->phase == AGENT_RUNNING) {
		listen_again(agent);
	}
}

void agent_addresses_look(struct agent *agent)
{
	(void)look(agent);
}

void agent_addresses_init(struct agent *agent)
{
	agent->on_registry_server = agent_addresses_look;
	agent->address_news.on_change = on_news;
	agent->address_news.context = agent;
	timer_init(&agent->address_timer, agent->loop, "addresses", on_timer, agent);
}

void agent_addresses_watch(struct agent *agent)
{
	address_news_start(&agent->address_news, agent->loop);
	agent_addresses_look(agent);
}

void agent_addresses_finish(struct agent *agent)
{
	address_news_stop(&agent->address_news);
	timer_stop(&agent->address_timer);
}
