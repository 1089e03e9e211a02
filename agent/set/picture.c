#include "agent/set/picture.h"

#include <stdlib.h>

#include "agent/base/allocate.h"
#include "agent/set/question.h"

void set_picture_read(struct set_picture *ret_picture, const struct set *set, const char *from)
{
	struct render_member *members = allocate_zeroed(set->count, sizeof(*members));
	for (size_t i = 0; i < set->count; i++) {
		const struct set_member *member = &set->members[i];
		members[i] = (struct render_member){ .path = member->record->path,
			.record = set_record_decode(member->record),
			.rank = member->rank,
			.tier = set->question->key.near ? member->tier : 0 };
	}
	*ret_picture = (struct set_picture){ { from, members, set->count }, members };
}

void set_picture_finish(struct set_picture *picture)
{
	for (size_t i = 0; i < picture->picture.count; i++) {
		record_free((struct record *)(uintptr_t)picture->members[i].record);
	}
	free(picture->members);
}
