/*
 * DNS labels, the elements of registry paths, from the names of users and containers.
 */
#ifndef AGENT_CONFIG_LABEL_H
#define AGENT_CONFIG_LABEL_H

#include "lib/base/err.h"
#include "lib/base/limits.h"

/* Room for every label and its NUL. */
#define LABEL_SIZE (LIMIT_PATH_ELEMENT_BYTES + 1)

/*
 * A user's label: @realm and /host are cut off a Kerberos principal, then lower case, IDNA (as
 * Hadoop does it: € gives xn--lzg, ß gives ss), and - for _. A name that still is not a label gets
 * a hyphen for every odd character and a mark made of the whole name, so that no two such users
 * have one label: "joe.smith" gives "joe-smith-" and eight hexadecimal digits. `user` is UTF-8. 0,
 * or BERTH_INVALID_PATHNAME for no name or bad UTF-8, `label` then untouched.
 */
int label_from_user(char label[LABEL_SIZE], const char *user, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(3);

/* A container's label: lower case, and - for _. Errors as above. */
int label_from_container_id(char label[LABEL_SIZE], const char *id, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(3);

#endif
