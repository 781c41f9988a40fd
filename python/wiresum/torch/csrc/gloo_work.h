// A collective that Gloo carries, once the ranks have compared its signatures.
#pragma once

#include <functional>
#include <vector>

#include "agreement.h"
#include "share_work.h"

namespace wiresum {

// How Gloo carries a collective.
struct GlooCall {
    Reason reason; // why the network does not
    Signature signature;
    // Told to ranks that are in the network at the same place: why this one is not.
    Refusal refusal = Refusal::None;
    // Whether signatures travel in a share of the network; else Gloo carries them.
    bool has_shares = false;
    // Elements for each rank, and from each, of an exchange in which each pair has its own number.
    std::vector<int64_t> sent = {};
    std::vector<int64_t> received = {};
    // What none of the kinds describes; else null.
    std::function<void(c10d::Backend &)> carry = nullptr;
};

// Collectives of a group take turns on Gloo, in the order in which their signatures have come.
class GlooWork final : public ShareWork {
  public:
    GlooWork(std::shared_ptr<GroupContext> group, Request request, GlooCall call);

    void submit(const wiresum_engine_abi *engine, const std::string &why_closed) override;
    void leave(const std::string &why) override;

  private:
    void arrive(Reason reason) override;
    void wait_for_turn();
    void fill_place(Task task);
    void run();
    void compare(c10d::Backend &gloo);
    void compare_splits(c10d::Backend &gloo);
    void carry(c10d::Backend &gloo);
    void exchange(c10d::Backend &gloo);
    void release() override;
    // The error of a collective that Gloo has not ended: it names a rank that is lost.
    std::exception_ptr explained(const std::exception &trouble) const;

    const GlooCall call_;
    std::optional<uint64_t> place_; // among the collectives of Gloo, until it is filled
    const uint64_t losses_before_;
    Ends ends_;
};

} // namespace wiresum
