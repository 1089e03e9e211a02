/*
 * Registry paths: "/" or "/element/element…". Odd ones are rejected, never normalised.
 *
 * Every element matches [a-z0-9]([a-z0-9-]*[a-z0-9])? and has at most 63 bytes (RFC 1123), so that
 * the whole tree could be served by DNS.
 */
#ifndef LIB_BASE_PATH_H
#define LIB_BASE_PATH_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/err.h"

/* True for one valid path element of `len` bytes. */
bool path_element_valid(const char *element, size_t len);

/*
 * Checks a whole path of `len` bytes (which may hold NUL bytes: they are invalid). 0 or
 * BERTH_INVALID_PATHNAME, the message quoting the path (escaped, cut to a readable length) and
 * naming the offending element and rule.
 */
int path_check(const char *path, size_t len, struct err *err) __attribute__((warn_unused_result));

/*
 * Foreign paths: those of other programs' nodes, absolute in the tree of the registry's server.
 * Among registry paths such a path carries one more slash in front, "//services/My App", so that no
 * registry path is ever taken for one.
 */
static inline bool path_is_foreign(const char *path)
{
	return path[0] == '/' && path[1] == '/';
}

/*
 * True for an element of a foreign path: 1 to 1000 bytes of UTF-8 without control characters, a
 * slash and the characters that ZooKeeper refuses (private and special ones, those beyond U+FFFF);
 * neither "." nor "..".
 */
bool path_foreign_element_valid(const char *element, size_t len);

/*
 * Checks a foreign path as it is written in a configuration, with one slash in front: at least one
 * element, each valid, no slash at the end, and not ZooKeeper's own /zookeeper. 0 or
 * BERTH_INVALID_PATHNAME.
 */
int path_foreign_check(const char *path, size_t len, struct err *err)
	__attribute__((warn_unused_result));

/*
 * Checks the path of a registry's root in the tree of its server: "/", or what path_foreign_check()
 * takes. The rules for elements of registry paths begin below it. 0 or BERTH_INVALID_PATHNAME.
 */
int path_root_check(const char *path, size_t len, struct err *err)
	__attribute__((warn_unused_result));

/*
 * Writes parent + "/" + element into out (size bytes) and returns 0, or LIMIT_EXCEEDED /
 * INVALID_PATHNAME.
 */
int path_join(char *out, size_t size, const char *parent, const char *element, struct err *err)
	__attribute__((warn_unused_result));

/*
 * The length of the parent's path: 1 ("/") for "/a", 2 for "/a/b" … ; 0 for "/" itself and for a
 * foreign path of one element, which have none.
 */
size_t path_parent_len(const char *path);

/* The last element: a pointer into `path`; "" for "/". */
const char *path_name(const char *path);

/* True when `parent` is the path without its last element. */
bool path_is_child(const char *path, const char *parent);

/* True when `path` is `ancestor` or lies below it; "" is the root, too. */
bool path_is_under(const char *path, const char *ancestor);

#define PATH_DNS_NAME_BYTES 256 /* 253 bytes, a trailing dot and a NUL */

/*
 * The DNS name of a path: its elements reversed, then the domain. c1.prod.berth for /prod/c1. False
 * when it has more than 253 bytes and so is not a DNS name.
 */
bool path_dns_name(char out[PATH_DNS_NAME_BYTES], const char *path, const char *domain);

/* Number of elements; 0 for "/". */
size_t path_depth(const char *path);

#endif
