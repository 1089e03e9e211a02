/*
 * The errors of Berth: one set of names for C, HTTP and the command line.
 *
 * The names are those of the YARN service registry's exceptions. Functions return 0 or one of these
 * (all negative); berth_error_name() gives the spelling that HTTP problem titles and the CLI use.
 */
#ifndef BERTH_ERROR_H
#define BERTH_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

enum berth_error {
	BERTH_OK = 0,
	BERTH_PATH_NOT_FOUND = -1,
	BERTH_FILE_ALREADY_EXISTS = -2,
	BERTH_INVALID_PATHNAME = -3,
	BERTH_PATH_IS_NOT_EMPTY_DIRECTORY = -4,
	BERTH_NO_RECORD = -5, /* the node exists and holds no service record */
	BERTH_INVALID_RECORD =
		-6, /* the node claims to hold one, but it is malformed or of another type */
	BERTH_NO_PATH_PERMISSIONS = -7,
	BERTH_AUTHENTICATION_FAILED = -8,
	BERTH_NO_CHILDREN_FOR_EPHEMERALS = -9,
	BERTH_LIMIT_EXCEEDED = -10,
	BERTH_REGISTRY_UNAVAILABLE = -11, /* the registry cannot be reached */
	BERTH_TIMEOUT = -12,          /* no answer in time; a write may or may not have happened */
	BERTH_FAILED = -13,           /* anything else: bad arguments, system errors, no memory */
	BERTH_AGENT_UNAVAILABLE = -14 /* no agent answers on the socket, or it broke off */
};

/*
 * "PathNotFound" for BERTH_PATH_NOT_FOUND and so on; "Failed" for a number that is none of them.
 * Static.
 */
const char *berth_error_name(int code);

/* The code whose name is `name`, or BERTH_FAILED. */
int berth_error_from_name(const char *name);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
