/*
 * Splits a command into words as a POSIX shell would, without running one.
 *
 *   'a b'     every character means itself, up to the next '
 *   "a b"     likewise, but a backslash before ", \, $, ` or a line break quotes that character
 *   \c        outside of quotes: c, whatever it is; a backslash at the end of a line joins lines
 *   blanks    space, tab and line break separate words outside of quotes
 *   ${…} $$   are expanded (expand.h) everywhere, within quotes too: the value becomes part of its
 *             word with all its blanks and quotes, so that no value makes two words of one
 *
 * Quoted and plain parts that touch are one word; '' and "" are empty words. Everything else that
 * has a meaning for a shell is a plain character here: | & ; < > ( ) ` * ? [ ] # ~ = { } !. A pipe,
 * a redirection or a list of commands needs a shell.
 */
#ifndef AGENT_CONFIG_SHELLWORDS_H
#define AGENT_CONFIG_SHELLWORDS_H

#include <stddef.h>

#include "lib/base/err.h"

/*
 * The words of `line` as a NULL-terminated array, at least one: shellwords_free(). BERTH_FAILED
 * when there is none, a quote is not closed, a backslash has nothing to quote (the message names
 * the column, counted in characters from 1) or a ${…} has no value.
 */
int shellwords_split(char ***ret_words, const char *line, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(3);

/* The inverse: a malloc'ed line that shellwords_split() splits into the same words. */
char *shellwords_join(char *const *words);

/*
 * The first part of `line` that has a meaning for a shell but is a plain part of a word here: an
 * operator, a command substitution, a ~. NULL when there is none, or a quote is not closed; ret_len
 * is its length.
 */
const char *shellwords_find_syntax(const char *line, size_t *ret_len);

/* Frees each word and the array. Accepts NULL. */
void shellwords_free(char **words);

#endif
