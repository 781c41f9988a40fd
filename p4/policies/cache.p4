// SPDX-License-Identifier: Apache-2.0
/* `cache` (XAgg §IV): the rows of `pool`, with a slot for each fragment of the gradient. */
#include "versions.p4"
