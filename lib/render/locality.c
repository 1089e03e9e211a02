#include "lib/render/locality.h"

#include <stdint.h>
#include <string.h>

static const char *attribute(const struct record *record, const char *name)
{
	const char *text = json_string_value(record_attribute(record, name));
	return text ? text : "";
}

enum render_health render_health(const struct record *record)
{
	const char *text = attribute(record, "berth:health");
	return strcmp(text, "draining") == 0   ? RENDER_HEALTH_DRAINING
		: strcmp(text, "warning") == 0 ? RENDER_HEALTH_DEGRADED
					       : RENDER_HEALTH_UNKNOWN;
}

const char *render_health_word(enum render_health health)
{
	return health == RENDER_HEALTH_DRAINING    ? "DRAINING"
		: health == RENDER_HEALTH_DEGRADED ? "DEGRADED"
						   : NULL;
}

bool render_weight_read(unsigned *ret_weight, const struct record *record)
{
	return record_small_number(ret_weight, record, "weight");
}

unsigned render_weight(const struct record *record)
{
	unsigned weight = 1;
	(void)render_weight_read(&weight, record);
	return weight;
}

unsigned render_weight_share(unsigned weight, unsigned heaviest, unsigned most)
{
	return heaviest == 0 ? 0 : (unsigned)(((uint64_t)weight * most + heaviest - 1) / heaviest);
}

const char *render_zone(const struct record *record)
{
	return attribute(record, "berth:zone");
}

struct render_zone_parts render_zone_read(const char *zone)
{
	struct render_zone_parts parts = { .len = { 0 } };
	for (int i = 0; i < 3; i++) {
		parts.part[i] = zone;
		parts.len[i] = i < 2 ? strcspn(zone, "/") : strlen(zone);
		zone += parts.len[i] + (zone[parts.len[i]] == '/');
	}
	return parts;
}

unsigned render_tier(unsigned rank, const char *zone, const char *own)
{
	unsigned tier = rank;
	bool shared = true;
	while (*own) {
		size_t len = strcspn(own, "/");
		shared = shared && strcspn(zone, "/") == len && strncmp(zone, own, len) == 0;
		tier += rank + !shared;
		zone += shared ? len + (zone[len] == '/') : 0;
		own += len + (own[len] == '/');
	}
	return tier;
}
