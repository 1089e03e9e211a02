/*
 * The digest by which ZooKeeper's access control lists name a user without telling the password:
 * base64(SHA-1("user:password")). The protocol fixes the hash; it protects nothing else here.
 */
#ifndef LIB_REGISTRY_DIGEST_H
#define LIB_REGISTRY_DIGEST_H

#define REGISTRY_DIGEST_SIZE 29 /* 28 characters and a NUL */

/* 0, or -1 without memory. */
int registry_digest(char out[REGISTRY_DIGEST_SIZE], const char *user, const char *password)
	__attribute__((warn_unused_result));

#endif
