/* The part of OpenSSL's header that the ZooKeeper client's header uses. */
#ifndef TESTS_STUB_OSSL_TYP_H
#define TESTS_STUB_OSSL_TYP_H

typedef struct ssl_st SSL;
typedef struct ssl_ctx_st SSL_CTX;

#endif
