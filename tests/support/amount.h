/*
 * How much a test does: how many rounds, how many nodes.
 *
 * A build with sanitizers takes several times as long for a round and looks for other mistakes than
 * those that need the whole number, so it does a fifth. Python's tests have the same in berth.py.
 */
#ifndef TESTS_SUPPORT_AMOUNT_H
#define TESTS_SUPPORT_AMOUNT_H

#ifdef __SANITIZE_ADDRESS__
#define AMOUNT(all) ((all) / 5)
#else
#define AMOUNT(all) (all)
#endif

#endif
