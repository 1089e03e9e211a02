/*
 * The users that the agent trusts with its own files: root, its own user and the owner of "/", who
 * can change everything anyway. All other users are strangers. The agent does not read files that a
 * stranger could have written.
 */
#ifndef LIB_BASE_TRUST_H
#define LIB_BASE_TRUST_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "lib/base/err.h"

/*
 * 0 when no stranger can lead the path of a directory elsewhere: each directory on the way belongs
 * to a trusted user and only such users can write to it, or it is sticky, as /tmp is, and the next
 * element belongs to a trusted user. Symbolic links are followed by the same rule. Else
 * BERTH_NO_PATH_PERMISSIONS, or BERTH_FAILED when the path cannot be followed. Strangers may have
 * made files in a sticky directory: check these with trust_check_file().
 */
int trust_check_directory(const char *path, struct err *err) __attribute__((warn_unused_result))
ERR_REQUIRED(2);

/*
 * 0 when the open file with this status belongs to a trusted user and no other user can write to
 * it.
 */
int trust_check_file(const struct stat *status, struct err *err) __attribute__((warn_unused_result))
ERR_REQUIRED(2);

/* Whom a check trusts besides root and the owner of "/", where it is not the agent's own user. */
struct trust_rule {
	uid_t user;             /* 0: nobody; TRUST_OWN_USER: as the functions above */
	bool read_only_is_good; /* what lies on a read-only mount, whoever owns it */
};
#define TRUST_OWN_USER ((uid_t)-1)

/* As trust_check_directory(), by this rule. The path may lead to a file, whose mode is not looked
 * at: that is for trust_check_status() on the open file. */
int trust_check_way(const struct trust_rule *rule, const char *path, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(3);

/* As trust_check_file(), by this rule; the read-only mount is for the caller to look at. */
int trust_check_status(const struct trust_rule *rule, const struct stat *status, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(3);

/* Whether the open file lies on a mount that nobody can write. */
bool trust_is_read_only(int fd);

#endif
