/*
 * An error is a code and a message for a person.
 *
 * Every function that can fail for a reason worth a message takes a `struct err *` that the caller
 * owns (on the stack, zeroed with ERR_INIT). It returns 0 or one of the negative codes of `enum
 * berth_error`, the same that it left in err->code. Output parameters stay untouched on failure.
 * The first error wins: setting an err that already holds one changes nothing.
 *
 * The functions of this file, path.h and lib/record/record.h accept a NULL err from callers that
 * need no text, so their code never reads err->code: it passes on the returned code. Every other
 * function needs an err and says so with ERR_REQUIRED.
 */
#ifndef LIB_BASE_ERR_H
#define LIB_BASE_ERR_H

#include "lib/berth_error.h"

struct err {
	int code;      /* 0, or an enum berth_error */
	char msg[512]; /* no trailing newline or full stop; empty while code is 0 */
};

#define ERR_INIT                                                                                   \
	{                                                                                          \
		0, ""                                                                              \
	}

/* Behind a prototype: the parameter with this number, counted from 1, is an err and never NULL. */
#define ERR_REQUIRED(number) __attribute__((nonnull(number)))

/*
 * Sets the error (unless one is set already) and returns err->code. `err` may be NULL: then just
 * `code`.
 */
int err_set(struct err *err, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* As err_set() with ": " and strerror(errno_value) appended. */
int err_set_errno(struct err *err, int code, int errno_value, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* Puts "context: " before the message of an error that is set; returns err->code. */
int err_wrap(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Forgets the error, so that the struct can be used again. */
void err_clear(struct err *err);

/* The HTTP status that goes with a code (docs/PROTOCOL.md, Errors); 200 for 0. */
int err_http_status(int code);

/*
 * The CLI's exit status for a code: 0 done, 1 failed, 3 path or record absent, 4 unreachable, 5
 * denied.
 */
int err_exit_status(int code);

#endif
