// SPDX-License-Identifier: Apache-2.0
/* `pool` (SwitchML, NSDI 2021): few slots in two versions; the result is the acknowledgement. */
#include "versions.p4"
