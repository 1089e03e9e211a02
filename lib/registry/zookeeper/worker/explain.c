#include "lib/registry/zookeeper/worker/explain.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/text.h"

static bool begins_with(const char *text, const char *beginning)
{
	return strncmp(text, beginning, strlen(beginning)) == 0;
}

static bool holds(const char *text, const char *part)
{
	return strstr(text, part) != NULL;
}

static const char *words_of(const char *line)
{
	const char *words = strchr(line, '@');
	words = words ? strchr(words + 1, '@') : NULL;
	words = words ? strstr(words, ": ") : NULL;
	return words ? words + 2 : line;
}

/* Says how to mend a handshake that failed for this reason. */
static const char *tls_remedy(const char *reason)
{
	if (holds(reason, "verify failed")) {
		return "none of the authorities in tls_ca has signed its certificate";
	}
	if (holds(reason, "alert")) {
		return "it refuses tls_cert, or the lack of one";
	}
	/* A server without TLS takes our greeting for a request, and closes the connection. */
	return "it does not speak TLS there: the URL needs its secureClientPort";
}

/* "Failed to load … FILE", and which of our options names the file. */
static bool explain_file(const char *words, const char *reason, char *out, size_t size)
{
	static const struct {
		const char *beginning;
		const char *option;
	} files[] = {
		{ "Failed to load CA file ", "tls_ca" },
		{ "Failed to load client certificate chain from ", "tls_cert" },
		{ "Failed to load client private key from ", "tls_key" },
	};
	if (begins_with(words, "SSL_CTX_check_private_key")) {
		text_printf(out, size, "tls_key is not the key of tls_cert");
		return true;
	}
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		if (begins_with(words, files[i].beginning)) {
			bool locked = holds(reason, "decrypt");
			text_printf(out, size, "%s %s cannot be used%s%s%s", files[i].option,
				words + strlen(files[i].beginning), *reason ? ": " : "", reason,
				locked ? ": tls_passphrase_file holds another passphrase" : "");
			return true;
		}
	}
	return false;
}

/*
 * "Socket HOST:PORT zk retcode=-4, errno=111(Connection refused): words" without its numbers. The
 * library sets EHOSTDOWN when the server has closed the connection, which the words say better.
 */
static enum zk_log_kind explain_socket(
	const char *words, const char *tls_reason, char *out, size_t size)
{
	char server[256];
	char reason[128];
	int number;
	int rest = 0;
	if (sscanf(words, "Socket %255s zk retcode=%*d, errno=%d(%127[^)]): %n", server, &number,
		    reason, &rest) != 3 ||
		rest == 0) {
		text_printf(out, size, "%s", words);
		return ZK_LOG_LIBRARY;
	}
	words += rest;
	if (begins_with(words, "error in ssl connect")) {
		text_printf(out, size, "%s: %s%s%s%s", server, tls_remedy(tls_reason),
			*tls_reason ? " (" : "", tls_reason, *tls_reason ? ")" : "");
		return ZK_LOG_LIBRARY;
	}
	bool closed = number == EHOSTDOWN || number == 0;
	text_printf(
		out, size, "%s: %s%s%s", server, words, closed ? "" : ": ", closed ? "" : reason);
	return closed ? ZK_LOG_CLOSED : ZK_LOG_LIBRARY;
}

enum zk_log_kind zk_worker_explain(const char *line, const char *tls_reason, char *out, size_t size)
{
	const char *words = words_of(line);
	/* The lines before them say why; these would hide them. */
	if (begins_with(words, "Delaying connection") || begins_with(words, "Exceeded deadline")) {
		return 0;
	}
	if (explain_file(words, tls_reason, out, size)) {
		return ZK_LOG_LIBRARY;
	}
	return explain_socket(words, tls_reason, out, size);
}
