/* LINK: lib/registry/zookeeper/worker/explain.o */
/* Lines as the client library writes them: Debian's 3.8.0, and 3.9.5 built with TLS. */
#include <criterion/criterion.h>

#include "lib/base/array.h"
#include "lib/registry/zookeeper/worker/explain.h"

#define HEAD "2026-11-23 19:06:16,545:20365(0x7f):ZOO_ERROR@"
#define SOCKET HEAD "handle_socket_error_msg@2043: Socket 127.0.0.1:2281 zk retcode="
#define HANDSHAKE SOCKET "-120, errno=11(Resource temporarily unavailable): error in ssl connect"

static char words[256];

static enum zk_log_kind explain(const char *line, const char *tls_reason)
{
	words[0] = '\0';
	return zk_worker_explain(line, tls_reason, words, sizeof(words));
}

Test(explain, a_line_without_its_head_is_for_a_person)
{
	cr_expect_eq(explain(HEAD "f@12: hello: world", ""), ZK_LOG_LIBRARY);
	cr_expect_str_eq(words, "hello: world");
	cr_expect_eq(explain("a library's own", ""), ZK_LOG_LIBRARY);
	cr_expect_str_eq(words, "a library's own");
	cr_expect_eq(explain("half@a head", ""), ZK_LOG_LIBRARY);
	cr_expect_str_eq(words, "half@a head");
}

Test(explain, a_failed_connection_has_its_server_and_its_reason)
{
	cr_expect_eq(explain(SOCKET "-4, errno=111(Connection refused): server refused to accept "
				    "the client",
			     ""),
		ZK_LOG_LIBRARY);
	cr_expect_str_eq(
		words, "127.0.0.1:2281: server refused to accept the client: Connection refused");
	cr_expect_eq(explain(SOCKET "-4, errno=112(Host is down): failed while receiving a server "
				    "response",
			     ""),
		ZK_LOG_CLOSED);
	cr_expect_str_eq(words, "127.0.0.1:2281: failed while receiving a server response");
}

Test(explain, a_connection_that_was_closed_has_no_other_reason)
{
	cr_expect_eq(explain(SOCKET "-4, errno=0(Success): connection closed", ""), ZK_LOG_CLOSED);
	cr_expect_str_eq(words, "127.0.0.1:2281: connection closed");
	cr_expect_eq(explain(SOCKET "-4, errno=1(Not permitted): refused", ""), ZK_LOG_LIBRARY);
	cr_expect_str_eq(words, "127.0.0.1:2281: refused: Not permitted");
}

Test(explain, a_line_about_a_socket_in_another_form_stays_as_it_is)
{
	static const char *const lines[] = { "Socket 127.0.0.1:2281 is strange",
		"Socket 127.0.0.1:2281 zk retcode=-4, errno=111",
		"Socket 127.0.0.1:2281 zk retcode=-4, errno=111(Connection refused)" };
	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		cr_expect_eq(explain(lines[i], ""), ZK_LOG_LIBRARY, "%zu", i);
		cr_expect_str_eq(words, lines[i]);
	}
}

Test(explain, a_failed_handshake_names_what_to_do)
{
	cr_expect_eq(explain(HANDSHAKE, "certificate verify failed"), ZK_LOG_LIBRARY);
	cr_expect_str_eq(words,
		"127.0.0.1:2281: none of the authorities in tls_ca has signed its certificate "
		"(certificate verify failed)");
	explain(HANDSHAKE, "sslv3 alert certificate unknown");
	cr_expect_str_eq(words,
		"127.0.0.1:2281: it refuses tls_cert, or the lack of one (sslv3 alert certificate "
		"unknown)");
	explain(HANDSHAKE, "unexpected eof while reading");
	cr_expect_str_eq(words,
		"127.0.0.1:2281: it does not speak TLS there: the URL needs its secureClientPort "
		"(unexpected eof while reading)");
	explain(HANDSHAKE, "");
	cr_expect_str_eq(words,
		"127.0.0.1:2281: it does not speak TLS there: the URL needs its secureClientPort");
}

Test(explain, a_file_that_cannot_be_used_is_named_with_its_option)
{
	explain(HEAD "init_ssl_for_socket@2768: Failed to load CA file /tls/ca.pem",
		"No such file or directory");
	cr_expect_str_eq(words, "tls_ca /tls/ca.pem cannot be used: No such file or directory");
	explain(HEAD "init_ssl_for_socket@2775: Failed to load client certificate chain from /c",
		"");
	cr_expect_str_eq(words, "tls_cert /c cannot be used");
	explain(HEAD "init_ssl_for_socket@2783: Failed to load client private key from /k",
		"bad decrypt");
	cr_expect_str_eq(words,
		"tls_key /k cannot be used: bad decrypt: tls_passphrase_file holds another "
		"passphrase");
	explain(HEAD "init_ssl_for_socket@2790: SSL_CTX_check_private_key failed", "");
	cr_expect_str_eq(words, "tls_key is not the key of tls_cert");
}

Test(explain, lines_that_hide_the_reason_are_dropped)
{
	cr_expect_eq(explain(HEAD "f@1: Exceeded deadline by 11ms", ""), 0);
	cr_expect_eq(explain(HEAD "f@1: Delaying connection after exhaustively trying", ""), 0);
	cr_expect_str_eq(words, "");
}
