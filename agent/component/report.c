/* Transitions of the component, handed on to the agent. */
#include "agent/component/internal.h"

#include "lib/base/text.h"

void component_report(struct component *component, const char *kind, const char *name,
	struct transition *transition)
{
	char subject[256];
	text_printf(subject, sizeof(subject), "%s %s", kind, name);
	transition->subject = subject;
	transition->component = config_component_label(component->config);
	component->environment.on_transition(component->environment.context, transition);
}

void component_transition(struct component *component, const char *kind, const char *name,
	const char *from, const char *to, const char *why)
{
	component_report(
		component, kind, name, &(struct transition){ .from = from, .to = to, .why = why });
}
