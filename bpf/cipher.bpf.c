// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// What the kernel's own cipher takes for a packet, beside the code that packets have: AES in ECB by
// `bpf_crypto_encrypt`, the one mode of a block cipher that kernels offer to programs without a further
// module. No code is made of it, so this is the least that one by AES would cost.
#include "datagram.h"

#define BLOCK_BYTES 16
#define KEY_BYTES 16u

struct bpf_crypto_params {
    char type[14];
    __u8 reserved[2];
    char algo[128];
    __u8 key[256];
    __u32 key_len;
    __u32 authsize;
};

/* Opaque; a pointer to it in a map is known by its name. */
struct bpf_crypto_ctx {
    int opaque;
};

struct bpf_crypto_ctx *bpf_crypto_ctx_create(const struct bpf_crypto_params *params, __u32 params__sz,
                                             int *err) __ksym;
void bpf_crypto_ctx_release(struct bpf_crypto_ctx *ctx) __ksym;
int bpf_crypto_encrypt(struct bpf_crypto_ctx *ctx, const struct bpf_dynptr *source,
                       const struct bpf_dynptr *target, const struct bpf_dynptr *siv__nullable) __ksym;
int bpf_dynptr_from_xdp(struct xdp_md *ctx, __u64 flags, struct bpf_dynptr *ptr) __ksym;
__u32 bpf_dynptr_size(const struct bpf_dynptr *ptr) __ksym;
int bpf_dynptr_adjust(const struct bpf_dynptr *ptr, __u64 start, __u64 end) __ksym;

struct keyed {
    struct bpf_crypto_ctx __kptr *cipher;
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct keyed);
} ciphers SEC(".maps");

struct encrypted {
    __u8 bytes[4096];
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct encrypted);
} encrypted_packets SEC(".maps");

/* Once, before the first packet: in a program that may sleep. Returns what the kernel says. */
SEC("syscall") int make_cipher(void *ctx __attribute__((unused))) {
    struct bpf_crypto_params params = {.type = "skcipher", .algo = "ecb(aes)", .key_len = KEY_BYTES};
    __u32 zero = 0;
    int refused = 0;
    struct keyed *place = bpf_map_lookup_elem(&ciphers, &zero);
    if (!place)
        return -1;
    struct bpf_crypto_ctx *cipher = bpf_crypto_ctx_create(&params, sizeof(params), &refused);
    if (!cipher)
        return refused;
    struct bpf_crypto_ctx *former = bpf_kptr_xchg(&place->cipher, cipher);
    if (former)
        bpf_crypto_ctx_release(former);
    return 0;
}

/* Whole blocks of what follows the frame's headers. */
SEC("xdp") int encrypt(struct xdp_md *ctx) {
    __u32 zero = 0, end;
    struct keyed *place = bpf_map_lookup_elem(&ciphers, &zero);
    struct encrypted *room = bpf_map_lookup_elem(&encrypted_packets, &zero);
    struct bpf_dynptr packet, target;
    if (!place || !room)
        return XDP_ABORTED;
    struct bpf_crypto_ctx *cipher = place->cipher;
    if (!cipher || bpf_dynptr_from_xdp(ctx, 0, &packet))
        return XDP_ABORTED;
    end = bpf_dynptr_size(&packet);
    end -= (end - V4_FRAME_LEN) % BLOCK_BYTES;
    if (bpf_dynptr_adjust(&packet, V4_FRAME_LEN, end) ||
        bpf_dynptr_from_mem(room->bytes, sizeof(room->bytes), 0, &target))
        return XDP_ABORTED;
    return bpf_crypto_encrypt(cipher, &packet, &target, 0) ? XDP_ABORTED : XDP_DROP;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
