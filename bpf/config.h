/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Constants that the loader sets; the verifier leaves out what they rule out. */
#ifndef WIRESUM_CONFIG_H
#define WIRESUM_CONFIG_H

#include "datagram.h"

struct config {
    __u32 max_payload; /* bytes that an entry has room for */
    __u32 lock_entries;
};

const volatile struct config config SEC(".rodata.config");

#endif
