// SPDX-License-Identifier: Apache-2.0
/* The fate of a packet: the rows of spec/switch.md that a switch has, and one more for what is not a packet at all. They number
 * the cells of the counter `verdicts`. */
#ifndef WIRESUM_VERDICTS_P4
#define WIRESUM_VERDICTS_P4

const bit<8> VERDICT_PASSED = 0;
const bit<8> VERDICT_FIRST = 1;
const bit<8> VERDICT_ADDED = 2;
const bit<8> VERDICT_COMPLETED = 3;
const bit<8> VERDICT_FORWARDED = 4;
const bit<8> VERDICT_DUPLICATE = 5;
const bit<8> VERDICT_REFORWARDED = 6;
const bit<8> VERDICT_ANSWERED = 7;
const bit<8> VERDICT_COLLISION = 8;
const bit<8> VERDICT_EVICTED = 9;
const bit<8> VERDICT_RELEASED = 10;
const bit<8> VERDICT_BYPASSED = 11;
const bit<8> VERDICT_OVERLAP = 12;
const bit<8> VERDICT_STALE = 13;
const bit<8> VERDICT_REFUSED = 14;
const bit<8> VERDICT_FREED = 15;
const bit<8> VERDICT_STORED = 16;
/* Ill-formed, in one of the ways of spec/wire.md: dropped. */
const bit<8> VERDICT_MALFORMED = 17;
#define VERDICTS 18

#endif
