#include "agent/registration/holder.h"

#include <jansson.h>

#include "agent/core/event.h"
#include "agent/core/state.h"
#include "agent/base/log.h"

static const char DOCUMENT[] = "holder";

enum { SAVE_PATIENCE_MS = 2000 };

static void on_patience_over(void *context)
{
	agent_wake(context);
}

static void on_saved(void *context, const struct err *err)
{
	struct agent *agent = context;
	if (err->code) {
		log_warn("agent",
			"a successor will not know our records by anything but the session: %s",
			err->msg);
	}
	timer_stop(&agent->holder_save_timer);
	agent_wake(agent);
}

static bool load(struct agent *agent)
{
	struct err err = ERR_INIT;
	json_t *document = state_dir_load(&agent->state, DOCUMENT, &err);
	const char *secret = json_string_value(json_object_get(document, "secret"));
	bool good = secret && holder_take(&agent->holder, secret);
	if (err.code || (document && !good)) {
		log_warn("agent", "the secret that marks our records cannot be read: %s",
			err.code ? err.msg : "it has an unknown shape");
	}
	json_decref(document);
	return good;
}

static void save(struct agent *agent)
{
	if (!state_dir_usable(&agent->state)) {
		return; /* which the log says already */
	}
	json_t *document = json_pack("{s:s}", "secret", agent->holder.secret);
	timer_start(&agent->holder_save_timer, SAVE_PATIENCE_MS);
	state_dir_save_passing(&agent->state, DOCUMENT, document, on_saved, agent);
	json_decref(document);
}

void agent_holder_open(struct agent *agent, const char *passed)
{
	timer_init(&agent->holder_save_timer, agent->loop, "saving of the secret", on_patience_over,
		agent);
	if (load(agent)) {
		return;
	}
	if (!passed || !holder_take(&agent->holder, passed)) {
		holder_init(&agent->holder);
	}
	save(agent);
}

bool agent_holder_is_saved(const struct agent *agent)
{
	return !timer_runs(&agent->holder_save_timer);
}
