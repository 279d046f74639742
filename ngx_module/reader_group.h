// SPDX-License-Identifier: BSD-2-Clause
// Streams of one worker that read the same channels at the same place. A message is read from the
// zone and framed once for all of them, and they are one position in each channel's log. A stream
// whose socket is full leaves with a position of its own, and comes back when it has caught up.
#pragma once

#include "core/channel.h"
#include "core/errors.h"
#include "core/history.h"
#include "ngx_module/subscribed_stream.h"
#include "ngx_module/worker.h"

namespace durable {

class ReaderGroup {
public:
    ReaderGroup(ReaderGroups& groups, std::string key, Framing framing, ngx_uint_t format);
    ~ReaderGroup();

    void add(SubscribedStream& stream) noexcept;
    void remove(SubscribedStream& stream) noexcept;
    // The only member's socket is free again.
    void on_member_ready() noexcept { process(); }
    // A member's socket is full although no message was sent.
    void on_member_blocked(SubscribedStream& stream) noexcept;

private:
    friend class ReaderGroups;

    // A place in one channel.
    struct Reader final : StationListener {
        ReaderGroup* group = nullptr;
        CursorRecord* cursor = nullptr;
        const MessageRecord* peek = nullptr;  // while reading under the lock
        std::string channel;
        void on_station_ready() noexcept override { group->process(); }
    };
    using Readers = std::vector<std::unique_ptr<Reader>>;

    // What was read in one hold of the lock; the texts are in ReaderGroups::scratch_.
    struct Read {
        struct Message {
            Reader* reader;
            std::uint64_t epoch, number;  // its id where it is kept, else epoch is 0
            std::size_t event_size, size;
        };
        std::vector<Message> messages;
        std::vector<std::string> close_reasons;
        bool is_dropped = false;
    };
    // A member that took only the first `accepted` frames.
    struct Slow {
        SubscribedStream* stream = nullptr;
        std::size_t accepted = 0;
        std::unique_ptr<ReaderGroup> group;  // nullptr: it has this group for itself
        bool is_lost = false;                // no memory for a position of its own
    };

    // Its place among all groups of the zone.
    struct Link {
        ngx_queue_t queue{};
        ReaderGroup* group = nullptr;
    };

    std::unique_ptr<ReaderGroup> like_this() const;
    void add_reader(std::string_view channel);
    void process() noexcept;
    bool process_once();
    void read(ZoneLock& lock, Read& read);
    Reader* next_reader() const noexcept;
    void take_drained(ZoneLock& lock, Read& read);
    void render(const Read& read, FrameBatch& batch) const;
    void send_to_members(const FrameBatch& batch, std::vector<Slow>& slow);
    bool advance(ZoneLock& lock, const Read& read, std::vector<Slow>& slow) noexcept;
    void split(ZoneLock& lock, Slow& slow) noexcept;
    void settle_slow(std::vector<Slow>& slow);
    void end_members(bool were_dropped) noexcept;
    void listen();
    void unshare() noexcept;
    bool has_caught_up() const noexcept;
    bool has_blocked_member() const noexcept;
    SubscribedStream* first_member() const noexcept;

    ReaderGroups& groups_;
    std::string key_;
    Readers readers_;
    ngx_queue_t members_;
    Link link_;
    std::uint32_t member_count_ = 0;
    ngx_uint_t format_;
    Framing framing_;
    bool is_shared_ = false;
    bool is_processing_ = false;
};

// Where a stream begins (H-3 to H-5).
struct StreamOrigin {
    std::optional<std::string> asked;  // the last id that the client has
    bool from_oldest = false;

    bool is_newest() const noexcept { return !asked && !from_oldest; }
};

// All groups of one worker in one zone.
class ReaderGroups {
public:
    explicit ReaderGroups(WorkerZone& zone) noexcept : zone_(zone) { ngx_queue_init(&groups_); }
    ~ReaderGroups();

    // Subscribes the stream to the channels, which are sorted and checked. On failure nothing changed.
    // `first` is appended what comes before all messages.
    [[nodiscard]] ErrorCode join(SubscribedStream& stream, std::string_view object_key,
                                 const std::vector<std::string>& channels, ngx_uint_t format,
                                 const StreamOrigin& origin, std::string& first);

    // Ends all streams, each behind its last whole message.
    void end_all() noexcept;

private:
    friend class ReaderGroup;

    ErrorCode join_shared(ReaderGroup& group, bool& is_open) noexcept;
    ErrorCode open(ZoneLock& lock, ReaderGroup& group, std::string_view object_key,
                   const std::vector<std::string>& channels, const StreamOrigin& origin, Resumption& resumption);
    // Puts a group back among those of its key. It may be gone after it.
    void try_share(ReaderGroup* group) noexcept;
    void close_later(SubscribedStream& stream) { to_close_.push_back(&stream); }
    void close_failed() noexcept;
    ReaderGroup* first_group() noexcept;

    WorkerZone& zone_;
    std::unordered_map<std::string, ReaderGroup*> shared_;
    ngx_queue_t groups_;
    std::vector<SubscribedStream*> to_close_;
    FrameBatch batch_;      // reused
    std::string scratch_;   // a text copied out of the zone
};

}  // namespace durable
