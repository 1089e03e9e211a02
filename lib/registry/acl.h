/*
 * The access control lists of the nodes that this registry creates (docs/SECURITY.md, A hostile
 * writer in the registry).
 *
 * With `secure`, the world may read a node, and each system account, the registry's own identity
 * and every added write accessor have all rights. /users/{user} also lets that user create, read
 * and delete, and with home_write do everything but administer. Without `secure`, every client may
 * do everything.
 */
#ifndef LIB_REGISTRY_ACL_H
#define LIB_REGISTRY_ACL_H

#include "lib/registry/backend.h"

#define REGISTRY_PERMISSION_READ 1U
#define REGISTRY_PERMISSION_WRITE 2U
#define REGISTRY_PERMISSION_CREATE 4U
#define REGISTRY_PERMISSION_DELETE 8U
#define REGISTRY_PERMISSION_ADMIN 16U
#define REGISTRY_PERMISSION_ALL 31U

struct registry_acl_policy {
	struct registry_acl
		fixed; /* world, system accounts, own identity; without entries: not secure */
	struct registry_acl accessors;
	char *realm;               /* "" when there is none */
	unsigned home_permissions; /* the rights of a user in the user's own home */
};

/*
 * Fills a zeroed policy. FAILED for a malformed account. Accounts in @ that no realm completes are
 * left out and named in ret_warning (malloc'ed, or NULL).
 */
int registry_acl_policy_init(struct registry_acl_policy *policy,
	const struct registry_options *options, char **ret_warning, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(4);
void registry_acl_policy_finish(struct registry_acl_policy *policy);

/*
 * The list for a new node at `path` (malloc'ed; registry_acl_free()); NULL without memory. No
 * entries: everybody, everything. `owner`, or NULL: the account that gets a user's rights in a
 * home, in a form that registry_acl_check_owner() allows.
 */
struct registry_acl *registry_acl_for(
	const struct registry_acl_policy *policy, const char *path, const char *owner);
/*
 * 0, or FAILED: the policy is not secure, or `owner` is neither scheme:id nor a user name that a
 * realm completes.
 */
int registry_acl_check_owner(const struct registry_acl_policy *policy, const char *owner,
	struct err *err) __attribute__((warn_unused_result)) ERR_REQUIRED(3);
/* Accepts NULL. */
void registry_acl_free(struct registry_acl *acl);

int registry_acl_add_accessor(struct registry_acl_policy *policy, const char *user,
	const char *password, struct err *err) __attribute__((warn_unused_result)) ERR_REQUIRED(4);
void registry_acl_clear_accessors(struct registry_acl_policy *policy);

/*
 * The one line `user:password` of a credentials file, malloc'ed and the caller's to wipe and free.
 * AUTHENTICATION_FAILED or FAILED when the file cannot be read, when others may write it, when
 * group or others may read it unless it is on a read-only mount (a secret of Docker, Kubernetes or
 * systemd), or when it holds anything else.
 */
int registry_auth_file_read(char **ret_credentials, const char *file, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(3);

/* The passphrase of a private key, from a file of its own: one line without a comma. By malloc. */
int registry_passphrase_read(char **ret_passphrase, const char *path, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(3);

#endif
