// SPDX-License-Identifier: Apache-2.0
/* Repetition by the preprocessor, as P4 has no loops: the lanes of a packet, and the workers of a job. */
#ifndef WIRESUM_REPETITION_P4
#define WIRESUM_REPETITION_P4

/* Values of a packet that is summed. Packets with another number of them pass. */
#ifndef LANES
#define LANES 32
#endif

#define LANES_0_TO_7(DO) \
    DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)
#define LANES_8_TO_31(DO) \
    DO(8) DO(9) DO(10) DO(11) DO(12) DO(13) DO(14) DO(15) \
    DO(16) DO(17) DO(18) DO(19) DO(20) DO(21) DO(22) DO(23) \
    DO(24) DO(25) DO(26) DO(27) DO(28) DO(29) DO(30) DO(31)

#if LANES == 8
#define FOR_EACH_LANE(DO) LANES_0_TO_7(DO)
#elif LANES == 32
#define FOR_EACH_LANE(DO) LANES_0_TO_7(DO) LANES_8_TO_31(DO)
#else
#error "LANES is 8 or 32: add a list of lanes for another number"
#endif

#define FOR_EACH_WORKER(DO) \
    DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) \
    DO(8) DO(9) DO(10) DO(11) DO(12) DO(13) DO(14) DO(15) \
    DO(16) DO(17) DO(18) DO(19) DO(20) DO(21) DO(22) DO(23) \
    DO(24) DO(25) DO(26) DO(27) DO(28) DO(29) DO(30) DO(31) \
    DO(32) DO(33) DO(34) DO(35) DO(36) DO(37) DO(38) DO(39) \
    DO(40) DO(41) DO(42) DO(43) DO(44) DO(45) DO(46) DO(47) \
    DO(48) DO(49) DO(50) DO(51) DO(52) DO(53) DO(54) DO(55) \
    DO(56) DO(57) DO(58) DO(59) DO(60) DO(61) DO(62) DO(63)

#endif
