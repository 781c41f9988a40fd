#include "sealed_link.h"

#include <algorithm>
#include <cstring>

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include "errors.h"
#include "sealed_work.h"

namespace wiresum {

namespace {

// Marks the part of messages between two ranks, which have tags; collectives have parts below.
constexpr uint32_t kMessage = 1U << 31;
constexpr auto kLeastWait = std::chrono::milliseconds(1);

at::Tensor room(int64_t bytes) { return at::empty({bytes}, at::kByte); }

SealedHeader header_of(const at::Tensor &message) {
    SealedHeader header;
    std::memcpy(&header, message.const_data_ptr(), sizeof(header));
    return header;
}

template <typename Options> Options with(std::chrono::milliseconds timeout) {
    Options options;
    options.timeout = timeout;
    return options;
}

std::vector<int64_t> lengths_of(const SealedLink::Bytes &parts, int own) {
    std::vector<int64_t> lengths;
    for (size_t rank = 0; rank < parts.size(); ++rank) {
        const bool is_sent = parts[rank].defined() && static_cast<int>(rank) != own;
        lengths.push_back(is_sent ? parts[rank].numel() + SealedLink::kOverhead : 0);
    }
    return lengths;
}

int64_t total(const std::vector<int64_t> &lengths) {
    int64_t sum = 0;
    for (const int64_t length : lengths) {
        sum += length;
    }
    return sum;
}

bool are_alike(const SealedHeader &a, const SealedHeader &b) {
    return a.kind == b.kind && a.operation == b.operation && a.element_type == b.element_type &&
           a.root == b.root && a.bytes == b.bytes;
}

std::string text_of(const SealedHeader &header) {
    return c10::str(c10d::opTypeToString(static_cast<c10d::OpType>(header.kind)), " of ", header.bytes,
                    " bytes of type ", static_cast<int>(header.element_type), " (operation ",
                    static_cast<int>(header.operation), ", root ", header.root, ")");
}

} // namespace

at::Tensor memory_of(const at::Tensor &tensor) {
    const auto bytes = static_cast<int64_t>(tensor.nbytes());
    return bytes == 0 ? room(0) : at::from_blob(tensor.mutable_data_ptr(), {bytes}, at::kByte);
}

SealedLink::SealedLink(c10::intrusive_ptr<c10d::Backend> gloo, GlooKeys keys, std::vector<int> names)
    : keys_(std::move(keys)), names_(std::move(names)), rank_(gloo->getRank()), size_(gloo->getSize()),
      gloo_(std::move(gloo)) {
    TORCH_CHECK(static_cast<int>(names_.size()) == size_ && keys_->rank == static_cast<uint32_t>(rank_),
                "wiresum: the keys of a Gloo group are for other ranks. This is a defect: please report it.");
    agree();
}

// Each rank's own salt is new, so no key of its own was ever used. Others lie about theirs in vain: then the
// first messages do not open.
void SealedLink::agree() {
    at::Tensor own = room(WIRESUM_SALT_BYTES);
    std::memcpy(own.mutable_data_ptr(), keys_->salt, WIRESUM_SALT_BYTES);
    at::Tensor salts = room(static_cast<int64_t>(size_) * WIRESUM_SALT_BYTES);
    gloo_->all_gather_single(salts, own)->wait();
    TORCH_CHECK(
        keys_->agree(keys_->keys, salts.const_data_ptr<uint8_t>()) == 0,
        "wiresum: this rank's part of the keys did not come back from Gloo: someone between the hosts "
        "changed it.");
    Step step;
    step.deadline = std::chrono::steady_clock::time_point::max();
    step.header.kind = static_cast<uint8_t>(c10d::OpType::UNKNOWN);
    all_gather(step, room(0), Bytes(size_, room(0)));
}

c10::intrusive_ptr<c10d::Backend> SealedLink::gloo() const {
    std::lock_guard lock(mutex_);
    if (!gloo_) {
        throw CollectiveError(WIRESUM_FAILED, why_);
    }
    return gloo_;
}

void SealedLink::fail(const std::string &why) {
    c10::intrusive_ptr<c10d::Backend> gloo;
    std::lock_guard lock(mutex_);
    if (gloo_) {
        why_ = why;
        gloo.swap(gloo_);
        // The last reference closes the connections, and joins Gloo's threads.
        TaskPool::instance().post([gloo = std::move(gloo)]() mutable { gloo.reset(); });
    }
}

void SealedLink::reject(int sender, const std::string &detail) {
    const std::string why = c10::str("a packet from rank ", names_[sender],
                                     " is not authentic: someone between the hosts changed it", detail, ". ",
                                     remedy(WIRESUM_FAILED));
    fail(why);
    throw CollectiveError(WIRESUM_FAILED, why);
}

std::chrono::milliseconds SealedLink::remaining(const Step &step) const {
    if (step.deadline == std::chrono::steady_clock::time_point::max()) {
        return c10d::kUnsetTimeout;
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(step.deadline -
                                                                            std::chrono::steady_clock::now());
    return std::max<std::chrono::milliseconds>(left, kLeastWait);
}

void SealedLink::seal(const Step &step, int receiver, const at::Tensor &bytes,
                      const at::Tensor &message) const {
    auto *start = message.mutable_data_ptr<uint8_t>();
    std::memcpy(start, &step.header, sizeof(SealedHeader));
    const wiresum_message sealed{
        .number = step.header.number,
        .part = step.part,
        .peer = static_cast<uint32_t>(std::max(receiver, 0)),
        .is_for_all = receiver < 0 ? 1U : 0U,
        .header_bytes = sizeof(SealedHeader),
        .header = start,
        .plain = static_cast<uint8_t *>(bytes.mutable_data_ptr()),
        .cipher = start + sizeof(SealedHeader),
        .bytes = static_cast<uint64_t>(bytes.numel()),
    };
    TORCH_CHECK(keys_->seal(keys_->keys, &sealed) == 0, "wiresum: a message of ", bytes.numel(),
                " bytes cannot be encrypted.");
}

void SealedLink::open(const Step &step, int sender, bool is_for_all, const at::Tensor &message,
                      const at::Tensor &bytes) {
    auto *start = message.mutable_data_ptr<uint8_t>();
    const wiresum_message sealed{
        .number = step.header.number,
        .part = step.part,
        .peer = static_cast<uint32_t>(sender),
        .is_for_all = is_for_all ? 1U : 0U,
        .header_bytes = sizeof(SealedHeader),
        .header = start,
        .plain = static_cast<uint8_t *>(bytes.mutable_data_ptr()),
        .cipher = start + sizeof(SealedHeader),
        .bytes = static_cast<uint64_t>(bytes.numel()),
    };
    const SealedHeader theirs = header_of(message);
    if (keys_->open(keys_->keys, &sealed) != 0) {
        const bool is_other = theirs.number != step.header.number;
        reject(sender, is_other
                           ? c10::str(", or the ranks called different collectives (that rank is at number ",
                                      theirs.number, ", this one at ", step.header.number, ")")
                           : "");
    }
    compare(step, sender, theirs);
}

void SealedLink::compare(const Step &step, int sender, const SealedHeader &theirs) {
    if (!are_alike(theirs, step.header)) {
        const std::string why =
            c10::str("rank ", names_[sender], " passed ", text_of(theirs), ", and rank ", names_[rank_], " ",
                     text_of(step.header), ". ", remedy(WIRESUM_MISMATCH));
        fail(why);
        throw CollectiveError(WIRESUM_MISMATCH, why);
    }
}

void SealedLink::all_gather(Step &step, const at::Tensor &mine, const Bytes &taken) {
    const int64_t length = mine.numel() + kOverhead;
    const auto gloo = this->gloo();
    at::Tensor own = room(length);
    seal(step, -1, mine, own);
    at::Tensor all = room(length * size_);
    gloo->all_gather_single(all, own, with<c10d::AllgatherOptions>(remaining(step)))->wait();
    for (int rank = 0; rank < size_; ++rank) {
        if (rank != rank_) {
            open(step, rank, true, all.narrow(0, rank * length, length), taken[rank]);
        } else if (taken[rank].numel() > 0 && taken[rank].const_data_ptr() != mine.const_data_ptr()) {
            std::memcpy(taken[rank].mutable_data_ptr(), mine.const_data_ptr(), mine.numel());
        }
    }
    ++step.part;
}

void SealedLink::exchange(Step &step, const Bytes &sent, const Bytes &taken) {
    const auto gloo = this->gloo();
    std::vector<int64_t> sending = lengths_of(sent, rank_);
    std::vector<int64_t> taking = lengths_of(taken, rank_);
    at::Tensor outgoing = room(total(sending));
    at::Tensor incoming = room(total(taking));
    int64_t offset = 0;
    for (int rank = 0; rank < size_; offset += sending[rank++]) {
        if (sending[rank] > 0) {
            seal(step, rank, sent[rank], outgoing.narrow(0, offset, sending[rank]));
        }
    }
    if (size_ > 1) {
        const auto options = with<c10d::AllToAllOptions>(remaining(step));
        gloo->all_to_all_single(incoming, outgoing, taking, sending, options)->wait();
    }
    offset = 0;
    for (int rank = 0; rank < size_; offset += taking[rank++]) {
        if (taking[rank] > 0) {
            open(step, rank, false, incoming.narrow(0, offset, taking[rank]), taken[rank]);
        }
    }
    if (sent[rank_].defined() && taken[rank_].defined() && taken[rank_].numel() > 0) {
        std::memmove(taken[rank_].mutable_data_ptr(), sent[rank_].const_data_ptr(), taken[rank_].numel());
    }
    ++step.part;
}

void SealedLink::broadcast(Step &step, int root, const at::Tensor &bytes) {
    const auto gloo = this->gloo();
    std::vector<at::Tensor> message{room(bytes.numel() + kOverhead)};
    if (rank_ == root) {
        seal(step, -1, bytes, message[0]);
    }
    auto options = with<c10d::BroadcastOptions>(remaining(step));
    options.rootRank = root;
    gloo->broadcast(message, options)->wait();
    if (rank_ != root) {
        open(step, root, true, message[0], bytes);
    }
    ++step.part;
}

c10::intrusive_ptr<c10d::Work> SealedLink::send(const at::Tensor &bytes, int destination, int tag) {
    const auto gloo = this->gloo();
    Step step;
    step.header.kind = static_cast<uint8_t>(c10d::OpType::SEND);
    step.header.bytes = static_cast<uint64_t>(bytes.numel());
    step.part = kMessage | static_cast<uint32_t>(tag);
    std::vector<at::Tensor> message{room(bytes.numel() + kOverhead)};
    {
        std::lock_guard lock(mutex_);
        step.header.number = sent_[{destination, tag}]++;
    }
    seal(step, destination, bytes, message[0]);
    return gloo->send(message, destination, tag);
}

c10::intrusive_ptr<c10d::Work> SealedLink::receive(const at::Tensor &tensor, int source, int tag) {
    const auto gloo = this->gloo();
    std::vector<at::Tensor> message{room(static_cast<int64_t>(tensor.nbytes()) + kOverhead)};
    uint64_t expected = kAnyNumber;
    {
        std::lock_guard lock(mutex_);
        if (source < 0) {
            open_tags_.insert(tag);
        } else if (open_tags_.count(tag) == 0) {
            expected = received_[{source, tag}].posted++;
        }
    }
    auto inner = source < 0 ? gloo->recvAnysource(message, tag) : gloo->recv(message, source, tag);
    return c10::make_intrusive<SealedMessage>(shared_from_this(), std::move(inner), message[0], tensor,
                                              source, tag, expected);
}

bool SealedLink::has_order(int tag, uint64_t expected) const {
    std::lock_guard lock(mutex_);
    return expected != kAnyNumber && open_tags_.count(tag) == 0;
}

// Between two ranks the number is the next one, unless a receive from any rank may have taken it. Then it is
// one that was not taken before.
void SealedLink::take(const at::Tensor &message, int source, int tag, uint64_t expected,
                      const at::Tensor &bytes) {
    SealedHeader header = header_of(message);
    Step step{header, {}, kMessage | static_cast<uint32_t>(tag)};
    const bool fits = header.bytes <= static_cast<uint64_t>(bytes.numel());
    if (!fits || (has_order(tag, expected) && header.number != expected)) {
        reject(source, "");
    }
    const auto length = static_cast<int64_t>(header.bytes);
    open(step, source, false, message.narrow(0, 0, length + kOverhead), bytes.narrow(0, 0, length));
    bool is_new = false;
    {
        std::lock_guard lock(mutex_);
        Received &line = received_[{source, tag}];
        is_new = header.number >= line.next && line.out_of_order.insert(header.number).second;
        while (line.out_of_order.erase(line.next) > 0) {
            ++line.next;
        }
    }
    if (!is_new) {
        reject(source, " or sent it twice");
    }
}

} // namespace wiresum
