#include "agent/component/damping.h"

#include <math.h>

static const double PENALTY_MAX_OF_SUPPRESS = 4;

void damping_init(
	struct check_damping *damping, double suppress, double reuse, int64_t half_life_ms)
{
	*damping = (struct check_damping){
		.suppress = suppress,
		.reuse = reuse,
		.half_life_ms = half_life_ms,
	};
}

void damping_clear(struct check_damping *damping)
{
	damping->penalty = 0;
	damping->suppressed = false;
}

double damping_penalty(const struct check_damping *damping, int64_t now_ms)
{
	double age_ms = (double)(now_ms - damping->updated_ms);
	return damping->penalty * exp2(-age_ms / (double)damping->half_life_ms);
}

void damping_down(struct check_damping *damping, int64_t now_ms)
{
	bool held = damping_held(damping, now_ms);
	double most = damping->suppress * PENALTY_MAX_OF_SUPPRESS;
	damping->penalty = fmin(damping_penalty(damping, now_ms) + 1, most);
	damping->updated_ms = now_ms;
	damping->suppressed = held || damping->penalty > damping->suppress;
}

bool damping_held(const struct check_damping *damping, int64_t now_ms)
{
	return damping->suppressed && damping_penalty(damping, now_ms) >= damping->reuse;
}

int64_t damping_release_ms(const struct check_damping *damping, int64_t now_ms)
{
	if (!damping_held(damping, now_ms)) {
		return now_ms;
	}
	double half_lives = log2(damping->penalty / damping->reuse);
	int64_t release_ms = damping->updated_ms +
		(int64_t)(half_lives * (double)damping->half_life_ms);
	/* Rounding may leave it a moment early. */
	while (damping_held(damping, release_ms)) {
		release_ms++;
	}
	return release_ms;
}

json_t *damping_save(const struct check_damping *damping, int64_t now_ms)
{
	return json_pack("{s:f, s:b}", "penalty", damping_penalty(damping, now_ms), "suppressed",
		damping_held(damping, now_ms));
}

bool damping_load(struct check_damping *damping, const json_t *saved, int64_t saved_ms)
{
	double penalty;
	int suppressed;
	if (json_unpack((json_t *)saved, "{s:F, s:b}", "penalty", &penalty, "suppressed",
		    &suppressed) ||
		!(penalty >= 0 && isfinite(penalty))) {
		return false;
	}
	damping->penalty = fmin(penalty, damping->suppress * PENALTY_MAX_OF_SUPPRESS);
	damping->updated_ms = saved_ms;
	damping->suppressed = suppressed != 0;
	return true;
}
