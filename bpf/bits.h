/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Bitmaps of contributors. */
#ifndef WIRESUM_BITS_H
#define WIRESUM_BITS_H

#include "wiresum_wire.h"

static __always_inline __u32 lowest_bit(__u64 set) {
    __u32 index = 0;
#pragma unroll
    for (int half = 32; half > 0; half /= 2) {
        if (!(set & ((1ULL << half) - 1))) {
            set >>= half;
            index += half;
        }
    }
    return index & (WIRESUM_MAX_CONTRIBUTORS - 1);
}

#endif
