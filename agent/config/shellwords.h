/*
 * Splits a command into words as a POSIX shell would, but runs and expands nothing.
 *
 *   'a b'     every character stands for itself, up to the next '
 *   "a b"     likewise, but a backslash before ", \, $, ` or a line break quotes that character
 *   \c        outside of quotes: c, whatever it is; a backslash at the end of a line joins lines
 *   blanks    space, tab and line break separate words outside of quotes
 *
 * Quoted and plain parts that touch are one word; '' and "" are empty words. Everything else that a
 * shell gives a meaning is a plain character here: | & ; < > ( ) $ ` * ? [ ] # ~ = { } !. Whoever
 * wants a pipe, a redirection or a variable needs a shell.
 */
#ifndef AGENT_CONFIG_SHELLWORDS_H
#define AGENT_CONFIG_SHELLWORDS_H

#include "lib/base/err.h"

/*
 * The words of `line` as a NULL-terminated array, at least one: shellwords_free(). BERTH_FAILED
 * when there is none, a quote is not closed or a backslash has nothing to quote; the message names
 * the column, counted in characters from 1.
 */
int shellwords_split(char ***ret_words, const char *line, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(3);

/* Frees each word and the array. Accepts NULL. */
void shellwords_free(char **words);

#endif
