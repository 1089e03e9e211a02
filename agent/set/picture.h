/*
 * A set as the formats of lib/render take it: its records, decoded for as long as they are needed.
 */
#ifndef AGENT_SET_PICTURE_H
#define AGENT_SET_PICTURE_H

#include "agent/set/set.h"
#include "lib/render/render.h"

struct set_picture {
	struct render_picture picture;
	struct render_member *members; /* own their records; the paths are the set's */
};

/*
 * `from` is borrowed, and so is the set. Members have tiers where the set has a zone that is near.
 */
void set_picture_read(struct set_picture *ret_picture, const struct set *set, const char *from);
void set_picture_finish(struct set_picture *picture);

#endif
