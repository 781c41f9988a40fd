// The collectives of a group in the order of submission: which of them have ended here, and which of them a
// rank that has left keeps from ending.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace wiresum {

// A collective that waits for ranks that have left.
struct Stalled {
    // Ranks that left before it, in order.
    std::vector<int> ranks;
    uint64_t number;
    std::string collective;
    // Whether the first of the ranks said when it left.
    bool was_told;
};

// All ranks number collectives alike, whether the network carries them or Gloo. Thread-safe.
class Progress {
  public:
    // How far a rank was when it left.
    struct Count {
        // The first collective that has not ended well.
        uint64_t ended;
        // Collectives that were submitted.
        uint64_t begun;
    };

    // Number of a message between two ranks, which is behind every collective.
    static constexpr uint64_t kMessage = INT64_MAX - 1;
    // The count of a rank whose connection ended without a word.
    static constexpr Count kUnknown{0, INT64_MAX};

    // Returns the number of the next collective.
    uint64_t begin(const char *collective);
    // The collective has ended on this rank.
    void end(uint64_t number, bool is_well);
    // The collective has failed as if a rank had left: it waits until `end`.
    void begin_again(uint64_t number, const char *collective);
    Count count() const;

    // A rank has left after this count. Nothing happens until a collective waits for the rank.
    //
    // `is_lost` is false if a closed connection is not to end any collective.
    void note_absence(int rank, Count count, bool is_lost = true);
    // The others go on without these ranks.
    void forget_absences(const std::vector<int> &ranks);
    // Ranks that have left, in words; empty if all are there.
    std::string absentees() const;
    // Waits for a collective that cannot end without ranks that have left. Null after `close`.
    std::optional<Stalled> await_stalled();
    void close();

  private:
    using Clock = std::chrono::steady_clock;

    // A rank sends its part before it leaves. What is on its way then arrives in this time, or not at all: it
    // is far above the time of a packet that is sent again, and half of what a rank may take to be missed.
    static constexpr std::chrono::seconds kGrace{1};

    struct Pending {
        const char *collective;
        Clock::time_point since;
    };
    struct Absence {
        Count count;
        bool is_lost;
        Clock::time_point since;
    };

    std::optional<uint64_t> stalled_by(const Absence &absence, Clock::time_point now,
                                       Clock::time_point &look) const;

    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::map<uint64_t, Pending> pending_;
    uint64_t begun_ = 0;
    std::optional<uint64_t> first_failed_;
    std::map<int, Absence> absences_;
    bool is_closed_ = false;
};

} // namespace wiresum
