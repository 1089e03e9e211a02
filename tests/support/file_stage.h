/* The work of children on the agent's files (agent/base/file_work.h), done at once. */
#ifndef TESTS_SUPPORT_FILE_STAGE_H
#define TESTS_SUPPORT_FILE_STAGE_H

#include "agent/base/allocate.h"
#include "agent/base/file_work.h"
#include "agent/base/state_file.h"
#include "agent/cache/cache.h"

/* The work is finished. */
static inline int do_work(struct file_work *work, struct err *err)
{
	int code = file_work_do(work, err);
	file_work_finish(work);
	return code;
}

static inline int state_file_write(const char *directory, const char *name, const char *kind,
	const void *data, size_t len, struct err *err)
{
	struct file_work work;
	state_file_replace(&work, directory, name, kind, allocate_bytes(data, len), len);
	return do_work(&work, err);
}

static inline int state_file_erase(const char *directory, const char *name, struct err *err)
{
	struct file_work work;
	state_file_remove(&work, directory, name);
	return do_work(&work, err);
}

static inline int save_cache(struct cache *cache, const char *directory, struct err *err)
{
	struct file_work work;
	cache_save(cache, directory, &work);
	return do_work(&work, err);
}

#endif
