// Gloo as a carrier of encrypted bytes: what a sealed or proven job sends outside the network.
//
// PyTorch's wheels have no encrypted transport for Gloo. So Gloo moves messages that are sealed with the
// job's keys (`spec/security.md`, *Gloo*), and each rank reduces what it opens.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "gloo_keys.h"

namespace wiresum {

// The clear part of a message, which is authenticated: ranks compare it.
struct SealedHeader {
    uint8_t kind = 0; // c10d::OpType
    uint8_t operation = 0;
    uint8_t element_type = 0;
    uint8_t unused = 0;
    uint32_t root = 0;
    uint64_t bytes = 0;
    uint64_t number = 0;
};

// The keys of a group, kept alive by whoever holds this.
using GlooKeys = std::shared_ptr<const wiresum_gloo_keys>;

// A group of Gloo whose ranks have agreed on keys. Threads may share it.
class SealedLink : public std::enable_shared_from_this<SealedLink> {
  public:
    using Bytes =
        std::vector<at::Tensor>; // contiguous uint8 on the host, one for each rank; undefined for none

    // Header and tag of a message.
    static constexpr int64_t kOverhead = sizeof(SealedHeader) + WIRESUM_TAG_BYTES;

    // Agrees on keys with the other ranks. `names` has the rank of each member, as people know it.
    //
    // Throws a CollectiveError that names a rank without the job's keys.
    SealedLink(c10::intrusive_ptr<c10d::Backend> gloo, GlooKeys keys, std::vector<int> names);

    int rank() const { return rank_; }
    int size() const { return size_; }
    // The group itself; throws why the link is broken, if it is.
    c10::intrusive_ptr<c10d::Backend> gloo() const;
    // Closes this rank's connections, so that no other rank waits for it. Later calls throw why.
    void fail(const std::string &why);

    // One collective; `part` of all ranks advance alike.
    struct Step {
        SealedHeader header;
        std::chrono::steady_clock::time_point deadline;
        uint32_t part = 0;
    };

    // Sends `mine` to every rank; `taken` gets the bytes of each, all as long.
    void all_gather(Step &step, const at::Tensor &mine, const Bytes &taken);
    // Sends each rank its own bytes, and takes from each. Both ends know which are undefined.
    void exchange(Step &step, const Bytes &sent, const Bytes &taken);
    // Copies the root's bytes to all ranks.
    void broadcast(Step &step, int root, const at::Tensor &bytes);

    // A message of one rank to another.
    c10::intrusive_ptr<c10d::Work> send(const at::Tensor &bytes, int destination, int tag);
    // `source` is -1 for any rank.
    c10::intrusive_ptr<c10d::Work> receive(const at::Tensor &tensor, int source, int tag);
    // Opens a message that has come.
    void take(const at::Tensor &message, int source, int tag, uint64_t expected, const at::Tensor &bytes);

    // In the place of a number that a receiver cannot know.
    static constexpr uint64_t kAnyNumber = UINT64_MAX;

  private:
    void agree();
    void seal(const Step &step, int receiver, const at::Tensor &bytes, const at::Tensor &message) const;
    void open(const Step &step, int sender, bool is_for_all, const at::Tensor &message,
              const at::Tensor &bytes);
    void compare(const Step &step, int sender, const SealedHeader &theirs);
    // Whether a receive gets the messages of its source in their order.
    bool has_order(int tag, uint64_t expected) const;
    [[noreturn]] void reject(int sender, const std::string &detail);
    std::chrono::milliseconds remaining(const Step &step) const;

    const GlooKeys keys_;
    const std::vector<int> names_;
    const int rank_;
    const int size_;

    mutable std::mutex mutex_;
    c10::intrusive_ptr<c10d::Backend> gloo_; // null once the link is broken
    std::string why_;
    // Messages by peer and tag.
    using Line = std::pair<int, int>;
    struct Received {
        uint64_t posted = 0;             // receives that name the source
        std::set<uint64_t> out_of_order; // taken, beyond `next`
        uint64_t next = 0;               // all before it are taken
    };
    std::map<Line, uint64_t> sent_;
    std::map<Line, Received> received_;
    std::set<int> open_tags_; // with a receive from any rank
};

// A tensor's memory as bytes. It is contiguous, and on the host.
at::Tensor memory_of(const at::Tensor &tensor);

} // namespace wiresum
